// This program takes the lock of Dapr's component lock.redis, for marketsim judge, without Dapr's
// runtime:
//
//	go build -o /tmp/dapr-program . && marketsim judge -- /tmp/dapr-program
//
// It is a module of its own: it does not compile with the go-redis that redsync asks for.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/dapr/components-contrib/lock"
	"github.com/dapr/components-contrib/lock/redis"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/kit/logger"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

func main() {
	s := adapter.Environment()
	store := redis.NewStandaloneRedisLock(logger.NewLogger("judge"))
	properties := map[string]string{"redisHost": s.Address} // all else as it is by default
	err := store.InitLockStore(context.Background(), lock.Metadata{
		Base: metadata.Base{Properties: properties},
	})
	if err != nil {
		log.Fatalf("open lock.redis: %v", err)
	}

	adapter.Serve(&daprLock{Settings: s, store: store})
}

// A daprLock only tries, and has leases of whole seconds. Who owns it is for the caller to say: here
// each acquisition is an owner of its own.
type daprLock struct {
	adapter.Settings
	store       lock.Store
	name, owner string // of the last acquisition
}

func (l *daprLock) Acquire(ctx context.Context, name string) error {
	l.name = l.Prefix + name
	l.owner = rand.Text()
	return l.Poll(ctx, func() (bool, error) {
		response, err := l.store.TryLock(ctx, &lock.TryLockRequest{
			ResourceID:      l.name,
			LockOwner:       l.owner,
			ExpiryInSeconds: int32(l.WholeSeconds()),
		})
		return err == nil && response.Success, err
	})
}

func (l *daprLock) Release(ctx context.Context) (said string, err error) {
	response, err := l.store.Unlock(ctx, &lock.UnlockRequest{
		ResourceID: l.name,
		LockOwner:  l.owner,
	})
	switch {
	case err != nil:
		return "", err
	case response.Status == lock.Success:
		return "released", nil
	case response.Status == lock.LockDoesNotExist, response.Status == lock.LockBelongsToOthers:
		return "lost", nil
	}
	return "", fmt.Errorf("the lock's status is %v", response.Status)
}
