package strategies_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// A purchase that a replica has is made; one that none has in time is of unknown
// outcome, and applied on the master.
func TestReplicated(t *testing.T) {
	t.Parallel()
	master := testkit.Local(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.Target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("without a replica", func(t *testing.T) {
		for _, spec := range []string{
			"lua:replicas=1", "fine:set-px:replicas=1", "fine:set-px:after-unknown=kill:replicas=1",
		} {
			t.Run(spec, func(t *testing.T) {
				t.Parallel()
				alone := newFixture(t, master)
				err := parse(t, spec).CheckServer(t.Context(), alone.conn.Client, alone.keys)
				if !errors.Is(err, process.ErrUnavailable) {
					t.Error(err)
				}
			})
		}
	})

	replica := testkit.Start(t, backend.Local{
		Password: master.Target.Password, Args: []string{"--replicaof", host, port},
	})
	purchases := map[string]func() <-chan outcome{}
	for _, spec := range []string{"lua:replicas=1", "fine:set-px:replicas=1"} {
		g := newFixture(t, master)
		g.must(process.Await(t.Context(), 10*time.Millisecond, func() error {
			return parse(t, spec).CheckServer(t.Context(), g.conn.Client, g.keys)
		}))

		w := g.open(spec, master, strategies.Env{})
		if _, err := w.purchase(g.offer(0)); err != nil {
			t.Errorf("%s with a replica: %v", spec, err)
		}

		second := g.offer(1)
		second.Buyer = buyer + 1
		purchases[spec] = func() <-chan outcome {
			return w.start(second)
		}
	}

	testkit.Succeeds(t, replica.Pause())
	results := map[string]<-chan outcome{}
	for spec, start := range purchases {
		results[spec] = start()
	}
	for spec, result := range results {
		if err := (<-result).err; err == nil || market.Refused(err) {
			t.Errorf("%s with a replica that stands still: %v, want that the outcome is unknown", spec, err)
		}
	}
	testkit.Succeeds(t, replica.Resume())
}

// With resend=on all clients of a worker send a command again: to the market, to its
// locks, and in the background.
func TestResend(t *testing.T) {
	t.Parallel()
	server := testkit.Embedded(t)
	keys := testkit.Keys(t)
	for spec, want := range map[string]int{"fine:set-px": 0, "fine:set-px:resend=on": 3} {
		dialer := server.Dialer("")
		c, err := connect.Open(t.Context(), parse(t, spec), connect.MarketServers{
			Market: dialer, Locks: dialer, Masters: []redisconn.Dialer{dialer},
		}, connect.Counters{}, strategies.Env{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}

		clients := []*redis.Client{c.Conn.Client, c.Locks.Client}
		master := c.Env.Servers.Masters[0]
		for _, dial := range []func(context.Context) (*redis.Client, error){
			c.Env.NewClient, c.Env.NewLockClient, master.NewClient, master.Background,
		} {
			rdb := testkit.Must(dial(t.Context()))(t)
			defer rdb.Close()
			clients = append(clients, rdb)
		}

		for i, rdb := range clients {
			if n := rdb.Options().MaxRetries; n != want {
				t.Errorf("%s: client %d sends a command again %d times, want %d", spec, i, n, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
