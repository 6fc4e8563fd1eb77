package lock_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// longTimes: waiters look once in an hour: nothing but a message wakes them, and
// nobody counts as dead.
var longTimes = param.Values{"look": "1h0m0s", "ttl": "2h0m0s", "timeout": "2h0m0s"}

// inLine is how many stand in line.
func inLine(c *workers) int64 {
	c.Helper()
	return testkit.Must(c.conn.LLen(c.Context(), c.kind.AllKeys(c.keys.Lock(name))[1]).Result())(c)
}

func TestQueueHandsOverInOrderAcrossProcesses(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		processes := []*workers{
			b.workers(kind(t, "queue"), longTimes),
			b.workers(kind(t, "queue"), longTimes),
		}
		lease := b.acquire(processes[0].worker(nil, nil))

		var line []*taking
		for i := range 6 {
			line = append(line, processes[i%2].wait(t.Context()))
		}

		for i, next := range line {
			release(t, lease)
			lease = processes[0].taken(next)
			for _, later := range line[i+1:] {
				processes[0].waits(later, "it is not its turn")
			}
		}

		release(t, lease)
		processes[0].leavesNothing()
	})
}

func TestQueueTakesOneRoundTripEachWay(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		l, conn := b.workers(kind(t, "queue"), nil).connected(nil, nil)
		release(t, b.acquire(l)) // the server knows the scripts from here on
		before := conn.Stats.Snapshot()
		release(t, b.acquire(l))
		if cost := conn.Stats.Snapshot().Sub(before); cost.RoundTrips != 2 || cost.Commands != 2 {
			t.Errorf("it took %d round trips and %d commands, want 2 and 2", cost.RoundTrips, cost.Commands)
		}
	})
}

func TestQueueNewcomersDoNotOvertake(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "queue"), longTimes)
		lease := b.acquire(c.worker(nil, nil))
		first := c.hold(t.Context())
		other := c.worker(nil, nil)

		for _, what := range []string{"held", "handed over and not yet confirmed"} {
			if _, err := other.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) || inLine(c) > 1 {
				t.Errorf("Try of a lock that is %s: %v, want %v; in line: %d",
					what, err, lock.ErrHeld, inLine(c))
			}
			if what == "held" {
				release(t, lease)
			}
		}

		first.waits.Open()
		release(t, c.taken(first))
	})
}

// now is the server's clock in ms.
func now(c *workers) int64 {
	c.Helper()
	clock := testkit.Must(c.conn.Time(c.Context()).Result())(c)
	return clock.UnixMilli()
}

// A waiter that shows no sign of life for five looks loses its place, and comes
// back at the end of the line.
func TestQueueSkipsTheDeadInLine(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "queue"), param.Values{"look": "10ms"})
		lease := b.acquire(c.worker(nil, nil))
		dead := c.hold(t.Context())

		alive := c.kind.AllKeys(c.keys.Lock(name))[2]
		// None: it has expired, and the waiter counts as dead.
		tokens := c.conn.HKeys(t.Context(), alive).Val()

		next := c.wait(t.Context())
		until(t, "the held waiter counts as dead", func() bool {
			if len(tokens) == 0 {
				return true
			}
			deadline, _ := strconv.ParseFloat(c.conn.HGet(t.Context(), alive, tokens[0]).Val(), 64)
			return now(c) > int64(deadline)
		})

		release(t, lease)
		lease = c.taken(next)
		dead.waits.Open()

		until(t, "the one who lost its place stands in line again", func() bool {
			return inLine(c) == 1
		})
		c.waits(dead, "it was skipped")

		release(t, lease)
		release(t, c.taken(dead))
		c.leavesNothing()
	})
}

// A waiter that died just before it was handed the lock does not confirm, and must
// not believe that it holds it.
func TestQueuePassesOverWhoeverDoesNotConfirm(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "queue"), param.Values{"look": "20ms"})
		lease := b.acquire(c.worker(nil, nil))
		dead := c.hold(t.Context())
		next := c.wait(t.Context())

		release(t, lease)
		lease = c.taken(next)

		dead.waits.Open()
		until(t, "the one who was too late stands in line again", func() bool {
			return inLine(c) == 1
		})
		c.waits(dead, "it had been handed the lock before")

		release(t, lease)
		release(t, c.taken(dead))
	})
}

// The one who gives up was handed the lock a moment ago, and the next would
// sleep for an hour.
func TestQueueWhoGivesUpPassesTheLockOn(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "queue"), longTimes)
		lease := b.acquire(c.worker(nil, nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := c.hold(ctx)
		second := c.wait(t.Context())
		until(t, "the second listens", func() bool {
			return c.subscribers(":handed") == 1
		})

		release(t, lease)
		c.waits(second, "the lock was handed to the first")
		cancel()
		release(t, c.taken(second))

		<-first.done
		if first.err == nil { // it saw the message before it saw that its context had ended
			t.Errorf("a waiter took the lock under a context that had ended")
		}

		c.leavesNothing()
	})
}

func TestQueueWorksWithoutMessages(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "queue"), param.Values{"look": "10ms"})
		lease := b.acquire(c.worker(nil, nil))
		c.dial = func(context.Context) (*redis.Client, error) {
			return nil, errors.New("no subscription today")
		}
		waiter := c.wait(t.Context())
		release(t, lease)
		release(t, c.taken(waiter))
	})
}

func TestQueueLostReplyLeavesNothing(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		proxy := testkit.StartProxy(t, b.server)
		c := b.workers(kind(t, "queue"), nil)
		release(t, b.acquire(c.worker(nil, nil))) // the server knows the scripts from here on

		lost := b.workers(kind(t, "queue"), nil)
		lost.through = proxy.Server()
		l := lost.worker(nil, nil)

		for _, take := range []func() (*lock.Lease, error){
			func() (*lock.Lease, error) {
				return l.Acquire(t.Context(), name)
			},
			func() (*lock.Lease, error) {
				return l.Try(t.Context(), name)
			},
		} {
			proxy.LoseReply("evalsha")
			if _, err := take(); err == nil || errors.Is(err, lock.ErrHeld) {
				t.Errorf("acquisition with a lost reply: %v", err)
			}
			c.leavesNothing()
		}

		lease := b.acquire(c.worker(nil, nil))
		proxy.LoseReply("evalsha")
		if _, err := l.Acquire(t.Context(), name); err == nil || inLine(c) != 0 {
			t.Errorf("taking a place with a lost reply: %v; in line: %d", err, inLine(c))
		}
		release(t, lease)
		c.leavesNothing()
	})
}
