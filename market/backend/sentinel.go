package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNoMaster is returned, wrapped, when no sentinel says where the master is.
var ErrNoMaster = errors.New("no sentinel says where the master is")

// sentinelRoute is the way to the master that the sentinels of t know.
func sentinelRoute(t Target) *Route {
	return newRoute(func(ctx context.Context) (found Target, err error) {
		found, t.Addr, err = findMaster(ctx, t)
		return found, err
	})
}

// FindMaster asks the sentinels of t, one after the other, where the master is that they know by t's name. The error wraps
// [ErrNoMaster].
func FindMaster(ctx context.Context, t Target) (Target, error) {
	found, _, err := findMaster(ctx, t)
	return found, err
}

// findMaster returns with the master the addresses of all sentinels, also of those that only other sentinels know.
//
// Source: redis.io, "Guidelines for Redis clients with support for Redis Sentinel".
func findMaster(ctx context.Context, t Target) (found Target, sentinels string, err error) {
	known := strings.Split(t.Addr, ",")
	var errs []error
	for _, addr := range slices.Clone(known) {
		master, others, err := askSentinel(ctx, addr, t.Master)
		for _, other := range others {
			if !slices.Contains(known, other) {
				known = append(known, other)
			}
		}
		if err == nil {
			found = t
			found.Addr, found.Master = master, ""
			return found, strings.Join(known, ","), nil
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return Target{}, strings.Join(known, ","), fmt.Errorf("%w: %w", ErrNoMaster, errors.Join(errs...))
}

// askSentinel asks the sentinel at addr where the master called name is, and which other sentinels watch it.
func askSentinel(ctx context.Context, addr, name string) (master string, others []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := Dial(ctx, Target{Network: "tcp", Addr: addr})
	if err != nil {
		return "", nil, err
	}
	defer conn.Close()
	at, err := conn.Do(ctx, "sentinel", "get-master-addr-by-name", name).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil, fmt.Errorf("the sentinel at %s knows no master called %q; it knows %s", addr, name, mastersOf(ctx, conn))
	case err != nil || len(at) != 2:
		return "", nil, fmt.Errorf("asking the sentinel at %s for the master %s: it answers %q (%w); is it a sentinel?", addr, name,
			at, err)
	}
	if list, err := conn.Do(ctx, "sentinel", "sentinels", name).Slice(); err == nil {
		for _, one := range list {
			if fields := fieldsOf(one); fields["ip"] != "" {
				others = append(others, net.JoinHostPort(fields["ip"], fields["port"]))
			}
		}
	}
	return net.JoinHostPort(at[0], at[1]), others, nil
}

// mastersOf are the names that a sentinel knows, in words.
func mastersOf(ctx context.Context, conn *Conn) string {
	list, err := conn.Do(ctx, "sentinel", "masters").Slice()
	if err != nil || len(list) == 0 {
		return "none"
	}
	var names []string
	for _, one := range list {
		names = append(names, fieldsOf(one)["name"])
	}
	return strings.Join(names, ", ")
}

// fieldsOf reads what a sentinel says of a server: a map in RESP3.
func fieldsOf(reply any) map[string]string {
	fields := map[string]string{}
	if pairs, ok := reply.(map[any]any); ok {
		for name, value := range pairs {
			fields[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	}
	return fields
}
