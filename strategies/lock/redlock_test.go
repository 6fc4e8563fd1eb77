package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/locktest"
)

// quorum is five masters and the keys of one market.
type quorum struct {
	testing.TB
	nodes servers.Redises
	keys  market.Keys
}

func newQuorum(t testing.TB) *quorum { return quorumOf(t, 5) }

func quorumOf(t testing.TB, masters int) *quorum {
	redisconn.QuietLogs() // masters are killed
	return &quorum{TB: t, nodes: serverstest.Masters(t, masters), keys: testkit.Keys(t)}
}

func (q *quorum) env() lock.Env {
	return lock.Env{
		Key:     q.keys.Lock,
		Servers: connect.MarketServers{Masters: servers.Dialers(q.nodes.Targets())}.ForLocks(connect.Counters{}),
		// The longest for the default TTL: a busy machine is slow.
		Params: param.Values{"node-timeout": "2.5s"},
	}
}

func (q *quorum) open(env lock.Env) lock.Locker { return q.openKind(kind(q, "redlock"), env) }

func (q *quorum) openKind(k lock.Kind, env lock.Env) lock.Locker {
	q.Helper()
	l := testkit.Must(k.New(env))(q)
	q.Cleanup(func() {
		closeLocker(q, l)
	})
	return l
}

func closeLocker(t testing.TB, l lock.Locker) {
	if err := l.(interface{ Close() error }).Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func (q *quorum) acquire(l lock.Locker) *lock.Lease {
	q.Helper()
	return testkit.Must(l.Acquire(q.Context(), name))(q)
}

// on runs a command on one master.
func (q *quorum) on(i int, f func(rdb *redis.Client)) {
	q.Helper()
	conn := testkit.Must(q.nodes[i].Dial(q.Context()))(q)
	defer conn.Close()
	f(conn.Client)
}

// holders is what the lock's key holds on each of some masters.
func (q *quorum) holders(nodes ...int) []string {
	q.Helper()
	var tokens []string
	for _, i := range nodes {
		q.on(i, func(rdb *redis.Client) {
			token, err := rdb.Get(q.Context(), q.keys.Lock(name)).Result()
			if err != nil && err != redis.Nil {
				q.Fatal(err)
			}
			tokens = append(tokens, token)
		})
	}
	return tokens
}

// hold lets someone else have the lock on some masters.
func (q *quorum) hold(nodes ...int) {
	q.Helper()
	for _, i := range nodes {
		q.on(i, func(rdb *redis.Client) {
			rdb.Set(q.Context(), q.keys.Lock(name), "another", time.Minute)
		})
	}
}

func (q *quorum) kill(nodes ...int) {
	q.Helper()
	for _, i := range nodes {
		testkit.Succeeds(q, q.nodes[i].Kill())
	}
}

func (q *quorum) restart(nodes ...int) {
	q.Helper()
	for _, i := range nodes {
		testkit.Succeeds(q, q.nodes[i].Restart(q.Context()))
	}
}

func TestRedlockHoldsEveryMaster(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	lease := q.acquire(q.open(q.env()))
	if tokens := slices.Compact(q.holders(0, 1, 2, 3, 4)); len(tokens) != 1 || tokens[0] == "" {
		t.Errorf("the masters hold %q, want one token everywhere", tokens)
	}

	if _, err := q.open(q.env()).Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("another's Try: %v, want %v", err, lock.ErrHeld)
	}

	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}

	if tokens := slices.Compact(q.holders(0, 1, 2, 3, 4)); !slices.Equal(tokens, []string{""}) {
		t.Errorf("after the release the masters hold %q", tokens)
	}
}

func TestRedlockFailsWithThreeOfFiveDown(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.kill(0, 1, 4)
	env := q.env()
	// Whoever tried again would not come back.
	env.Params["poll"] = "1h0m0s"
	env.Params["timeout"] = "2h0m0s"

	l := q.open(env)
	takes := map[string]func(context.Context, string) (*lock.Lease, error){
		"Acquire": l.Acquire, "Try": l.Try,
	}
	for what, take := range takes {
		_, err := take(t.Context(), name)
		if err == nil || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrTimeout) ||
			!strings.Contains(err.Error(), "only 2 of 5 masters answered") {
			t.Errorf("%s says %v", what, err)
		}
	}

	if tokens := q.holders(2, 3); tokens[0] != "" || tokens[1] != "" {
		t.Errorf("the living masters hold %q, want nothing", tokens)
	}
}

