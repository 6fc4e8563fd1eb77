package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// TestMasterIsReplacedBesideTheLoad: another master takes the place of a market's while nobody trades, but the driver seeds
// the market, audits it or removes it. The row is as good as any, and nothing is left.
func TestMasterIsReplacedBesideTheLoad(t *testing.T) {
	t.Parallel()
	on := cluster{testkit.Cluster(t)}
	for _, c := range []struct {
		name    string
		command string
		nth     int // such command
		happens func(cluster, *testing.T, market.Keys) error
		sent    int // at least: to the one master, again if it refused, and to the other all from the beginning
	}{
		{"Seeding", "hset", 3, cluster.crash, 3 + 4}, // the first is of the note
		{"SeedingUnnoticed", "hset", 3, cluster.handOver, 4 + 1 + 4},
		{"Stocking", "zadd", 2, cluster.crash, 2 + 6},
		{"Auditing", "zscan", 1, cluster.crash, 1 + 1},
		{"AuditingUnnoticed", "zscan", 1, cluster.handOver, 1 + 1 + 1},
		{"Removing", "unlink", 3, cluster.crash, 3 + 7},
		{"RemovingUnnoticed", "unlink", 3, cluster.handOver, 7 + 1 + 7},
	} {
		t.Run(c.name, func(t *testing.T) { on.replacedAt(t, &strike{command: c.command, nth: c.nth}, c.happens, c.sent) })
	}
	t.Run("Claiming", on.replacedAtClaim)
	t.Run("AfterLosses", on.replacedAfterLosses)
}

// A strike happens once, before the n-th command of a name is sent, or the pipeline that holds it.
type strike struct {
	command string
	mu      sync.Mutex
	nth     int
	seen    int
	happens func() error // its error is the command's
}

// over adds the strike to every connection that dial makes.
func (s *strike) over(dial func(context.Context) (*backend.Conn, error)) func(context.Context) (*backend.Conn, error) {
	return func(ctx context.Context) (*backend.Conn, error) {
		conn, err := dial(ctx)
		if err == nil {
			conn.AddHook(s)
		}
		return conn, err
	}
}

func (s *strike) meet(cmds ...redis.Cmder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Name() == s.command }) {
		return nil
	}
	if s.seen++; s.seen != s.nth {
		return nil
	}
	return s.happens()
}

func (s *strike) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *strike) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := s.meet(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (s *strike) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := s.meet(cmds...); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// pair is the master of a market's slot, and its replica.
func (on cluster) pair(t *testing.T, keys market.Keys) (master, replica int) {
	t.Helper()
	master, err := on.Master(t.Context(), keys.Run())
	if err == nil {
		replica, err = on.ReplicaOf(t.Context(), master)
	}
	check(t, err)
	return master, replica
}

// crash kills a market's master, which does not answer any more. Its replica has all that it had.
func (on cluster) crash(t *testing.T, keys market.Keys) error {
	master, _ := on.pair(t, keys)
	check(t, passOn(t.Context(), on.Server().Dialer(keys.Run()), keys))
	check(t, on.Kill(master))
	return io.EOF
}

// passOn returns when a replica has what the master of a market has. It writes what the market's note says already.
func passOn(ctx context.Context, dial func(context.Context) (*backend.Conn, error), keys market.Keys) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.HIncrBy(ctx, keys.Run(), "items", 0).Err(); err != nil {
		return err
	}
	if n, err := conn.Wait(ctx, 1, time.Minute).Result(); err != nil || n == 0 {
		return fmt.Errorf("no replica has what its master has: %w", err)
	}
	return nil
}

// handOver gives a market's slot to another master: no connection breaks, and what is sent follows by itself.
func (on cluster) handOver(t *testing.T, keys market.Keys) error {
	other, err := on.OtherMaster(t.Context(), keys.Run())
	if err == nil {
		err = on.MoveSlot(t.Context(), keys.Run(), other)
	}
	if err != nil {
		return err
	}
	return backend.Await(t.Context(), time.Millisecond, func() error {
		for _, addr := range on.Addrs() {
			told, err := backend.OpenCluster(t.Context(), backend.Target{Network: "tcp", Addr: addr})
			if err != nil {
				return err
			}
			if at := told.Master(keys.Run()).Addr; at != on.Addrs()[other] {
				return fmt.Errorf("%s says that %s has the slot", addr, at)
			}
		}
		return nil
	})
}

