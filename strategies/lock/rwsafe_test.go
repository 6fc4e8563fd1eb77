package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Each reader's entry expires by itself, although others come and put the
// expiry of the key off.
func TestRWSafeCrashedReaderExpires(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
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
	onServer(t, func(t *testing.T, b *bench) {
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

// A writer whose readers do not finish keeps others out for no longer than bar,
// though it waits on.
func TestRWSafeBarIsBounded(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), param.Values{"poll": "5ms", "bar": "50ms"})
		lease := read(t, c.worker(nil, nil))
		writer := c.wait(t.Context())
		release(t, read(t, c.worker(nil, nil))) // within its time-out, which is far beyond bar
		c.waits(writer, "a reader holds it")
		release(t, lease)
		release(t, c.taken(writer))
	})
}

// A writer that dies while it waits does not keep readers out for good.
func TestRWSafeBarOfADeadWriterLapses(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), nil)
		lease := read(t, c.worker(nil, nil))
		writer := c.hold(t.Context()) // and asks no more
		release(t, read(t, c.worker(nil, nil)))
		release(t, lease)
		writer.waits.Open()
		release(t, c.taken(writer))
	})
}

// Readers that wait when a writer leaves get in before the next writer, who bars those
// that come later. A place is kept for three polls, so these are long: a busy machine
// does not lose anybody its turn.
func TestRWSafeReadersHaveTheirTurnAfterAWriter(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		poll := param.Values{"poll": "1s"}
		c := b.workers(kind(t, "rw-safe"), poll)
		first := write(t, c.worker(nil, nil))
		next := c.wait(t.Context()) // and bars readers from now on
		reader := c.reads(t.Context(), poll)
		reader.waits.Open()
		release(t, first)
		lease := c.taken(reader)
		c.waits(next, "a reader has its turn")

		late := c.reads(t.Context(), poll)
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

// A reader that gives up when its turn has come does not keep writers out.
func TestRWSafeReaderWhoGivesUpLeavesItsTurn(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
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

// A reader that dies before its turn keeps writers out for a moment only.
func TestRWSafeTurnOfADeadReaderLapses(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
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

// A reader is renewed by a script of its own; the suite renews a writer.
func TestRWSafeReaderIsRenewed(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-safe"), nil)
		lease := read(t, c.worker(nil, nil))
		readers := c.kind.AllKeys(c.keys.Lock(name))[1]
		before := b.conn.ZRangeWithScores(t.Context(), readers, 0, -1).Val()[0].Score

		until(t, "the clock has moved on", func() bool {
			return now(c) > int64(before)-9_990
		})
		wants(t, "renewal", lease.Renew(t.Context()), nil)
		if after := b.conn.ZRangeWithScores(t.Context(), readers, 0, -1).Val()[0].Score; after <= before {
			t.Errorf("it ends at %.0f, and before the renewal at %.0f", after, before)
		}

		b.conn.Del(t.Context(), readers)
		wants(t, "renewal of a lost lock", lease.Renew(t.Context()), lock.ErrLost)
	})
}
