package backend

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Nodes are one worker's connections to the masters of a cluster, one each, for keys that lie on different slots. Each is
// opened when it is first needed. A Nodes is not safe for concurrent use. The caller closes it.
type Nodes struct {
	cluster *Cluster
	dial    func(context.Context, Target) (*Conn, error)
	conns   map[string]*Conn // by address
}

// Nodes returns connections that dial makes, for example [Dial].
func (c *Cluster) Nodes(dial func(context.Context, Target) (*Conn, error)) *Nodes {
	return &Nodes{cluster: c, dial: dial, conns: map[string]*Conn{}}
}

// For is the connection to the master of a key's slot. It does not follow: after an error of a command on the key,
// [Nodes.Again] says whether it was a redirect.
func (n *Nodes) For(ctx context.Context, key string) (*redis.Client, error) {
	target := n.cluster.Master(key)
	conn := n.conns[target.Addr]
	if conn == nil {
		var err error
		if conn, err = n.dial(ctx, target); err != nil {
			return nil, errors.Join(err, n.cluster.Refresh(ctx)) // another master may have taken its place
		}
		n.conns[target.Addr] = conn
	}
	return conn.Client, nil
}

// Dial opens one more connection to that master, which the caller closes. It may be called at any time.
func (n *Nodes) Dial(ctx context.Context, key string) (*redis.Client, error) {
	conn, err := n.dial(ctx, n.cluster.Master(key))
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

// Again reports whether a command failed with a redirect (see [Redirected]), so that it was not executed and may be sent
// again to whom For then returns. It waits a little, because that may not be known yet.
func (n *Nodes) Again(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	var refused redis.Error
	redirected := Redirected(err)
	if redirected || !errors.As(err, &refused) {
		_ = n.cluster.Refresh(ctx) // who is asked next is as good
	}
	return redirected && rest(ctx)
}

// Snapshot adds up what the connections have carried.
func (n *Nodes) Snapshot() (all Counts) {
	for _, conn := range n.conns {
		all = all.Add(conn.Stats.Snapshot())
	}
	return all
}

// Close closes the connections.
func (n *Nodes) Close() error {
	var errs []error
	for _, conn := range n.conns {
		errs = append(errs, conn.Close())
	}
	clear(n.conns)
	return errors.Join(errs...)
}
