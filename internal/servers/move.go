package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
)

const migrateBatch = 100 // keys that one MIGRATE takes along

// OtherMaster returns a master that does not serve a key's slot.
func (c *Cluster) OtherMaster(ctx context.Context, key string) (int, error) {
	at, err := c.Master(ctx, key)
	if err != nil {
		return 0, err
	}
	for _, master := range c.Server.Cluster().Masters() {
		if i := slices.Index(c.Addrs(), master.Addr); i >= 0 && i != at {
			return i, nil
		}
	}
	return 0, errors.New("the cluster has one master")
}

// A Move is a slot on its way from one master of a cluster to another, as redis-cli --cluster
// reshard moves it: in steps, between which a client meets ASK (the key has moved) and
// TRYAGAIN (some of its keys have).
//
// Source: redis.io, cluster specification, "Live reconfiguration".
type Move struct {
	cluster  *Cluster
	slot     int
	from, to int
	ids      map[int]string // of the two nodes
}

// BeginMove begins to move the slot of a key to node to, which must be a master, and moves no
// key yet. End ends it.
func (c *Cluster) BeginMove(ctx context.Context, key string, to int) (*Move, error) {
	from, err := c.Master(ctx, key)
	if err != nil {
		return nil, err
	}

	m := &Move{cluster: c, slot: redisconn.Slot(key), from: from, to: to, ids: map[int]string{}}
	for _, i := range []int{from, to} {
		m.ids[i], err = m.do(ctx, i, "cluster", "myid").Text()
		if err != nil {
			return nil, m.explain(err)
		}
	}

	// In this order: the old master sends clients to the new one as soon as it migrates.
	err = m.do(ctx, to, "cluster", "setslot", m.slot, "importing", m.ids[from]).Err()
	if err == nil {
		err = m.do(ctx, from, "cluster", "setslot", m.slot, "migrating", m.ids[to]).Err()
	}
	return m, m.explain(err)
}

// Keys moves these keys.
func (m *Move) Keys(ctx context.Context, keys ...string) error {
	host, port, _ := net.SplitHostPort(m.cluster.Addrs()[m.to])
	password := m.cluster.Redises[m.to].Target.Password
	args := []any{"migrate", host, port, "", 0, startTimeout.Milliseconds(), "auth", password, "keys"}
	for _, key := range keys {
		args = append(args, key)
	}
	return m.explain(m.do(ctx, m.from, args...).Err())
}

// AllKeys moves all keys that the slot has.
func (m *Move) AllKeys(ctx context.Context) error {
	for {
		keys, err := m.do(ctx, m.from, "cluster", "getkeysinslot", m.slot, migrateBatch).StringSlice()
		if err != nil || len(keys) == 0 {
			return m.explain(err)
		}
		if err := m.Keys(ctx, keys...); err != nil {
			return err
		}
	}
}

// End makes the other node the slot's master. All keys must have moved.
func (m *Move) End(ctx context.Context) error {
	for _, i := range []int{m.to, m.from} { // in this order there is a master at all times
		if err := m.do(ctx, i, "cluster", "setslot", m.slot, "node", m.ids[m.to]).Err(); err != nil {
			return m.explain(err)
		}
	}
	return nil
}

func (m *Move) explain(err error) error {
	if err == nil {
		return nil
	}
	all := m.cluster.Addrs()
	return fmt.Errorf("moving slot %d from %s to %s: %w", m.slot, all[m.from], all[m.to], err)
}

// do asks a node for something, whoever has the slot.
func (m *Move) do(ctx context.Context, node int, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	err := redisconn.With(ctx, m.cluster.Redises[node].Target, func(conn *redisconn.Conn) error {
		return conn.Process(ctx, cmd)
	})
	if err != nil {
		cmd.SetErr(err)
	}
	return cmd
}
