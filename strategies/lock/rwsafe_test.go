package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// What breaks rw-keys and rw-hash: readers that leave in any order, and twice.
func TestRWSafeReaderFreesOnlyItself(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"timeout": atOnce})
		writer := c.worker(nil, nil)
		first, second, third := read(t, c.worker(nil, nil)), read(t, c.worker(nil, nil)), read(t, c.worker(nil, nil))
		for _, lease := range []lock.Lease{second, first} {
			release(t, lease)
			releaseFindsItLost(t, lease)
			if _, err := writer.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("Try while a reader remains: %v, want %v", err, lock.ErrHeld)
			}
		}
		release(t, third)
		release(t, write(t, writer))
		c.leavesNothing()
	})
}

// Each reader's entry expires by itself, although others come and put the expiry of the key off.
func TestRWSafeCrashedReaderExpires(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		crashed := b.workers(kind(t, "rw-safe"), param.Values{"ttl": "50ms"})
		c := b.workers(kind(t, "rw-safe"), nil)
		living := read(t, c.worker(nil, nil))
		lost := read(t, crashed.worker(nil, nil))
		release(t, living)
		release(t, write(t, c.worker(nil, nil)))
		releaseFindsItLost(t, lost)
		lost = write(t, crashed.worker(nil, nil))
		release(t, read(t, c.worker(nil, nil)))
		releaseFindsItLost(t, lost)
		c.leavesNothing()
	})
}

func TestRWSafeWaitingWriterBarsNewReaders(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"poll": "5ms"})
		reader := b.workers(kind(t, "rw-safe"), param.Values{"timeout": atOnce}).worker(nil, nil)
		lease := read(t, c.worker(nil, nil))
		noReader := func() bool {
			lease, err := reader.(lock.SharedLocker).AcquireShared(t.Context(), name)
			if err == nil {
				release(t, lease)
			}
			return errors.Is(err, lock.ErrTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		writer := c.wait(ctx)
		until(t, "the writer bars new readers", noReader)
		cancel()
		<-writer.done
		release(t, read(t, reader)) // the bar is gone with the writer

		writer = c.wait(t.Context())
		until(t, "the writer bars new readers", noReader)
		release(t, lease)
		release(t, c.taken(writer))
		c.leavesNothing()
	})
}

// A writer whose readers do not finish keeps others out for no longer than bar, though it waits on.
func TestRWSafeBarIsBounded(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"poll": "5ms", "bar": "50ms"})
		lease := read(t, c.worker(nil, nil))
		writer := c.wait(t.Context())
		release(t, read(t, c.worker(nil, nil))) // within its time-out, which is far beyond bar
		c.waits(writer, "a reader holds it")
		release(t, lease)
		release(t, c.taken(writer))
	})
}

// A writer who dies while it waits does not keep readers out for good.
func TestRWSafeBarOfADeadWriterLapses(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), nil)
		lease := read(t, c.worker(nil, nil))
		writer := c.hold(t.Context()) // and asks no more
		release(t, read(t, c.worker(nil, nil)))
		release(t, lease)
		writer.waits.Open()
		release(t, c.taken(writer))
	})
}

// reads starts a reader in a worker of its own and returns when it waits, held there until waits is opened.
func (c *workers) reads(ctx context.Context, params param.Values) *taking {
	c.Helper()
	w := &taking{waits: step.Hold(step.Waiting), done: make(chan struct{})}
	l := c.bench.workers(c.kind, params).worker(w.waits.Observe, nil)
	go func() {
		defer close(w.done)
		w.lease, w.err = l.(lock.SharedLocker).AcquireShared(ctx, name)
	}()
	c.Cleanup(func() {
		w.waits.Open()
		<-w.done
	})
	select {
	case <-w.waits.Reached():
	case <-w.done:
		c.Fatalf("a reader did not wait: %v", w.err)
	}
	return w
}

