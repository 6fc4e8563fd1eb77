package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// ErrNoMaster is returned by Master and Dial while no living node serves the key's slot.
var ErrNoMaster = errors.New("no master serves the slot")

// Addrs are the addresses of the nodes, host:port, also of those that were killed.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		addrs[i] = node.Target.Addr
	}
	return addrs
}

// Master returns which node is the master of a key's slot now.
func (c *Cluster) Master(ctx context.Context, key string) (int, error) {
	var errs []error
	for _, node := range c.nodes {
		conn, err := node.Dial(ctx)
		if err != nil { // it may have been killed: ask the next
			errs = append(errs, err)
			continue
		}
		addr, err := masterOf(ctx, conn, key)
		conn.Close()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i, a := range c.Addrs() {
			if a == addr {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("%w of key %q: %w", ErrNoMaster, key, errors.Join(errs...))
}

// masterOf returns the address of the master of a key's slot, as one node sees it: a node that is not refuses every
// command on the key with "MOVED <slot> <address>".
func masterOf(ctx context.Context, conn *backend.Conn, key string) (string, error) {
	err := conn.Type(ctx, key).Err()
	if err == nil {
		return conn.Options().Addr, nil
	}
	if fields := strings.Fields(err.Error()); redis.HasErrorPrefix(err, "MOVED") && len(fields) == 3 {
		return fields[2], nil
	}
	return "", err
}

// Dial connects to the master of a key's slot. It is a plain connection: should the slot move to another node, its
// commands fail and Dial has to be called again.
func (c *Cluster) Dial(ctx context.Context, key string) (*backend.Conn, error) {
	i, err := c.Master(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.nodes[i].Dial(ctx)
}

// Dialer is Dial for lock.Env, for locks whose keys all lie on the slot of key.
func (c *Cluster) Dialer(key string) func(context.Context) (*redis.Client, error) {
	return func(ctx context.Context) (*redis.Client, error) {
		conn, err := c.Dial(ctx, key)
		if err != nil {
			return nil, err
		}
		return conn.Client, nil
	}
}

// Kill ends node i as a crash would. If it was a master, its replica takes over within two seconds.
func (c *Cluster) Kill(i int) error { return c.nodes[i].Kill() }
