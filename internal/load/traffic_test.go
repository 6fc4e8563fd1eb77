package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// connected is a row whose market is open and whose workers are connected, and do
// nothing yet. It counts from now on.
func connected(t testing.TB, c plan) *measurement {
	t.Helper()
	c.timed(time.Hour)
	m := newMeasurement(c.Point, c.Options)
	testkit.Succeeds(t, m.prepare(t.Context()))
	m.window.begin(0, time.Hour)
	return m
}

// TestRoundTrips: what a purchase costs when nobody is in the way, and that the driver
// counts neither more nor less, also for a user's own strategy. A seller lists, and
// when it has ended a buyer buys.
//
//   - watch: WATCH; ZSCORE; HGET; MULTI, HINCRBY, HINCRBY, SADD, ZREM, EXEC,
//     which ends the watch.
//   - unsafe: ZSCORE; HGET; HGET; HSET; HSET; SADD; ZREM.
//   - coarse, fine: SETNX; MULTI, ZSCORE, HGET, EXEC; MULTI and the four writes, EXEC;
//     and the release as printed: WATCH; GET; MULTI, DEL, EXEC.
//   - fine-wallet: a second SETNX and a second release.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	for name, want := range map[string]result.Traffic{
		"watch":       {RoundTrips: 4, Commands: 9},
		"unsafe":      {RoundTrips: 7, Commands: 7},
		"coarse":      {RoundTrips: 6, Commands: 16},
		"fine":        {RoundTrips: 6, Commands: 16},
		"fine-wallet": {RoundTrips: 10, Commands: 22},
	} {
		for _, subject := range []strategies.Spec{
			spec(t, name), strategies.Own("own "+name, spec(t, name).OpenFor),
		} {
			c := config(t, s, subject)
			row := inTurn(t, c)
			if row.Bought != 30 || row.Polls != 0 || row.Retries != 0 || row.GivenUpMS.Count != 0 {
				t.Errorf("%s: bought %d, polls %d, retries %d, %d refused; want 30 and nobody in the way",
					subject, row.Bought, row.Polls, row.Retries, row.GivenUpMS.Count)
			}

			got, want := row.Market,
				result.Traffic{RoundTrips: 30 * want.RoundTrips, Commands: 30 * want.Commands}
			if got.RoundTrips != want.RoundTrips || got.Commands != want.Commands || row.LockServers != nil {
				t.Errorf("%s: %+v for 30 purchases, want %+v", subject, got, want)
			}
		}
	}
}

// inTurn runs a row of 1x1 in which the buyer starts when the seller has ended,
// and buys 30 items.
func inTurn(t *testing.T, c plan) result.Row {
	t.Helper()
	m := connected(t, c)
	for range 100 {
		testkit.Succeeds(t, m.sellers[0].listNext(t.Context()))
	}
	buySome(t, m.buyers[0], 30)
	if err := m.close(); err != nil {
		t.Error(err)
	}
	return m.row()
}

// buySome makes orders until n were met.
func buySome(t *testing.T, w *worker, wanted int64) {
	for w.tally.count[bought] < wanted {
		orders, err := w.browse(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		for _, o := range orders {
			if w.tally.count[bought] < wanted {
				_ = w.purchase(t.Context(), o) // its outcome is counted
			}
		}
	}
}

// TestTrafficInVain: each purchase is aborted once before it is applied, and each item is
// first ordered at a wrong price. A try of watch is WATCH; ZSCORE; HGET; MULTI to EXEC: 9
// commands in 4 round trips. One that is refused is WATCH; ZSCORE; HGET; UNWATCH. All of
// it is what the purchase took.
func TestTrafficInVain(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "watch"))
		other, disturbed := testkit.Dial(t, s), false

		c.steps = func(r role) step.Observer {
			return func(ctx context.Context, at step.Name) {
				if r != buyer || at != step.BeforeWrite {
					return
				}
				disturbed = !disturbed
				if disturbed {
					// The watched key is as before, but was changed: the transaction is aborted.
					other.ZAdd(ctx, c.Keys.Market(), redis.Z{Member: "0.0"})
					other.ZRem(ctx, c.Keys.Market(), "0.0")
				}
			}
		}

		m := connected(t, c)
		defer m.close()
		w := m.buyers[0]
		orders, err := w.browse(t.Context())
		if err != nil || len(orders) == 0 {
			t.Fatalf("%d listings, %v", len(orders), err)
		}

		dear := orders[0]
		dear.Price++
		if err := w.purchase(t.Context(), dear); !errors.Is(err, market.ErrPriceChanged) {
			t.Fatalf("an order at a wrong price: %v", err)
		}

		testkit.Succeeds(t, w.purchase(t.Context(), orders[0]))
		if got := m.row().Market; got.RoundTrips != 4+4+4 || got.Commands != 9+9+4 || got.Bytes < 140 {
			t.Errorf("%+v, want 12 round trips, 22 commands, and some bytes", got)
		}
	})
}

