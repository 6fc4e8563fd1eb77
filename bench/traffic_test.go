package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// What a lock costs on servers of its own is counted apart from what the market costs, which is 2 round trips (the
// reads, the writes) in 10 commands.
//
//   - redlock: SET and, by EVALSHA, a delete on each of 5 masters.
//   - zookeeper: the node is created; the node is read and the queue is listed, mostly together; the node is deleted.
//   - etcd: the key is put if it is not there, with a look at the queue; and deleted if it is the lock's.
func TestLockServersAreCountedApart(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for name, want := range map[string]struct {
		servers func(t *testing.T) lock.Servers
		count   float64 // of commands; at most one of them travels with another
	}{
		"coarse:redlock:node-timeout=2.5s": {func(t *testing.T) lock.Servers { // a busy machine is slow
			return lock.Servers{Masters: servers.Dialers(testkit.Masters(t, 5).Targets())}
		}, 10},
		"coarse:zookeeper": {func(t *testing.T) lock.Servers {
			return lock.Servers{ZooKeeper: testkit.ZooKeeper(t, 1).Addrs()}
		}, 4},
		"coarse:etcd": {func(t *testing.T) lock.Servers { return lock.Servers{Etcd: testkit.Etcd(t, 1).Addrs()} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subject, err := catalogue.Full().Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			c := config(t, s, subject)
			c.Purchases, c.Servers = 30, want.servers(t)
			row := inTurn(t, c)
			if row.Bought != 30 || row.RoundTripsPerPurchase != 2 || row.CommandsPerPurchase != 10 ||
				*row.BytesPerPurchase < 100 {
				t.Errorf("bought %d for %v round trips, %v commands and %v bytes each, want 30 for 2, 10 and some", row.Bought,
					row.RoundTripsPerPurchase, row.CommandsPerPurchase, *row.BytesPerPurchase)
			}
			got := row.LockServersPerPurchase
			if got == nil || got.RoundTrips < want.count-1 || got.RoundTrips > got.Commands ||
				got.Commands < want.count || got.Commands > want.count+0.2 || got.Bytes < 50 {
				t.Errorf("at the lock's servers %+v a purchase, want %v commands", got, want.count)
			}
		})
	}
}

// Renewals and subscriptions are counted, and no purchase pays for them.
func TestTheBackgroundIsCountedApart(t *testing.T) {
	s := testkit.Local(t)
	run := func(name string, busy bool) result.Row {
		for length := 300 * time.Millisecond; ; length *= 4 { // until both have waited and subscribed, on a busy machine too
			c := config(t, s, onPurchase(t, name, func(next attempt) (market.Receipt, error) { return next() }))
			c.Purchases, c.Duration, c.Mix = 0, length, mix5x5
			row, err := Run(t.Context(), c)
			waited := err == nil && row.Bought > 0 && *row.BuyerPolls > 0 && *row.SellerPolls > 0
			if waited && (row.BackgroundPerSecond.Commands > 0 || !busy) || length > 10*time.Second {
				if err != nil || row.Bought == 0 {
					t.Fatalf("%s: bought %d, %v", name, row.Bought, err)
				}
				return row
			}
		}
	}
	for name, busy := range map[string]bool{"coarse:set-px": false, "coarse:redisson": true} {
		row := run(name, busy)
		if got := row.BackgroundPerSecond; got == nil || (got.Commands > 0) != busy || (got.Bytes > 0) != busy {
			t.Errorf("%s: in the background %+v a second, want some: %t", name, got, busy)
		}
		if row.LockServersPerPurchase != nil {
			t.Errorf("%s has no servers of its own, and exchanged %+v with them", name, row.LockServersPerPurchase)
		}
		if *row.BuyerPolls+*row.SellerPolls != row.Polls || *row.BuyerPolls == 0 || *row.SellerPolls == 0 {
			t.Errorf("%s: %d polls of buyers and %d of sellers, %d of all", name, *row.BuyerPolls, *row.SellerPolls, row.Polls)
		}
	}
}

