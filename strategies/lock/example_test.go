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

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Ten instances of a service come at the same moment to run today's draw, and one comes
// late. Without a lock each of them draws, and with a lock of the process alone one in
// each process. Whatever the lock, the late one draws again where the winner releases the
// lock, or where its draw outlasts the lease. What helps is a key that is named by the
// day, outlives the day and is never released. Of a winner who dies in the draw see the
// scenario lottery of package fault.
func ExampleLocker_try() {
	ctx := context.Background()
	server, err := backend.Embedded{}.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	draws := 0
	for range 10 {
		draws++ // nobody asks
	}
	fmt.Println("without a lock: draws:", draws)

	draws = 0
	processes := make([]sync.Mutex, 2) // each of which knows its own alone
	for n := range 10 {
		if processes[n%2].TryLock() {
			draws++
		}
	}
	fmt.Println("a mutex in each of two processes: draws:", draws)

	for _, way := range []struct {
		name, key string
		ttl       time.Duration
		draw      func(*lock.Lease) error
	}{
		{"released", "draw", time.Hour, func(l *lock.Lease) error {
			return l.Release(ctx)
		}},
		{"outlasts its lease", "long", 10 * time.Millisecond, func(*lock.Lease) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		}},
		{"named by the day", "2026-11-23", 48 * time.Hour, func(*lock.Lease) error {
			return nil
		}},
	} {
		var draws atomic.Int64
		come := func() {
			conn, locker := instance(ctx, server, "set-px", way.ttl)
			defer conn.Close()
			lease, err := locker.Try(ctx, way.key)
			if err == nil {
				draws.Add(1)
				err = way.draw(lease)
			}
			if err != nil && !errors.Is(err, lock.ErrHeld) {
				log.Print(err)
			}
		}
		var instances sync.WaitGroup
		for range 10 {
			instances.Go(come)
		}
		instances.Wait()
		come() // late
		fmt.Printf("%s: drawn again: %v\n", way.name, draws.Load() > 1)
	}
	// Output:
	// without a lock: draws: 10
	// a mutex in each of two processes: draws: 2
	// released: drawn again: true
	// outlasts its lease: drawn again: true
	// named by the day: drawn again: false
}

// isLocking is the question of articles: GET, and a comparison with one's token. It tells
// of the moment in which the server answers: the lease can end before what comes next.
func ExampleLocker_isLocking() {
	ctx := context.Background()
	server, err := backend.Embedded{}.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	conn, locker := instance(ctx, server, "set-px", time.Hour)
	defer conn.Close()
	lease, err := locker.Acquire(ctx, "draw")
	if err != nil {
		log.Fatal(err)
	}

	const key = "lottery:lock:draw"
	isLocking := func(token string) bool { return conn.Get(ctx, key).Val() == token }
	mine := conn.Get(ctx, key).Val() // the token that the lock was taken with
	fmt.Println("the holder:", isLocking(mine))
	fmt.Println("another one:", isLocking("another's token"))

	conn.Del(ctx, key) // as when the lease ends
	fmt.Println("after the lease:", isLocking(mine))
	fmt.Println("its release:", errors.Is(lease.Release(ctx), lock.ErrLost))
	// Output:
	// the holder: true
	// another one: false
	// after the lease: false
	// its release: true
}

// instance connects one instance, which takes locks of a kind.
func instance(
	ctx context.Context, server *backend.Server, name string, ttl time.Duration,
) (*redisconn.Conn, lock.Locker) {
	conn, err := server.Dial(ctx)
	if err != nil {
		log.Fatal(err)
	}

	for _, kind := range lock.All() {
		if kind.Name != name {
			continue
		}
		locker, err := kind.New(lock.Env{
			Redis: conn.Client,
			NewClient: func(context.Context) (*redis.Client, error) {
				return nil, errors.New("nothing is renewed here")
			},
			Key: func(name string) string {
				return "lottery:lock:" + name
			},
			Params: param.Values{"ttl": ttl.String()},
		})
		if err != nil {
			log.Fatal(err)
		}
		return conn, locker
	}
	panic("there is no " + name)
}
