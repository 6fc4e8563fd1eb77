package locktest_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/locktest"
)

// The author of a lock says how to open it on a connection, how to lock and how to
// unlock. Here it is github.com/bsm/redislock. It is checked, explored, and measured beside
// marketsim's own SET NX PX.
func Example() {
	_ = TestRedislock // run by go test
}

func openRedislock(_ context.Context, w locktest.Worker) (locktest.Lock, io.Closer, error) {
	rdb := redis.NewClient(&redis.Options{Dialer: w.Dial})
	client := redislock.New(rdb)
	return func(ctx context.Context, name string) (func(context.Context) error, error) {
		l, err := client.Obtain(ctx, name, w.TTL,
			&redislock.Options{RetryStrategy: redislock.LinearBackoff(50 * time.Millisecond)})
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}, rdb, nil
}

func TestRedislock(t *testing.T) {
	locktest.Check(t, openRedislock).Require(t)
	locktest.Explore(t, openRedislock, explore.Bounds{Preemptions: 1, Faults: 1})
}

func TestRedislockUnderLoad(t *testing.T) {
	t.Parallel()

	// Without Duration and Rounds it takes two and a half minutes, and decides more.
	short := compare.Options{Duration: 100 * time.Millisecond, Rounds: 9}
	beside, err := compare.Lock(t.Context(), openRedislock, result.Mix{Sellers: 2, Buyers: 2}, short)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(beside) // "fine:mine  slower than  fine:set-px  0.871  0.846 to 0.897", and so on
}