// A renewal happens while the worker is held with its lock.
func TestARenewalIsInTheBackground(t *testing.T) {
	s := testkit.Local(t)
	workers := connected(t, config(t, s, spec(t, "coarse:set-px+watchdog")))
	defer workers.Close()
	w := workers.sellers[0]
	l, err := lock.WithWatchdog(lockKind(t, "set-px"))
	if err != nil {
		t.Fatal(err)
	}
	env := w.env(w.conn.Load())
	locker, err := l.New(lock.Env{
		Redis: env.Redis, Dial: env.Dial, Key: env.Keys.Lock, Params: map[string]string{"renew": "5ms"}, Traffic: env.Traffic,
	})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locker.Acquire(t.Context(), "item")
	if err != nil {
		t.Fatal(err)
	}
	before := w.traffic()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := backend.Await(ctx, time.Millisecond, func() error {
		if w.background.Snapshot().Commands == 0 {
			return market.ErrContended
		}
		return nil
	}); err != nil {
		t.Error("no renewal was counted")
	}
	if cost := w.traffic().sub(before); cost != (traffic{}) {
		t.Errorf("the worker did nothing, and %+v was counted for its purchases", cost)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	_ = locker.(interface{ Close() error }).Close()
}

func lockKind(t *testing.T, name string) lock.Kind {
	t.Helper()
	for _, k := range lock.All() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("no lock %s", name)
	return lock.Kind{}
}

// connected are the workers of a row whose market is open.
func connected(t *testing.T, c Config) *Workers {
	t.Helper()
	ws := newWorkers(c)
	if err := errors.Join(ws.seed(t.Context()), ws.connect(t.Context())); err != nil {
		t.Fatal(err)
	}
	return ws
}

// The longest silence is that of a server that owes an answer, and not that of workers who ask nothing or of a driver
// that did not run.
func TestSilence(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name    string
		observe func(*silence)
		want    time.Duration
	}{
		{"answers", func(s *silence) {
			for ms := 0; ms < 2000; ms += 50 {
				s.observe(at(ms), int64(ms), true)
			}
		}, 0},
		{"no answer for 3 s", func(s *silence) {
			for ms := 0; ms <= 3500; ms += 50 {
				received := int64(1)
				if ms > 3400 {
					received = 2
				}
				s.observe(at(ms), received, true)
			}
		}, 3400 * time.Millisecond},
		{"nobody asks", func(s *silence) {
			for ms := 0; ms < 2000; ms += 50 {
				s.observe(at(ms), 1, false)
			}
		}, 0},
		{"the driver stood still", func(s *silence) {
			for _, ms := range []int{0, 50, 3000, 3050} {
				s.observe(at(ms), 1, true)
			}
		}, 50 * time.Millisecond},
	} {
		var s silence
		if c.observe(&s); s.longest != c.want {
			t.Errorf("%s: %s, want %s", c.name, s.longest, c.want)
		}
	}
}

// A server that stands still in the middle of a row is noticed, and the row says so. Time in which the driver did not run
// does not count, and a busy machine may leave less than a second: the server then stands still for longer, or once more.
func TestAServerThatStandsStillIsNoticed(t *testing.T) {
	t.Parallel()
	for try := range 12 {
		length := []time.Duration{silent * 5 / 4, 2 * silent, 3 * silent, 4 * silent}[try%4]
		row, err := standsStill(t, length)
		if err == nil && *row.LongestSilenceMS >= 1000 {
			if told := strings.Join(row.Warnings, "\n"); !strings.Contains(told, "answered nobody for ") {
				t.Errorf("warnings %q do not say that the server stood still", row.Warnings)
			}
			return
		}
		t.Logf("standing still for %s: %v, silent for %v ms", length, err, *row.LongestSilenceMS)
	}
	t.Error("it was not noticed")
}

// standsStill runs a row whose server stands still for some time, which a client's time-outs have to allow.
func standsStill(t *testing.T, length time.Duration) (result.Row, error) {
	t.Helper()
	s, n := testkit.Local(t), 0
	resumed := make(chan error, 1)
	c := config(t, s, onPurchase(t, "fine", func(next attempt) (market.Receipt, error) {
		if n++; n == 10 {
			if err := s.Pause(); err != nil {
				t.Error(err)
			}
			time.AfterFunc(length, func() { resumed <- s.Resume() })
		}
		return next()
	}))
	row, err := Run(t.Context(), c)
	if err := <-resumed; err != nil {
		t.Error(err)
	}
	if err == nil && row.Bought != c.Purchases {
		t.Errorf("bought %d, want %d", row.Bought, c.Purchases)
	}
	return row, err
}

// What goes over a connection that workers share is nobody's: a row says that it does not know, and not that it was
// nothing. That the server is silent is seen all the same, and what was bought is right.
func TestASharedConnectionIsNoBuyers(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "lua-shared"))
		c.Mix, c.Purchases, c.History = result.Mix{Sellers: 3, Buyers: 3}, 200, t.TempDir()+"/history"
		row, err := Run(t.Context(), c)
		if err != nil || !row.Audit.OK || row.Bought < 200 {
			t.Fatalf("%v, audit %+v, %d bought", err, row.Audit, row.Bought)
		}
		if row.CommandsPerPurchase != 0 || row.RoundTripsPerPurchase != 0 || row.BytesPerPurchase != nil ||
			row.CommandsPerSecond != nil || row.Cost.Market != (result.Bill{}) || row.Cost.Aborted != nil {
			t.Errorf("it counts %+v, %v commands/s", row.Cost, row.CommandsPerSecond)
		}
		if b := row.BackgroundPerSecond; b != nil && b.Commands > 0 {
			t.Errorf("in the background %+v", b)
		}
		recorded, err := history.Read(c.History)
		if err != nil {
			t.Fatal(err)
		}
		if checked := history.Check(t.Context(), recorded); checked.Answer != history.Linearizable {
			t.Errorf("the history is %s: %+v", checked.Answer, checked)
		}
	})
}

// An answer that is awaited on the connection that workers share is awaited by the row.
func TestSilenceOfASharedConnection(t *testing.T) {
	s := testkit.Embedded(t)
	m := fakeMeasurement(Config{Mix: mix1x1}, nothing, nothing)
	conn, err := s.Dial(backend.Pipelining(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m.markets[0].shared.Store(conn)
	before, _ := m.answers()
	if _, err := conn.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() }); err != nil {
		t.Fatal(err)
	}
	if after, awaited := m.answers(); after <= before || awaited {
		t.Errorf("%d bytes received after %d, awaited: %t", after, before, awaited)
	}
}
