package servers

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

// migrateBatch is how many keys one MIGRATE takes along.
const migrateBatch = 100

// A Move is a slot on its way from one master of a cluster to another, as redis-cli --cluster reshard moves it: in steps,
// between which a client meets ASK (the key has gone already) and TRYAGAIN (some of its keys have).
//
// Source: redis.io, cluster specification, "Live reconfiguration".
type Move struct {
	cluster  *Cluster
	slot     int
	from, to int
	ids      []string // of the nodes
}

// BeginMove begins to move the slot of a key to node to, which must be a master, and moves no key yet. End ends it.
func (c *Cluster) BeginMove(ctx context.Context, key string, to int) (*Move, error) {
	from, err := c.Master(ctx, key)
	if err != nil {
		return nil, err
	}
	m := &Move{cluster: c, slot: backend.Slot(key), from: from, to: to, ids: make([]string, len(c.redises))}
	for _, i := range []int{from, to} {
		if m.ids[i], err = m.ask(ctx, i, "myid").Text(); err != nil {
			return nil, m.failed(err)
		}
	}
	err = m.ask(ctx, to, "setslot", m.slot, "importing", m.ids[from]).Err()
	if err == nil {
		err = m.ask(ctx, from, "setslot", m.slot, "migrating", m.ids[to]).Err()
	}
	return m, m.failed(err)
}

// Keys moves these keys, or all that the slot has if none are named.
func (m *Move) Keys(ctx context.Context, keys ...string) error {
	if len(keys) > 0 {
		return m.failed(m.migrate(ctx, keys))
	}
	for {
		keys, err := m.ask(ctx, m.from, "getkeysinslot", m.slot, migrateBatch).StringSlice()
		if err != nil || len(keys) == 0 {
			return m.failed(err)
		}
		if err := m.migrate(ctx, keys); err != nil {
			return m.failed(err)
		}
	}
}

// End makes the other node the slot's master. All keys must have moved.
func (m *Move) End(ctx context.Context) error {
	for _, i := range []int{m.to, m.from} { // in this order there is a master at all times
		if err := m.ask(ctx, i, "setslot", m.slot, "node", m.ids[m.to]).Err(); err != nil {
			return m.failed(err)
		}
	}
	return nil
}

// MoveSlot moves the slot of a key with all its keys to node to.
func (c *Cluster) MoveSlot(ctx context.Context, key string, to int) error {
	m, err := c.BeginMove(ctx, key, to)
	if err == nil {
		err = m.Keys(ctx)
	}
	if err != nil {
		return err
	}
	return m.End(ctx)
}

func (m *Move) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("moving slot %d from %s to %s: %w", m.slot, m.cluster.Addrs()[m.from], m.cluster.Addrs()[m.to], err)
}

// ask sends a CLUSTER command to a node.
func (m *Move) ask(ctx context.Context, i int, args ...any) *redis.Cmd {
	return m.do(ctx, i, append([]any{"cluster"}, args...)...)
}

func (m *Move) migrate(ctx context.Context, keys []string) error {
	host, port, err := net.SplitHostPort(m.cluster.Addrs()[m.to])
	if err != nil {
		return err
	}
	args := []any{"migrate", host, port, "", 0, startTimeout.Milliseconds(), "keys"}
	for _, key := range keys {
		args = append(args, key)
	}
	return m.do(ctx, m.from, args...).Err()
}

func (m *Move) do(ctx context.Context, i int, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	if err := m.cluster.with(ctx, i, func(conn *backend.Conn) error { return conn.Process(ctx, cmd) }); err != nil {
		cmd.SetErr(err)
	}
	return cmd
}
