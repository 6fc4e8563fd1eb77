package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/param"
)

// ticket is the lock of a bakery's counter: INCR of one counter takes a number, a second counter says how many numbers
// are done, and the lock is held by whoever has the number after that. Waiters GET the second counter again and again;
// a release increments it, by a script, so that only the number being served moves it on. It is fair, and nobody writes
// while waiting. It promises the order of arrival, and that one at a time holds it.
//
// As published a number must be served: a waiter cannot give up, because nobody would move the line past it. Here every
// order has a time-out, and one waiter that gave up would end all trade in its item. So a number that is given up is
// put into a set, and the release that comes to it skips it. Try takes a number only if it is served at once.
//
// What breaks it: it never expires. A holder that dies blocks everybody behind it for good (scenario crash-holding),
// and so does a waiter (crash-waiting): a dead client's number is not given up, because only that client could tell. A
// client that loses the reply to INCR does not know its number, which then blocks too (lost-acquire), and one whose
// library sends INCR again takes two numbers (resent-acquire). If the counters are lost the numbers repeat
// (restart-empty): a former holder then has the same number as the present one, and releases the lock for it. That is
// why it does not promise that only its holder releases it.
//
// Source: J. Mellor-Crummey, M. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors",
// 1991, section 2.2: fetch-and-increment of next-ticket, and a poll of now-serving.
func ticket() Kind {
	return polling(Kind{
		Name:     "ticket",
		Summary:  "INCR takes a number, and whoever is served holds it; a crash, of a waiter too, blocks all behind it",
		Source:   "ticket lock; Mellor-Crummey and Scott, 1991",
		Promises: Promises{Exclusive: true, ClockIndependent: true, Fair: true},
		Params:   []param.Param{PollParam, TimeoutParam},
		Keys:     ticketKeys,
	}, ticketHold)
}

// ticketKeys are the counter of the numbers that are done, the counter of those that are taken, and the set of those
// that were given up. Together the counters say who holds the lock. They stay, so that numbers do not repeat.
func ticketKeys(key string) []string { return []string{key, key + ":taken", key + ":abandoned"} }

var (
	ticketTry   = script("ticket_try")
	ticketLeave = script("ticket_leave")
)

func ticketHold(h *hold) {
	var number int64 // 0: none was taken, as far as is known
	h.queues = true
	h.Release = func(ctx context.Context) error {
		return h.releases(ticketLeave.Run(ctx, h.rdb, ticketKeys(h.key), number).Int64())
	}
	h.undo = func(ctx context.Context) error {
		if number == 0 {
			return nil
		}
		return h.Release(ctx)
	}
	h.take = func(ctx context.Context) (served bool, err error) {
		if !h.waits {
			number, err = ticketTry.Run(ctx, h.rdb, ticketKeys(h.key)[:2]).Int64()
			return number > 0, err
		}
		served, err = h.ask(ctx, &number)
		return served || err != nil && number > 0, err // a number that was taken is given back, whatever failed
	}
}

// ask takes a number, if there is none yet, and reports whether it is served.
func (h *hold) ask(ctx context.Context, number *int64) (bool, error) {
	p := h.rdb.Pipeline()
	var taken *redis.IntCmd
	if *number == 0 {
		taken = p.Incr(ctx, ticketKeys(h.key)[1])
	}
	done := p.Get(ctx, h.key)
	_, _ = p.Exec(ctx) // its error is that of its first failed command: they are judged one by one
	if taken != nil {
		if err := taken.Err(); err != nil {
			return false, fmt.Errorf("take a number for %s: %w", h.key, err)
		}
		*number = taken.Val()
	}
	n, err := done.Int64()
	if err != nil && !errors.Is(err, redis.Nil) { // no number is done yet
		return false, fmt.Errorf("ask which number of %s is served: %w", h.key, err)
	}
	return *number == n+1, nil
}
