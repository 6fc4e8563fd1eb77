package lock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
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
// What breaks it: it never expires. A holder that dies blocks everybody behind it for good (scenario crash-holding), and
// so does a waiter (crash-waiting): a dead client's number is not given up, because only that client could tell. A client
// that loses the reply to INCR does not know its number, which then blocks too (lost-acquire), and one whose library
// sends INCR again takes two numbers (resent-acquire). If the counters are lost the numbers repeat (restart-empty): a
// former holder then has the same number as the present one, and releases the lock for it. That is why it does not
// promise that only its holder releases it.
//
// Source: J. Mellor-Crummey, M. Scott, "Algorithms for Scalable Synchronization on Shared-Memory Multiprocessors", 1991,
// section 2.2: fetch-and-increment of next-ticket, and a poll of now-serving.
func ticket() Kind {
	k := polling(Kind{
		Name:     "ticket",
		Summary:  "INCR takes a number, and whoever is served holds it; a crash, of a waiter too, blocks all behind it",
		Source:   "ticket lock; Mellor-Crummey and Scott, 1991",
		Promises: Promises{Exclusive: true, ClockIndependent: true, Fair: true},
		Params:   []param.Param{PollParam, TimeoutParam},
		Keys:     ticketKeys,
	}, func(l redisLease) grant { return &ticketLease{redisLease: l} })
	open := k.New
	k.New = func(env Env) (Locker, error) {
		l, err := open(env)
		if err != nil {
			return nil, err
		}
		return &ticketLocker{l.(*polled)}, nil
	}
	return k
}

// ticketKeys are the counter of the numbers that are done, the counter of those that are taken, and the set of those
// that were given up. Together the counters say who holds the lock. They stay, so that numbers do not repeat.
func ticketKeys(key string) []string { return []string{key, key + ":taken", key + ":abandoned"} }

var (
	//go:embed ticket_try.lua
	ticketTryText string
	//go:embed ticket_leave.lua
	ticketLeaveText string

	ticketTry   = redis.NewScript(ticketTryText)
	ticketLeave = redis.NewScript(ticketLeaveText)
)

type ticketLocker struct{ *polled }

// Acquire implements Locker. A number that is not served in time is given up.
func (l *ticketLocker) Acquire(ctx context.Context, name string) (Lease, error) {
	g := &ticketLease{redisLease: l.lease(name)}
	lease, err := l.acquire(ctx, name, g)
	if err != nil && g.number > 0 {
		err = GiveBack(ctx, err, g.Release)
	}
	return lease, err
}

// Try implements Locker.
func (l *ticketLocker) Try(ctx context.Context, name string) (Lease, error) {
	g := &ticketLease{redisLease: l.lease(name)}
	l.asked = time.Now()
	number, err := ticketTry.Run(ctx, g.rdb, ticketKeys(g.key)[:2]).Int64()
	if err == nil && number == 0 {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, backend.OfContext(ctx, err))
	}
	g.number = number
	return g, nil
}

type ticketLease struct {
	redisLease
	number int64 // 0: none was taken, as far as is known
}

// take implements grant. The first attempt takes a number.
func (l *ticketLease) take(ctx context.Context) (bool, error) {
	p := l.rdb.Pipeline()
	var taken *redis.IntCmd
	if l.number == 0 {
		taken = p.Incr(ctx, ticketKeys(l.key)[1])
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
	if err != nil && !errors.Is(err, redis.Nil) { // no number is done yet
		return false, fmt.Errorf("ask which number of %s is served: %w", l.key, err)
	}
	return l.number == n+1, nil
}

// Release implements Lease. It also gives up a number that is not served yet.
func (l *ticketLease) Release(ctx context.Context) error {
	return l.releases(ticketLeave.Run(ctx, l.rdb, ticketKeys(l.key), l.number).Int64())
}
