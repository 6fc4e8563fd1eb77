package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Ten instances of a service wake up to run today's draw. The one that gets the lock runs it, and keeps the lock for
// longer than the others may be late; the rest see that they are not needed.
func ExampleLocker_try() {
	ctx := context.Background()
	server, err := embedded.Starter{}.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	var draws, refused atomic.Int64
	var instances sync.WaitGroup
	for range 10 {
		instances.Go(func() {
			conn, locker := instance(ctx, server)
			defer conn.Close()
			switch _, err := locker.Try(ctx, "draw"); {
			case err == nil:
				draws.Add(1) // run it
			case errors.Is(err, lock.ErrHeld):
				refused.Add(1)
			default:
				log.Print(err)
			}
		})
	}
	instances.Wait()
	fmt.Printf("%d ran the draw, %d found it taken\n", draws.Load(), refused.Load())
	// Output: 1 ran the draw, 9 found it taken
}

// instance connects one instance, which takes locks by set-px for an hour.
func instance(ctx context.Context, server *backend.Server) (*backend.Conn, lock.Locker) {
	conn, err := server.Dial(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range lock.All() {
		if kind.Name != "set-px" {
			continue
		}
		locker, err := kind.New(lock.Env{
			Redis:  conn.Client,
			Dial:   func(context.Context) (*redis.Client, error) { return nil, errors.New("nothing is renewed here") },
			Key:    func(name string) string { return "lottery:lock:" + name },
			Params: param.Values{"ttl": time.Hour.String()},
		})
		if err != nil {
			log.Fatal(err)
		}
		return conn, locker
	}
	panic("there is no set-px")
}
