package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// queue is a fair lock. A worker that finds it held takes a place in line and sleeps. A
// release hands the lock to the first in line, in the same script, and publishes the new
// holder's token, so that exactly that waiter wakes. The waiter confirms, and then holds
// the lock for the whole TTL. Messages are hints: each waiter also tries every 100 ms,
// or when the TTL has passed. One that has not done so or confirmed for five such
// intervals is skipped as dead.
//
// What breaks it: as every lock with an expiry, a holder that is paused for longer
// (+watchdog helps one that only works longer). A waiter that was paused for more than
// five intervals starts again at the end of the line. Throughput on a contended key is
// bounded by the time it takes to wake each next worker. Source: queue locks; Redisson's
// RFairLock; Redis in Action, section 6.3.2, for arrival order with expiry.
func queue() Kind {
	return subscribing(Kind{
		Name: "queue", Renews: true,
		Summary: "waiters stand in line and are handed the lock in order, by script; the dead are skipped",
		Source:  "queue locks; Redisson RFairLock",
		Wakes:   "handed over in order by pub/sub, looks every 100ms",
		Promises: Promises{
			Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true, Fair: true,
		},
		Params: []param.Param{TTLParam, lookParam, TimeoutParam},
		// In the order in which the scripts take them: see queue_line.lua.
		Keys: func(key string) []string { return []string{key, key + ":line", key + ":alive"} },
	}, func(h *hold) acquisition {
		h.channel = h.key + ":handed"
		h.queues = true
		return queueLock{compared{h}}
	})
}

var (
	queueTake    = script("queue_line", "queue_take")
	queueRelease = script("queue_line", "queue_release")
)

type queueLock struct{ compared }

func (l queueLock) take(ctx context.Context) (bool, error) {
	mode := "try"
	if l.waits {
		mode = "join"
	}
	ttl := l.ttl().Milliseconds()
	left, err := queueTake.Run(ctx, l.rdb, l.keys, l.token, l.patience(), l.channel, ttl, mode).Int64()

	// left is 0 if the lock was taken, or else the ms for which another holds it at most.
	l.retryIn = min(time.Duration(left)*time.Millisecond, l.env.Params.Duration(lookParam))
	return err == nil && left == 0, err
}

func (l queueLock) undo(ctx context.Context) error { return l.release(ctx) }

// release also gives up a place in line.
func (l queueLock) release(ctx context.Context) error {
	return l.releaseBy(ctx, queueRelease, l.keys, l.token, l.patience(), l.channel)
}

// patience is for how long, in ms, a waiter without a sign of life keeps its place.
func (l queueLock) patience() int64 {
	return (queuePatience * l.env.Params.Duration(lookParam)).Milliseconds()
}

var lookParam = param.Duration("look", 100*time.Millisecond, time.Millisecond,
	"how often a waiter looks although no message came; after five it counts as dead")

const queuePatience = 5 // intervals that may pass without a sign of life

// ticket is the lock of a bakery's counter: INCR takes a number, a second counter says
// how many numbers are done, and whoever has the number after that holds the lock.
// Waiters GET the second counter again and again; a release increments it by a script, so
// that only the number being served moves it on.
//
// As published a waiter cannot give up, because nobody would move the line past its
// number. Here a number that is given up at a time-out is put into a set, and the release
// that comes to it skips it. Try takes only one that is served.
//
// What breaks it: it never expires. A holder that dies blocks everybody behind it for
// good (scenario crash-holding), and so does a waiter (crash-waiting). A client that
// loses the reply to INCR does not know its number, which then blocks too (lost-acquire),
// and one whose library sends INCR again takes two (resent-acquire). If the counters are
// lost the numbers repeat (restart-empty): a former holder then releases the lock of the
// present one. Source: Mellor-Crummey, Scott, "Algorithms for Scalable Synchronization on
// Shared-Memory Multiprocessors", 1991, 2.2.
func ticket() Kind {
	return polling(Kind{
		Name:    "ticket",
		Summary: "INCR takes a number, and whoever is served holds it; a crash, of a waiter too, blocks all behind it",
		Source:  "ticket lock; Mellor-Crummey and Scott, 1991",

		Promises: Promises{Exclusive: true, ClockIndependent: true, Fair: true},
		Params:   []param.Param{PollParam, TimeoutParam},
		// The counter of the numbers that are done, the counter of those that are taken,
		// and the set of those that were given up. Together the counters say who holds
		// the lock. They stay, so that numbers do not repeat.
		Keys: func(key string) []string { return []string{key, key + ":taken", key + ":abandoned"} },
	}, func(h *hold) acquisition {
		h.queues = true
		return &ticketLock{hold: h}
	})
}

var (
	ticketTry   = script("ticket_try")
	ticketLeave = script("ticket_leave")
)

type ticketLock struct {
	*hold
	number int64 // 0: none was taken, as far as is known
}

func (l *ticketLock) take(ctx context.Context) (served bool, err error) {
	if !l.waits {
		l.number, err = ticketTry.Run(ctx, l.rdb, l.keys[:2]).Int64()
		return l.number > 0, err
	}

	served, err = l.ask(ctx)
	if err != nil && l.number > 0 {
		return true, err // the number is given back, whatever failed
	}
	return served, err
}

func (l *ticketLock) undo(ctx context.Context) error {
	if l.number == 0 {
		return nil
	}
	return l.release(ctx)
}

func (l *ticketLock) release(ctx context.Context) error {
	return l.releaseBy(ctx, ticketLeave, l.keys, l.number)
}

// ask takes a number, if there is none yet, and reports whether it is served. A number that was
// taken is noted even if ask then fails: it is given back.
func (l *ticketLock) ask(ctx context.Context) (served bool, err error) {
	p := l.rdb.Pipeline()
	var taken *redis.IntCmd
	if l.number == 0 {
		taken = p.Incr(ctx, l.keys[1])
	}
	done := p.Get(ctx, l.key)
	_, _ = p.Exec(ctx) // its error is that of its first failed command: they are judged one by one

	if taken != nil {
		if err := taken.Err(); err != nil {
			return false, fmt.Errorf("take a number for %s: %w", l.key, err)
		}
		l.number = taken.Val()
	}
	n, err := done.Int64()
	if err != nil && !errors.Is(err, redis.Nil) { // redis.Nil: no number is done yet, and n is 0
		return false, fmt.Errorf("ask which number of %s is served: %w", l.key, err)
	}
	return l.number == n+1, nil
}