// The masters fall one after another while the lock is being taken.
func TestRedlockGivesBackWhenTheMajorityIsLostMidway(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	env := q.env()

	third := env.Servers.Masters[2]
	fall := sync.OnceFunc(func() {
		if tokens := q.holders(0, 1); tokens[0] == "" || tokens[1] == "" {
			t.Errorf("two masters should have granted it by now, and hold %q", tokens)
		}
		q.kill(2, 3, 4)
	})

	env.Servers.Masters[2].NewClient = func(ctx context.Context) (*redis.Client, error) {
		fall()
		return third.NewClient(ctx)
	}

	if _, err := q.open(env).Try(t.Context(), name); err == nil || errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try says %v, want that there is no majority", err)
	}
	if tokens := q.holders(0, 1); tokens[0] != "" || tokens[1] != "" {
		t.Errorf("the living masters hold %q, want nothing", tokens)
	}
}

func TestRedlockGivesBackAMinority(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	q.hold(1, 2, 4)
	if _, err := q.open(q.env()).Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try: %v, want %v", err, lock.ErrHeld)
	}
	want := []string{"", "another", "another", "", "another"}
	if got := q.holders(0, 1, 2, 3, 4); !slices.Equal(got, want) {
		t.Errorf("the masters hold %q, want %q", got, want)
	}
}

func TestRedlockNeedsAnOddNumberOfMasters(t *testing.T) {
	for _, n := range []int{0, 1, 2, 4, 6} {
		env := lock.Env{Servers: lock.Servers{Masters: make([]lock.Master, n)}}
		_, err := kind(t, "redlock").New(env)
		if !errors.Is(err, lock.ErrServers) || !strings.Contains(err.Error(), "odd number") {
			t.Errorf("with %d masters: %v, want %v", n, err, lock.ErrServers)
		}
	}

	check := kind(t, "redlock").Check
	if err := check(param.Values{"ttl": "100ms"}); err == nil {
		t.Error("a node time-out of half the TTL was accepted")
	}
	if err := check(param.Values{"ttl": "100ms", "node-timeout": "25ms"}); err != nil {
		t.Error(err)
	}
}

// The flaw that the doc comment admits: a master that restarts without its data
// votes twice.
func TestRedlockHasTwoHoldersWhenAMasterForgets(t *testing.T) {
	t.Parallel()
	q := newQuorum(t)
	env := q.env()
	env.Params["ttl"] = "1m" // longer than a busy machine takes to restart servers

	q.kill(3, 4)
	first := q.acquire(q.open(env)) // on 0, 1 and 2
	q.restart(2, 3, 4)
	second := q.acquire(q.open(env)) // on 2, 3 and 4

	if first.Context().Err() != nil || second.Context().Err() != nil {
		t.Error("one of the two holders knows")
	}

	if err := second.Release(t.Context()); err != nil {
		t.Errorf("the second holder's release: %v", err)
	}
	if err := first.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the first holder's release: %v, want %v", err, lock.ErrLost)
	}
}

func TestRedlockConforms(t *testing.T) {
	t.Parallel()
	q := quorumOf(t, 3)                              // a busy machine takes long to ask five
	masters := make([]*redisconn.Conn, len(q.nodes)) // to dial takes long on a busy machine
	for i := range q.nodes {
		masters[i] = testkit.Must(q.nodes[i].Dial(t.Context()))(t)
		t.Cleanup(func() { _ = masters[i].Close() }) // it may have been restarted
	}

	checked(t, locktest.Run(t, locktest.Factory{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			env := q.env()
			targets := q.nodes.Targets()
			for i := range targets {
				targets[i].Addr = w.Through(t, targets[i].Addr)
			}

			lockServers := connect.MarketServers{Masters: servers.Dialers(targets)}
			env.Servers.Masters = lockServers.ForLocks(connect.Counters{}).Masters

			env.Steps = w.Steps
			env.Now = w.Now
			env.Params = param.Values{
				"ttl": w.TTL.String(), "timeout": w.Timeout.String(),
				"node-timeout": (w.TTL / 4).String(), // the longest allowed: a busy machine is slow
			}
			return testkit.Must(kind(t, "redlock").New(env))(t)
		},
		Lose: func(t testing.TB, name string) {
			for _, conn := range masters {
				testkit.Succeeds(t, conn.Del(q.Context(), q.keys.Lock(name)).Err())
			}
		},
		Crash: closeLocker, // it releases nothing
		StopNode: func(testing.TB) func() {
			q.kill(1)
			return func() { q.restart(1) }
		},
		Clock:    true,
		Parallel: true,
		TTL:      4 * time.Second, // a quarter is what a master may take to answer
	}))
}
