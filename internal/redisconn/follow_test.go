package redisconn_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestFollowing: commands and pipelines are served while a slot moves and afterwards, each
// exactly once. A transaction is discarded and gives the reason; the next one is served. A
// connection that does not follow is refused all the time.
func TestFollowing(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), serverstest.Cluster(t)
	dialer := c.Server.Dialer("{m}")
	conn := testkit.Must(dialer.WithFollowing().Dial(ctx))(t)
	defer conn.Close()
	stays := testkit.Must(dialer.Dial(ctx))(t)
	defer stays.Close()
	testkit.Succeeds(t, conn.MSet(ctx, "{m}:1", 1, "{m}:2", 2).Err())

	count := func(want int64) {
		t.Helper()
		if n, err := conn.Incr(ctx, "{m}:1").Result(); err != nil || n != want {
			t.Errorf("INCR answers %d, %v; want %d", n, err, want)
		}
	}
	other := testkit.Must(c.OtherMaster(ctx, "{m}"))(t)
	move := testkit.Must(c.BeginMove(ctx, "{m}", other))(t)
	count(2)
	testkit.Succeeds(t, move.Keys(ctx, "{m}:1"))
	count(3) // ASK
	if err := stays.Incr(ctx, "{m}:1").Err(); !redisconn.Redirected(err) {
		t.Errorf("who does not follow gets %v, want a redirect", err)
	}
	_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "{m}:1") // has moved
		p.Incr(ctx, "{m}:2") // has not
		return nil
	})
	if err != nil {
		t.Errorf("pipeline: %v", err)
	}

	cmds, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "{m}:2") // is there
		return p.MGet(ctx, "{m}:1", "{m}:2").Err()
	})
	if !redis.IsExecAbortError(err) && !redisconn.Redirected(err) ||
		!redisconn.Redirected(cmds[0].Err()) {
		t.Errorf(
			"a transaction over both keys: %v, and its first command: %v; want it discarded, and why",
			err, cmds[0].Err())
	}

	testkit.Succeeds(t, move.AllKeys(ctx))
	testkit.Succeeds(t, move.End(ctx))
	if err := stays.Get(ctx, "{m}:1").Err(); !redisconn.Redirected(err) {
		t.Errorf("who does not follow gets %v, want a redirect", err)
	}
	transaction := func() error {
		return conn.Watch(ctx, func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				return p.IncrBy(ctx, "{m}:2", 10).Err()
			})
			return err
		}, "{m}:2")
	}
	if err := transaction(); !redisconn.Redirected(err) {
		t.Errorf("WATCH at the former master: %v, want a redirect", err)
	}
	if err := transaction(); err != nil {
		t.Errorf("the transaction anew: %v", err)
	}
	count(5)
	if n, err := conn.Get(ctx, "{m}:2").Int(); err != nil || n != 13 {
		t.Errorf("the other key holds %d, %v; want 13", n, err)
	}
}
