package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/param"
)

func localKind(t testing.TB, name string) lock.Kind {
	t.Helper()
	k, err := lock.WithLocal(kind(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// opener makes workers of one process, whose server is a function that says whom it lets in: the n-th worker.
func opener(t *testing.T, params param.Values, server func(worker int) bool) func(worker int) lock.Locker {
	process := &lock.Process{}
	return func(worker int) lock.Locker {
		rdb := answers(func(redis.Cmder) bool { return server(worker) }).client()
		t.Cleanup(func() { _ = rdb.Close() })
		l, err := localKind(t, "set-px").New(lock.Env{
			Redis: rdb, Params: params, Key: func(name string) string { return name }, Process: process,
		})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// Workers of one process get the lock in the order in which they came, only the first of them asks the server, and who
// gives up makes way.
func TestLocalWaitersQueueInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Bool
		var mu sync.Mutex
		var askers []int
		open := opener(t, param.Values{"timeout": "1h"}, func(worker int) bool {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(askers, worker) {
				askers = append(askers, worker)
			}
			return free.Load()
		})
		asked := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(askers)
		}
		got := make(chan int, 5)
		ctx, cancel := context.WithCancel(t.Context())
		for worker := range 5 {
			l, ctx := open(worker), ctx
			if worker != 2 {
				ctx = t.Context()
			}
			go func() {
				lease, err := l.Acquire(ctx, name)
				if err != nil {
					if worker != 2 || !errors.Is(err, context.Canceled) {
						t.Errorf("worker %d: %v", worker, err)
					}
					return
				}
				got <- worker
				if err := lease.Release(context.Background()); err != nil {
					t.Errorf("worker %d: %v", worker, err)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		if !slices.Equal(asked(), []int{0}) {
			t.Errorf("%v asked the server, want the first only", asked())
		}
		if _, err := open(5).Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) || len(asked()) > 1 {
			t.Errorf("Try behind a queue: %v; %v asked the server", err, asked())
		}
		cancel() // the third leaves at once
		synctest.Wait()
		free.Store(true)
		var order []int
		for range 4 {
			order = append(order, <-got)
		}
		if want := []int{0, 1, 3, 4}; !slices.Equal(order, want) || !slices.Equal(asked(), want) {
			t.Errorf("%v got it and %v asked the server, want %v", order, asked(), want)
		}
	})
}

// The time in the queue counts to the time-out, in the queue and once it is the worker's turn.
func TestLocalQueueCountsToTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := opener(t, param.Values{"timeout": "100ms"}, func(worker int) bool { return worker == 0 })
		lease, err := open(0).Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := open(1).Acquire(t.Context(), name); !errors.Is(err, lock.ErrTimeout) || time.Since(start) != 100*time.Millisecond {
			t.Errorf("behind a holder: %v after %s", err, time.Since(start))
		}
		start = time.Now()
		time.AfterFunc(60*time.Millisecond, func() { _ = lease.Release(context.Background()) })
		l := open(2)
		_, err = l.Acquire(t.Context(), name)
		polls := l.(lock.Poller).Polls()
		if !errors.Is(err, lock.ErrTimeout) || time.Since(start) != 100*time.Millisecond || polls != 41 {
			t.Errorf("behind a holder for 60 ms: %v after %s and %d polls", err, time.Since(start), polls)
		}
		again, err := open(0).Try(t.Context(), name) // who gave up is not in the way
		if err != nil {
			t.Fatal(err)
		}
		_ = again.Release(t.Context())
	})
}

// A worker that is stuck keeps its process out after its lock has expired, but no other process.
func TestStuckHolderKeepsItsProcessOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Embedded(t))
	c := b.workers(localKind(t, "set-px"), nil)
	stuck := c.worker(nil, nil)
	b.acquire(stuck)
	beside := c.wait(t.Context())
	b.expire()
	c.waits(beside, "beside a stuck worker")
	wants(t, "another process's release", b.try(b.worker("set-px", setting{})).Release(t.Context()), nil)
	if _, err := c.worker(nil, nil).Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try beside a stuck worker: %v", err)
	}
	b.must(stuck.(interface{ Close() error }).Close()) // it ends without a release
	release(t, c.taken(beside))
}

// A holder that can enter again need not queue for it, and readers of one process read together.
func TestLocalQueueLetsInWhoMayCome(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	l := b.workers(localKind(t, "reentrant"), nil).worker(nil, nil)
	first, again := b.acquire(l), b.acquire(l)
	release(t, first)
	release(t, again)

	c := b.workers(localKind(t, "rw-safe"), nil)
	one, other := read(t, c.worker(nil, nil)), read(t, c.worker(nil, nil))
	release(t, one)
	release(t, other)
}

func TestLocalLocksConform(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for _, lockName := range []string{"set-px", "reentrant", "rw-safe"} {
		conforms(t, locktest.Redis{Server: s, Kind: localKind(t, lockName), Parallel: true})
	}
	watched, err := lock.WithModifiers(kind(t, "set-px"), "local", "watchdog")
	if err != nil || watched.Name != "set-px+watchdog+local" {
		t.Fatalf("%s, %v", watched.Name, err)
	}
	conforms(t, locktest.Redis{Server: s, Kind: watched, Renewing: true, Parallel: true})
}

func TestWhoseWaitersDoNotPoll(t *testing.T) {
	t.Parallel()
	_, err := lock.WithLocal(kind(t, "queue"))
	wants(t, "queue+local", err, lock.ErrNoPolls)
}
