package strategies

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/param"
)

// replicasParam is how many replicas of the market's server must have an operation before it counts as made: the client
// asks by WAIT after the operation, over the same connection, so that a lock is released by then. An operation that too
// few have in time is applied on the master, and of unknown outcome: a failover may lose it.
//
// What breaks it: the replica that is promoted may be another than those that have it. And every operation takes one
// more round trip, and the time until a replica answers.
//
// Source: redis.io/docs/latest/commands/wait.
var replicasParam = param.Count("replicas", 0, 0, "how many replicas must have an operation before it counts as made")

// replicasTimeout is how long WAIT waits.
const replicasTimeout = time.Second

// A replicated Purchaser waits for replicas after each operation.
type replicated struct {
	market.Purchaser
	rdb *redis.Client
	n   int
}

// List implements market.Purchaser.
func (r replicated) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	receipt, err := r.Purchaser.List(ctx, l)
	return receipt, r.wait(ctx, err)
}

// Purchase implements market.Purchaser.
func (r replicated) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	receipt, err := r.Purchaser.Purchase(ctx, o)
	return receipt, r.wait(ctx, err)
}

// wait returns the error of an operation. Of one without, it returns an error that leaves the outcome unknown if too
// few replicas have what was written.
func (r replicated) wait(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	got, err := r.rdb.Wait(ctx, r.n, replicasTimeout).Result()
	if err != nil {
		return fmt.Errorf("wait for %d replicas: %w", r.n, err)
	}
	if int(got) < r.n {
		return fmt.Errorf("%d of %d replicas have it after %s", got, r.n, replicasTimeout)
	}
	return nil
}

// checkReplicas returns backend.ErrUnavailable, wrapped, if too few replicas answer.
func checkReplicas(ctx context.Context, rdb *redis.Client, n int) error {
	err := replicated{rdb: rdb, n: n}.wait(ctx, nil)
	if err == nil {
		return nil
	}
	return fmt.Errorf("replicas=%d is %w: %w; take a server with as many replicas, by --redis", n,
		backend.ErrUnavailable, err)
}