// What a lock costs on servers of its own is counted apart from what the market costs,
// which is 2 round trips (the reads, the writes) in 10 commands.
//
//   - redlock: SET and, by EVALSHA, a delete on each of 5 masters.
//   - zookeeper: the node is created; the node is read and the queue is listed, mostly
//     together; the node is deleted.
//   - etcd: the key is put if it is not there, with a look at the queue; and
//     deleted if it is the lock's.
func TestLockServersAreCountedApart(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for name, want := range map[string]struct {
		servers func(t *testing.T) connect.MarketServers
		count   int64 // of commands; at most one of them travels with another
	}{
		// a busy machine is slow
		"coarse:redlock:node-timeout=2.5s": {func(t *testing.T) connect.MarketServers {
			return connect.MarketServers{Masters: servers.Dialers(serverstest.Masters(t, 5).Targets())}
		}, 10},
		"coarse:zookeeper": {func(t *testing.T) connect.MarketServers {
			return connect.MarketServers{ZooKeeper: serverstest.ZooKeeper(t, 1).Addrs()}
		}, 4},
		"coarse:etcd": {func(t *testing.T) connect.MarketServers {
			return connect.MarketServers{Etcd: serverstest.Etcd(t, 1).Addrs()}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subject := testkit.Must(catalogue.Full().Parse(name))(t)
			c := config(t, s, subject)
			locks := want.servers(t)
			locks.Market = c.Servers.Market
			c.Servers = locks

			row := inTurn(t, c)
			if of := row.Market; row.Bought != 30 ||
				of.RoundTrips != 30*2 || of.Commands != 30*10 || of.Bytes < 30*100 {
				t.Errorf("bought %d for %+v, want 30 for 2 round trips and 10 commands each", row.Bought, of)
			}

			got := row.LockServers
			if got == nil || got.RoundTrips < 30*(want.count-1) || got.RoundTrips > got.Commands ||
				got.Commands < 30*want.count || got.Commands > 30*want.count+6 || got.Bytes < 30*50 {
				t.Errorf("at the lock's servers %+v, want %v commands a purchase", got, want.count)
			}
		})
	}
}

// TestBackground: renewals and subscriptions are counted, and no purchase pays for
// them; and who polled is told.
func TestBackground(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for name, some := range map[string]bool{"coarse:set-px": false, "coarse:redisson": true} {
		var row result.Row
		// until both have waited and subscribed, on a busy machine too
		for length := 300 * time.Millisecond; ; length *= 4 {
			c := config(t, s, spec(t, name))
			c.Mix = mix5x5
			c.timed(length)
			var err error
			row, err = c.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			waited := row.Bought > 0 && row.Polls > 0 && row.ListPolls > 0
			if waited && (row.Background.Commands > 0 || !some) || length > 10*time.Second {
				break
			}
		}

		if of := row.Background; (of.Commands > 0) != some || (of.Bytes > 0) != some ||
			row.Polls == 0 || row.ListPolls == 0 {
			t.Errorf("%s: in the background %+v, want some: %t; %d polls of orders, %d of listings",
				name, of, some, row.Polls, row.ListPolls)
		}

		if row.LockServers != nil {
			t.Errorf("%s has no servers of its own, and exchanged %+v with them", name, row.LockServers)
		}
	}
}

