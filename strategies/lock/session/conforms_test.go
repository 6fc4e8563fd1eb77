package session

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify/locktest"
)

// With all hooks there, no promise stays unchecked. With MARKETSIM_LONG it is on three servers,
// whose leader is stopped: one server does not promise to survive that.
func TestConforms(t *testing.T) {
	t.Parallel()
	// longest is the longest TTL of the suite's workers: it outlasts an
	// election on a busy machine.
	const longest = 40 * time.Second
	members := 1
	if testkit.Long() {
		members = 3
	}

	for _, p := range products {
		t.Run(p.kind.Name, func(t *testing.T) {
			t.Parallel()
			e := p.start(t, members)
			b := newBench(t, p, e.Addrs())

			type opened struct { // a locker that leaves its session has another client afterwards
				client
				relays []*wire.Proxy
			}
			var clients sync.Map // of a locker: opened

			crash := func(_ testing.TB, l lock.Locker) {
				of, _ := clients.Load(l)
				for _, relay := range of.(opened).relays {
					relay.Disconnect()
				}
			}

			factory := locktest.Factory{
				Open: func(t testing.TB, w locktest.Worker) lock.Locker {
					env := b.env("ttl", min(w.TTL, longest).String(), "timeout", w.Timeout.String())
					addrs := slices.Clone(b.addrs)
					if members == 1 { // by two ways: ZooKeeper's client waits for a second after its last
						addrs = append(addrs, b.addrs...)
					}

					var relays []*wire.Proxy
					for i, addr := range addrs {
						relays = append(relays, testkit.Relay(t, addr))
						addrs[i] = w.Through(t, relays[i].Addr())
					}
					env.Servers = b.at(addrs)
					env.Steps = w.Steps
					env.Now = w.Now

					l := testkit.Must(p.kind.New(env))(t)
					clients.Store(l, opened{l.(*locker).client, relays})
					return l
				},
				Lose: func(t testing.TB, name string) {
					line := b.line(name)
					clients.Range(func(l, of any) bool {
						// or it has expired by itself
						if len(line) > 0 && session(of.(opened).client) == line[0].session {
							crash(t, l.(lock.Locker))
						}
						return true
					})
				},
				Crash: crash,
				Queued: func(_ testing.TB, name string) int {
					return max(0, len(b.line(name))-1)
				},
				Clock:    true,
				Renewing: true,
				Parallel: true,
				TTL:      time.Second,
				Patience: soon, // an election, and a client that looks for another server, on a busy machine
			}

			if members > 1 {
				factory.StopNode = func(t testing.TB) func() { return stopLeader(t, e) }
			}
			if unchecked := locktest.Run(t, factory).Unchecked(); len(unchecked) > 0 {
				t.Errorf("unchecked: %q", unchecked)
			}
		})
	}
}

// stopLeader kills the leader, and returns when the others serve; start starts it again.
func stopLeader(t testing.TB, e *servers.Ensemble) (start func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	leader, err := e.Leader(ctx)
	if err == nil {
		err = e.Members[leader].Kill()
	}
	if err == nil { // the others serve, or a busy machine would be taken for a lock that fails
		_, err = e.Leader(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}

	return func() {
		testkit.Succeeds(t, e.Members[leader].Restart(t.Context()))
	}
}

// session is the number of a worker's session.
func session(c client) int64 {
	switch c := c.(type) {
	case *zooClient:
		return c.conn.SessionID()
	case *etcdClient:
		c.mu.Lock()
		defer c.mu.Unlock()
		return int64(c.session.id)
	default:
		panic("unknown client")
	}
}
