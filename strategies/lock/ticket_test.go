package lock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Numbers that were given up are skipped, several in a row too, and one whose
// turn has come is passed on.
func TestTicketSkipsNumbersThatWereGivenUp(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "ticket"), nil)
		first := b.acquire(c.worker(nil, nil))
		ctx, giveUp := context.WithCancel(t.Context())
		gone := []*taking{c.wait(ctx), c.wait(ctx)}
		next := c.wait(t.Context())
		giveUp()
		for _, w := range gone {
			<-w.done
			wants(t, "a waiter that gives up", w.err, context.Canceled)
		}
		c.waits(next, "the first is still served")
		release(t, first)
		release(t, c.taken(next))

		// Held just before it would see that it is served, a waiter gives up
		// the lock itself.
		first = b.acquire(c.worker(nil, nil))
		ctx, giveUp = context.WithCancel(t.Context())
		late := c.hold(ctx)
		release(t, first)
		giveUp()
		<-late.done
		wants(t, "a waiter that gives up when it is served", late.err, context.Canceled)
		release(t, b.try(&worker{Locker: c.worker(nil, nil)}))
		if n := b.conn.Exists(t.Context(), c.kind.AllKeys(c.keys.Lock(name))[2]).Val(); n != 0 {
			t.Error("numbers are marked as given up although all were skipped")
		}
	})
}

// The flaw that its doc comment admits: nobody gives up the number of a client that has
// died, in line or not yet there.
func TestTicketOfADeadClientBlocksAll(t *testing.T) {
	t.Parallel()
	for what, die := range map[string]func(*bench){
		"in line": func(b *bench) {
			lease := b.acquire(b.worker("ticket", setting{}))
			var w *worker
			w = b.worker("ticket", setting{steps: whenever(step.Waiting, func() {
				_ = w.conn.Close()
			})})

			if _, err := w.Acquire(b.Context(), name); err == nil {
				b.Error("a dead client took the lock")
			}
			release(b, lease)
		},
		"before it knows its number": func(b *bench) {
			proxy := testkit.StartProxy(b, b.server)
			w := b.worker("ticket", setting{through: proxy.Server()})
			proxy.LoseReply("incr")

			if _, err := w.Acquire(b.Context(), name); err == nil || errors.Is(err, lock.ErrTimeout) {
				b.Errorf("acquisition without a reply: %v", err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			onServer(t, func(t *testing.T, b *bench) {
				die(b)

				other := b.worker("ticket", setting{params: param.Values{"timeout": "20ms"}})
				_, err := other.Acquire(t.Context(), name)
				wants(t, "acquisition behind a dead client", err, lock.ErrTimeout)
			})
		})
	}
}

// The flaw that its doc comment admits: a former holder's number is that of the next one.
func TestTicketNumbersRepeatWhenTheServerForgets(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		former := b.acquire(b.worker("ticket", setting{}))
		b.must(b.conn.Del(t.Context(), kind(t, "ticket").AllKeys(b.keys.Lock(name))...).Err())
		present := b.acquire(b.worker("ticket", setting{}))
		release(t, former)
		third := b.try(b.worker("ticket", setting{}))
		releaseFindsItLost(t, present)
		release(t, third)
	})
}