// TestRenewalIsInTheBackground: one that happens while the worker is held with
// its lock, and does nothing.
func TestRenewalIsInTheBackground(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	c := config(t, s, spec(t, "coarse:set-px+watchdog:renew=10ms"))
	gate := step.Hold(step.Acquired)
	c.steps = func(role) step.Observer { return gate.Observe }

	m := connected(t, c)
	defer m.close()
	w := m.sellers[0]
	listed := make(chan error, 1)
	go func() { listed <- w.listNext(t.Context()) }()
	<-gate.Reached()

	before := w.traffic()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := process.Await(ctx, time.Millisecond, func() error {
		if w.background.Snapshot().Commands == 0 {
			return market.ErrContended
		}
		return nil
	}); err != nil {
		t.Error("no renewal was counted")
	}

	if cost := w.traffic().sub(before); cost != (traffic{}) {
		t.Errorf("the worker did nothing, and %+v was counted for it", cost)
	}

	gate.Open()
	if err := <-listed; err != nil {
		t.Error(err)
	}
}

// TestSharedConnection: what goes over a connection that workers share is nobody's. A row
// says that it does not know, and not that it was nothing; what was bought is right.
func TestSharedConnection(t *testing.T) {
	t.Parallel()
	s := testkit.Best(t)
	c := config(t, s, spec(t, "lua-shared"))
	c.Mix, c.History = result.Mix{Sellers: 3, Buyers: 3}, t.TempDir()+"/history"
	c.buys(200)
	row, err := c.run(t.Context())
	if err != nil || !row.Audit.OK || row.Bought != 200 ||
		row.Market != nil || row.Background.Commands > 0 {
		t.Fatalf("%v, audit %+v, %d bought, traffic %+v, in the background %+v",
			err, row.Audit, row.Bought, row.Market, row.Background)
	}

	recorded := testkit.Must(history.Read(t.Context(), c.History))(t)
	if checked := history.Check(t.Context(), recorded); checked.Answer != history.Linearizable {
		t.Errorf("the history is %s: %+v", checked.Answer, checked)
	}
}

// TestTrafficIsWhatTheServerSaw: several buyers at a time. What the row says they sent is
// compared with what the server says that it got: commands are those of INFO
// commandstats, browsing excluded, and the writes of aborted transactions, which were
// sent and never ran; round trips are the times that the server read from a connection.
func TestTrafficIsWhatTheServerSaw(t *testing.T) {
	for _, name := range []string{"watch", "coarse", "fine", "fine-wallet", "unsafe"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Local(t)
			c := config(t, s, spec(t, name))
			c.Mix = result.Mix{Sellers: 1, Buyers: 3}
			m, other := connected(t, c), testkit.Dial(t, s)
			commands, reads := served(t, other)

			var buyers sync.WaitGroup
			for _, w := range m.buyers {
				buyers.Go(func() { buySome(t, w, 20) })
			}
			buyers.Wait()

			moreCommands, moreReads := served(t, other)
			if err := m.close(); err != nil {
				t.Error(err)
			}

			commands, reads = moreCommands-commands, moreReads-reads
			row := m.row()
			// Each retry sent four writes that never ran.
			if name == "watch" {
				commands += 4 * row.Retries
			}
			if row.Bought < 60 || row.Market.Commands != commands || row.Market.RoundTrips != reads {
				t.Errorf("%d purchases by %+v; the server had %d commands in %d reads",
					row.Bought, *row.Market, commands, reads)
			}
		})
	}
}

// served is how many commands the server has run and how often it has read from a
// connection, but for INFO and browsing.
func served(t *testing.T, conn *redisconn.Conn) (commands, reads int64) {
	t.Helper()
	calls := testkit.Must(conn.InfoFields(t.Context(), "commandstats"))(t)
	stats := testkit.Must(conn.InfoFields(t.Context(), "stats"))(t)
	reads, _ = strconv.ParseInt(stats["total_reads_processed"], 10, 64)

	for name, value := range calls {
		var n int64
		testkit.Must(fmt.Sscanf(value, "calls=%d", &n))(t)
		if name == "cmdstat_zrandmember" || name == "cmdstat_info" {
			reads -= n
		} else {
			commands += n
		}
	}
	return commands, reads
}
