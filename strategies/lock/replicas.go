package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// The parameters of a lock that replicas must have.
var (
	waitParam = param.Count("wait", 0, 0,
		"replicas that must have the lock before it is held: asked by WAIT; fewer, and it is given back")
	waitTimeoutParam = param.Duration("wait-timeout", 100*time.Millisecond, time.Millisecond,
		"with wait, how long the replicas may take, less than ttl")
)

// checkWait refuses a time-out that outlasts the lock, and one without a wait.
func checkWait(v param.Values) error {
	timeout, ttl := v.Duration(waitTimeoutParam), v.Duration(TTLParam)
	switch {
	case v.Count(waitParam) == 0 && v.Text(waitTimeoutParam) != waitTimeoutParam.Default:
		return errors.New("wait-timeout is of no use without replicas to wait for: add wait=1")
	case v.Count(waitParam) > 0 && timeout >= ttl:
		return fmt.Errorf("wait-timeout is %s, and it must be shorter than ttl, %s", timeout, ttl)
	}
	return nil
}

// takeReplicated is take for a lock that replicas must have. SET and WAIT share a connection, because WAIT asks for
// what its own connection wrote last. If too few replicas have the lock in time it is given back, and the attempt has
// failed; if too few are connected at all, waiting would not help, and that is an error.
func (l *setPXLease) takeReplicated(ctx context.Context) (bool, error) {
	conn, have := l.rdb.Conn(), int64(0)
	taken, err := l.ask(ctx, conn)
	if taken {
		have, err = conn.Wait(ctx, l.replicas, l.env.Params.Duration(waitTimeoutParam)).Result()
	}
	_ = conn.Close() // gives the client its one connection back; a broken one is replaced
	switch {
	case taken && err != nil:
		return false, GiveBack(ctx, fmt.Errorf("wait for replicas: %w", err), l.Release)
	case err != nil:
		return false, Abandon(ctx, err, l.Release)
	case !taken || have >= int64(l.replicas):
		return taken, nil
	}
	few := fmt.Errorf("wait=%d asks for that many replicas, and %d had the lock in time", l.replicas, have)
	if err := GiveBack(ctx, few, l.Release); err != few {
		return false, err // it may still be held, or ctx has ended
	}
	if n, known := replicas(ctx, l.rdb); known && n < l.replicas {
		return false, fmt.Errorf("wait=%d asks for that many replicas, and the server of the lock has %d: connect more "+
			"(REPLICAOF, on each), or leave wait out", l.replicas, n)
	}
	return false, nil
}

// replicas is how many are connected to a master, if it says so.
func replicas(ctx context.Context, rdb *redis.Client) (n int, known bool) {
	role, err := rdb.Do(ctx, "role").Slice()
	if err != nil || len(role) < 3 {
		return 0, false
	}
	connected, known := role[2].([]any)
	return len(connected), known
}
