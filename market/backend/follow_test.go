package backend_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789": 12739, "foo": 12182, "": 0, "{user1000}.following": backend.Slot("user1000"),
		"foo{}{bar}": backend.Slot("foo{}{bar}"), "foo{{bar}}zap": backend.Slot("{bar"), "foo{bar}{zap}": backend.Slot("bar"),
	} {
		if got := backend.Slot(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

// clustered is a cluster, and a connection to the master of the slot of "{m}", which holds two keys.
type clustered struct {
	*servers.Cluster
	conn  *backend.Conn
	other int // a master of other slots
}

func newClustered(t *testing.T) clustered {
	t.Helper()
	ctx, c := t.Context(), testkit.Cluster(t)
	s := c.Server
	if masters := s.Cluster().Masters(); len(masters) != 3 {
		t.Fatalf("masters: %v, want three", masters)
	}
	f := clustered{Cluster: c}
	var err error
	if f.conn, err = s.Dialer("{m}")(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.conn.Close() })
	testkit.Succeeds(t, f.conn.MSet(ctx, "{m}:1", 1, "{m}:2", 2).Err())
	if f.other, err = c.OtherMaster(ctx, "{m}"); err != nil {
		t.Fatal(err)
	}
	return f
}

// Commands, scripts and pipelines are served while a slot moves and afterwards, each exactly once; a transaction is
// discarded, says why, and is served when it is begun anew.
func TestConnFollowsASlotThatMoves(t *testing.T) {
	t.Parallel()
	f, ctx := newClustered(t), t.Context()
	count := func(want int64) {
		t.Helper()
		if n, err := f.conn.Incr(ctx, "{m}:1").Result(); err != nil || n != want {
			t.Errorf("INCR answers %d, %v; want %d", n, err, want)
		}
	}
	move := testkit.Must(f.BeginMove(ctx, "{m}", f.other))(t)
	count(2)
	testkit.Succeeds(t, move.Keys(ctx, "{m}:1"))
	count(3) // ASK
	if _, err := f.conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "{m}:1") // has moved
		p.Incr(ctx, "{m}:2") // has not
		return nil
	}); err != nil {
		t.Errorf("pipeline: %v", err)
	}
	transaction := func() error {
		return f.conn.Watch(ctx, func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.IncrBy(ctx, "{m}:2", 10).Err() })
			return err
		}, "{m}:2")
	}
	cmds, err := f.conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "{m}:2") // is there
		return p.MGet(ctx, "{m}:1", "{m}:2").Err()
	})
	if !redis.IsExecAbortError(err) && !backend.Redirected(err) || !backend.Redirected(cmds[0].Err()) {
		t.Errorf("a transaction over both keys: %v, and its first command: %v; want it discarded, and why",
			err, cmds[0].Err())
	}
	testkit.Succeeds(t, move.Keys(ctx))
	testkit.Succeeds(t, move.End(ctx))
	if err := transaction(); !backend.Redirected(err) {
		t.Errorf("WATCH at the former master: %v, want a redirect", err)
	}
	if err := transaction(); err != nil {
		t.Errorf("the transaction anew: %v", err)
	}
	count(5)
	if n, err := f.conn.Get(ctx, "{m}:2").Int(); err != nil || n != 13 {
		t.Errorf("the other key holds %d, %v; want 13", n, err)
	}
	if at := f.conn.Addr(); at != f.Addrs()[f.other] {
		t.Errorf("it is connected to %s, want %s", at, f.Addrs()[f.other])
	}
}

// A connection that broke is made again to the replica that takes a dead master's place.
func TestConnFindsTheNextMaster(t *testing.T) {
	t.Parallel()
	f, ctx := newClustered(t), t.Context()
	at, err := f.Master(ctx, "{m}")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.conn.Wait(ctx, 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
	testkit.Succeeds(t, f.Redises[at].Kill())
	var value string
	err = backend.Await(ctx, time.Millisecond, func() (err error) { // the first command finds the connection broken
		value, err = f.conn.Get(ctx, "{m}:2").Result()
		return err
	})
	if err != nil || value != "2" {
		t.Errorf("GET answers %q, %v", value, err)
	}
	if now := f.conn.Addr(); now == f.Addrs()[at] {
		t.Errorf("it is connected to %s, which was killed", now)
	}
}

// What Redis refuses is not executed, so that its outcome is known; what the network loses is of unknown outcome.
func TestRedirected(t *testing.T) {
	for text, want := range map[string]bool{
		"MOVED 3999 127.0.0.1:6381": true, "ASK 3999 127.0.0.1:6381": true, "TRYAGAIN Multiple keys": true,
		"CLUSTERDOWN Hash slot not served": true, "READONLY You can't write against a read only replica.": true,
		"NOREPLICAS Not enough good replicas to write.": true, "LOADING Redis is loading the dataset in memory": true,
		"EXECABORT Transaction discarded because of: READONLY You can't write": true,
		"EXECABORT Transaction discarded because of previous errors.":          false,
		"ERR unknown command": false, "OOM command not allowed": false,
	} {
		if got := backend.Redirected(answer(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if backend.Redirected(nil) || backend.Redirected(context.DeadlineExceeded) {
		t.Error("no answer is no redirect")
	}
}

// answer is an error as a server sends it.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}
