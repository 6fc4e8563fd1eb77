package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// atOnce gives up after the first attempt.
const atOnce = "0s"

var rwKinds = []string{"rw-keys", "rw-hash", "rw-safe"}

func read(t testing.TB, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.(lock.SharedLocker).AcquireShared(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func write(t testing.TB, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func noReader(t testing.TB, l lock.Locker, why string) {
	t.Helper()
	if _, err := l.(lock.SharedLocker).AcquireShared(t.Context(), name); !errors.Is(err, lock.ErrTimeout) {
		t.Errorf("AcquireShared: %v, want %v: %s", err, lock.ErrTimeout, why)
	}
}

func noWriter(t testing.TB, l lock.Locker, why string) {
	t.Helper()
	if _, err := l.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try: %v, want %v: %s", err, lock.ErrHeld, why)
	}
	if _, err := l.Acquire(t.Context(), name); !errors.Is(err, lock.ErrTimeout) {
		t.Errorf("Acquire: %v, want %v: %s", err, lock.ErrTimeout, why)
	}
}

func TestRWLocksLetReadersInTogetherAndWritersAlone(t *testing.T) {
	for _, kindName := range rwKinds {
		t.Run(kindName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				c := b.crew(kind(t, kindName), param.Values{"timeout": atOnce})
				one, other := c.worker(nil, nil), c.worker(nil, nil)
				lease := write(t, one)
				noWriter(t, other, "a writer has it")
				noReader(t, other, "a writer has it")
				release(t, lease)
				releaseFindsItLost(t, lease)
				c.leavesNothing()
				lease = read(t, one)
				noWriter(t, other, "a reader has it")
				second := read(t, other)
				noWriter(t, one, "two readers have it")
				release(t, second)
				_ = lease.Release(t.Context()) // to rw-hash it was lost when the second came
				c.leavesNothing()
				release(t, write(t, other))
			})
		})
	}
}

func TestRWLocksLostReplyLeavesNothing(t *testing.T) {
	for _, kindName := range rwKinds {
		t.Run(kindName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				proxy := wire.Start(t, b.server)
				c := b.crew(kind(t, kindName), nil)
				release(t, read(t, c.worker(nil, nil)))
				release(t, write(t, c.worker(nil, nil))) // the server knows the scripts from here on
				c.through = proxy.Server()
				l := c.worker(nil, nil)
				for what, take := range map[string]func(context.Context, string) (lock.Lease, error){
					"Acquire": l.Acquire, "Try": l.Try, "AcquireShared": l.(lock.SharedLocker).AcquireShared,
				} {
					proxy.LoseReply("evalsha")
					if _, err := take(t.Context(), name); err == nil || errors.Is(err, lock.ErrHeld) {
						t.Errorf("%s with a lost reply: %v", what, err)
					}
					c.leavesNothing()
				}
			})
		})
	}
}

func TestRWLocksContextEndsTheWait(t *testing.T) {
	for _, kindName := range rwKinds {
		t.Run(kindName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				c := b.crew(kind(t, kindName), param.Values{"poll": "1h0m0s", "timeout": "2h0m0s"})
				lease := read(t, c.worker(nil, nil))
				ctx, cancel := context.WithCancel(t.Context())
				writer := c.wait(ctx)
				cancel()
				<-writer.done
				if !errors.Is(writer.err, context.Canceled) {
					t.Errorf("Acquire: %v, want %v", writer.err, context.Canceled)
				}
				release(t, lease)
				c.leavesNothing()
			})
		})
	}
}
