package strategies

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

// replicasParam is how many replicas must have an operation before it counts as made: the
// client asks by WAIT over the same connection, after it has released its locks. If too few have it in
// time the outcome is unknown: a failover may lose it.
//
// What breaks it: another replica than those that have it may be promoted. Source:
// redis.io/docs/latest/commands/wait.
var replicasParam = param.Count("replicas", 0, 0, "how many replicas must have an operation before it counts as made")

const replicasTimeout = time.Second

// withReplicas waits for replicas after each operation, as replicasParam says.
func withReplicas(env Env, x executor) executor {
	n := env.Params.Count(replicasParam)
	if n == 0 {
		return x
	}
	return replicated{executor: x, rdb: env.Redis, replicas: n}
}

// replicated is an executor whose operations count once enough replicas have them.
type replicated struct {
	executor
	rdb      *redis.Client
	replicas int
}

func (x replicated) execute(ctx context.Context, op *operation) (market.Receipt, error) {
	r, err := x.executor.execute(ctx, op)
	if err == nil {
		err = awaitReplicas(ctx, x.rdb, x.replicas)
	}
	return r, err
}

// awaitReplicas returns an error, which leaves the outcome unknown, if too few
// replicas have what was written.
func awaitReplicas(ctx context.Context, rdb *redis.Client, n int) error {
	got, err := rdb.Wait(ctx, n, replicasTimeout).Result()
	if err != nil {
		return fmt.Errorf("wait for %d replicas: %w", n, err)
	}
	if int(got) < n {
		return fmt.Errorf("%d of %d replicas have it after %s", got, n, replicasTimeout)
	}
	return nil
}

// checkReplicas returns process.ErrUnavailable, wrapped, if too few replicas answer.
func checkReplicas(ctx context.Context, rdb *redis.Client, n int) error {
	err := awaitReplicas(ctx, rdb, n)
	if err == nil {
		return nil
	}
	return fmt.Errorf("replicas=%d is %w: %w; take a server with as many replicas, by --redis", n,
		process.ErrUnavailable, err)
}