// Readers who wait when a writer leaves get in before the next writer, who bars those that come later. A place is
// kept for three polls, so these are long: a busy machine does not lose anybody its turn.
func TestRWSafeReadersHaveTheirTurnAfterAWriter(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"poll": "1s"})
		first := write(t, c.worker(nil, nil))
		next := c.wait(t.Context()) // and bars readers from now on
		reader := c.reads(t.Context(), param.Values{"poll": "1s"})
		reader.waits.Open()
		release(t, first)
		lease := c.taken(reader)
		c.waits(next, "a reader has its turn")

		late := c.reads(t.Context(), param.Values{"poll": "1s"})
		c.waits(next, "a reader has its turn")
		release(t, lease)
		lease = c.taken(next)
		late.waits.Open()
		c.waits(late, "the next writer holds it")
		again := c.wait(t.Context())
		release(t, lease)
		lease = c.taken(late) // it waited behind the bar when the writer came
		c.waits(again, "the later reader has its turn")
		release(t, lease)
		release(t, c.taken(again))
		c.leavesNothing()
	})
}

// A reader who gives up when its turn has come does not keep writers out.
func TestRWSafeReaderWhoGivesUpLeavesItsTurn(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"timeout": atOnce})
		first, writer := write(t, c.worker(nil, nil)), c.worker(nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		reader := c.reads(ctx, param.Values{"poll": "1h0m0s", "timeout": "2h0m0s"})
		release(t, first)
		noWriter(t, writer, "it is the reader's turn")
		cancel()
		<-reader.done
		release(t, write(t, writer))
		c.leavesNothing()
	})
}

// A reader who dies before its turn keeps writers out for a moment only.
func TestRWSafeTurnOfADeadReaderLapses(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), nil)
		first := write(t, c.worker(nil, nil))
		reader := c.reads(t.Context(), nil) // and asks no more
		release(t, first)
		release(t, write(t, c.worker(nil, nil)))
		c.waits(reader, "it is held")
		reader.waits.Open()
		release(t, c.taken(reader))
		c.leavesNothing()
	})
}

func TestRWSafeIsRenewed(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		for _, what := range []string{"a writer", "a reader"} {
			c, l := b.outlivesRWSafe(what, 600)
			lease, err := takeAs(what, l)(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			b.conn.Del(t.Context(), c.kind.AllKeys(c.keys.Lock(name))...)
			select {
			case <-lease.Context().Done():
			case <-time.After(soon):
				t.Fatalf("%s does not notice that the lock is gone", what)
			}
			releaseFindsItLost(t, lease)
		}
	})
}

// takeAs is how a writer or a reader takes a read-write lock.
func takeAs(what string, l lock.Locker) func(context.Context, string) (lock.Lease, error) {
	if what == "a reader" {
		return l.(lock.SharedLocker).AcquireShared
	}
	return l.Acquire
}

// outlivesRWSafe holds a lock that is renewed for longer than its TTL, given in ms of the server. Where it is lost it
// tries again with a longer TTL, because the machine may stop for about as long.
func (b *bench) outlivesRWSafe(what string, ttl int64) (*workers, lock.Locker) {
	b.Helper()
	kind, err := lock.WithWatchdog(kind(b, "rw-safe"))
	b.must(err)
	c := b.workers(kind, param.Values{"ttl": (time.Duration(ttl) * time.Millisecond).String()})
	l := c.worker(nil, nil)
	lease, err := takeAs(what, l)(b.Context(), name)
	b.must(err)
	start := now(c)
	until(b, "more than a TTL has passed", func() bool { return now(c) > start+ttl*3/2 })
	if cause := context.Cause(lease.Context()); cause != nil && ttl < 10_000 {
		_ = lease.Release(b.Context()) // it may be lost
		return b.outlivesRWSafe(what, 4*ttl)
	} else if cause != nil {
		b.Errorf("%s lost it: %v", what, cause)
	}
	release(b, lease)
	return c, l
}