// mend starts what was killed again, as a replica, and waits for it.
func (on cluster) mend(t *testing.T, killed int) {
	t.Helper()
	check(t, on.Restart(t.Context(), killed))
	check(t, on.AwaitReady(t.Context()))
}

func (on cluster) replacedAt(t *testing.T, at *strike, happens func(cluster, *testing.T, market.Keys) error, sent int) {
	c := config(t, on.Server(), spec(t, "lua"))
	c.Mix, c.Purchases = result.Mix{Sellers: 2, Buyers: 2}, 30
	switch at.command {
	case "zadd":
		c.Stock = 5 * market.BatchSize
	case "hset", "unlink": // are sent for a thousand keys at a time
		c.Accounts = 3000
	}
	c.Dial = at.over(on.Server().Dialer(c.Keys.Prefix()))
	master, _ := on.pair(t, c.Keys)
	at.happens = func() error { return happens(on, t, c.Keys) }
	row, err := Run(t.Context(), c)
	if err != nil || row.Status != result.Complete || row.Bought < c.Purchases || !row.Audit.Done || !row.Audit.OK {
		t.Errorf("%s, bought %d, audit %+v, warnings %q, %v", row.Status, row.Bought, row.Audit, row.Warnings, err)
	}
	if at.seen < sent {
		t.Errorf("%s was sent %d times, want %d", at.command, at.seen, sent)
	}
	if said := strings.Contains(strings.Join(row.Warnings, "\n"), "before its audit had ended"); said != (at.command == "zscan") {
		t.Errorf("warnings %q", row.Warnings)
	}
	if _, err := on.ReplicaOf(t.Context(), master); err != nil {
		on.mend(t, master)
	}
	on.clean(t)
}

// replacedAtClaim: whether the prefix was claimed nobody knows, so that nothing under it is removed.
func (on cluster) replacedAtClaim(t *testing.T) {
	c := config(t, on.Server(), spec(t, "lua"))
	master, _ := on.pair(t, c.Keys)
	at := &strike{command: "hsetnx", nth: 1, happens: func() error {
		check(t, on.Kill(master))
		return io.EOF
	}}
	c.Dial = at.over(on.Server().Dialer(c.Keys.Prefix()))
	_, err := Run(t.Context(), c)
	if !errors.Is(err, market.ErrUnclaimed) || at.seen != 1 || !strings.Contains(err.Error(), on.Addrs()[master]) ||
		!strings.Contains(err.Error(), "'marketsim clean --prefix "+c.Keys.Prefix()+"'") {
		t.Errorf("%d claims: %v", at.seen, err)
	}
	on.mend(t, master)
	on.clean(t)
}

// replacedAfterLosses: the master dies while it is audited, and has not passed on what was bought last. The audit is of what
// the new master has, and of nothing that the old one had.
func (on cluster) replacedAfterLosses(t *testing.T) {
	const cutAt = 10 // purchases
	c := config(t, on.Server(), spec(t, "lua"))
	master, replica := on.pair(t, c.Keys)
	at := &strike{command: "zscan", nth: 1, happens: func() error {
		return errors.Join(on.Kill(master), on.Resume(replica))
	}}
	c.Dial = at.over(on.Server().Dialer(c.Keys.Prefix()))
	bought := 0
	c.steps = func(r Role) step.Observer {
		return func(_ context.Context, s step.Name) {
			if r != Buyer || s != step.Written {
				return
			}
			if bought++; bought == cutAt {
				check(t, on.CutReplication(t.Context(), master, replica))
			}
		}
	}
	row, err := Run(t.Context(), c)
	if err != nil || !row.Audit.Done || !row.Audit.OK || row.Audit.Gone == nil || row.Audit.Gone.Purchases < c.Purchases-cutAt {
		t.Errorf("bought %d, audit %+v, gone %+v, %v", row.Bought, row.Audit, row.Audit.Gone, err)
	}
	on.mend(t, master)
	on.clean(t)
}
