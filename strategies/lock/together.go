package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// A Together is a Locker that takes several locks by one command.
type Together interface {
	Locker
	// AcquireTogether takes the locks called names, all of them or none, and returns their leases in the same order. Its
	// errors are those of Acquire.
	AcquireTogether(ctx context.Context, names []string) ([]Lease, error)
}

// takeParam chooses the command that takes the lock. MSETEX NX sets all of several keys, or none if one of them exists:
// nobody holds one lock and waits for another, so that the order in which locks are taken does not matter any more. The
// keys must be in one slot of a cluster.
//
// Source: redis.io/commands/msetex, valkey.io/commands/msetex.
var takeParam = param.Choice("take",
	"what takes it: SET NX, or MSETEX NX, which takes all locks of an operation or none (Redis 8.4, Valkey 9.1)",
	"set", byMSetEx)

const byMSetEx = "msetex"

// checkTogether refuses what MSETEX cannot do.
func checkTogether(v param.Values) error {
	if v.Text(takeParam) == byMSetEx && (v.Text(getParam) == "on" || v.Count(waitParam) > 0) {
		return errors.New("take=msetex goes with neither get=on nor wait: MSETEX does not answer what it found, and WAIT " +
			"follows SET")
	}
	return nil
}

// together is the Locker of set-px with take=msetex.
type together struct{ *polled }

// AcquireTogether implements Together.
func (l together) AcquireTogether(ctx context.Context, names []string) ([]Lease, error) {
	leases, grants := make([]Lease, len(names)), make([]*setPXLease, len(names))
	for i, name := range names {
		grants[i] = l.grants(l.lease(name)).(*setPXLease)
		leases[i] = grants[i]
	}
	if err := l.until(ctx, func(ctx context.Context) (bool, error) { return takeTogether(ctx, grants...) }); err != nil {
		return nil, fmt.Errorf("acquire locks %s: %w", strings.Join(names, " and "), err)
	}
	return leases, nil
}

// takeTogether makes one attempt to take all of several locks.
func takeTogether(ctx context.Context, all ...*setPXLease) (bool, error) {
	args := make([]any, 0, 5+2*len(all))
	args = append(args, "msetex", len(all))
	for _, l := range all {
		args = append(args, l.key, l.token)
	}
	cmd := redis.NewIntCmd(ctx, append(args, "nx", all[0].expiry, all[0].when())...)
	if err := all[0].rdb.Process(ctx, cmd); err != nil {
		return false, Abandon(ctx, err, func(ctx context.Context) error {
			var errs []error
			for _, l := range all {
				if err := l.Release(ctx); !errors.Is(err, ErrLost) {
					errs = append(errs, err)
				}
			}
			return errors.Join(errs...)
		})
	}
	return cmd.Val() == 1, nil
}

// when is the expiry as an argument, in the unit of the word before it.
func (l *setPXLease) when() int64 {
	switch ttl := l.ttl(); l.expiry {
	case "ex":
		return int64(ttl / time.Second)
	case "pxat":
		return l.env.now().Add(ttl).UnixMilli()
	case "exat":
		return l.env.now().Add(ttl).Unix()
	default: // px
		return ttl.Milliseconds()
	}
}
