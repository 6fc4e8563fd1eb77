package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// reentrantLocal is SET EX NX with a token (PX where TTL is not whole seconds). The
// holder counts its entries itself, so entering again sends nothing, and releases it by
// a compare-and-delete script.
//
// With renewals=4 it is renewed at most four times, by a goroutine beside the holder: a
// script compares the token and sets the expiry. The first renewal comes at once, when it
// is of no use, and each other one a whole TTL after the one before (renew=ttl). Ten
// goroutines renew the locks of a worker. With renew-by=xx they send SET XX PX, which
// does not compare.
//
// What breaks it, and reentrant+watchdog corrects but for the lost reply:
//   - It expires whatever its holder does, after its last renewal at the latest, and the
//     holder does not notice (scenario stuck-goroutine): not even its release says so,
//     although it deletes nobody else's lock.
//   - It is renewed when it is about to expire, often too late; a shorter renew
//     corrects it. A renewal that failed is made again at once, again and
//     again, and is not counted.
//   - All locks of one Locker share one flag: the release of any ends the renewal of all,
//     unless another one is taken before the renewer that sleeps looks at the flag again.
//     Ten renewers that sleep renew no eleventh lock.
//   - Entering again succeeds although someone else holds the lock by then. With
//     reenter=set the expiry is gone: after a crash the lock is held for good.
//     reenter=keepttl keeps it, and like reenter=set overwrites what another holds.
//   - With renew-by=xx a late renewal overwrites the token of whoever holds the lock by
//     then, whose lock the release of the former holder then deletes (pause-release).
//   - It takes an error of the connection for a lock that somebody else holds, and tries
//     again until its time-out: also when the reply was lost and it waits for itself
//     (lost-acquire), unless lost-reply=released.
//
// Source: tutorials with a ThreadLocal count over a lock and a pool thread beside it;
// redis.io/commands/set (KEEPTTL).
func reentrantLocal() Kind {
	return withOwnParts(polls(Kind{
		Name:    "reentrant-local",
		Summary: "SET EX NX, entries counted by the client; renewed at most four times, if at all, at the last moment",
		Source:  "tutorials: ThreadLocal count and pool thread",

		Promises: Promises{
			Exclusive: true, SurvivesCrash: true, ClockIndependent: true, Reentrant: true,
		},
		PromisesWith: func(v param.Values, p *Promises) {
			p.SurvivesCrash = v.Text(reenterParam) != bySet
		},
		Params: []param.Param{
			TTLParam, renewalsParam, localRenewParam, renewByParam, reenterParam,
			locking.LostReplyParam, PollParam, TimeoutParam,
		},
		Check:    checkLocalRenewal,
		Variants: []string{":renewals=4", ":renewals=4:renew-by=" + renewByXX},
	}), func(l *locker) (newAcquisition, error) {
		v := l.env.Params
		r := &localRenewals{
			steps:   l.env.Steps,
			times:   v.Count(renewalsParam),
			between: orDefault(v, localRenewParam, v.Duration(TTLParam)),
			busy:    make(chan struct{}, renewers),
		}
		r.open, r.end = context.WithCancel(context.Background())

		// One for all locks of the Locker: see the shared flag above. Closers close the last one
		// first, so that it ends before l.background, on which it renews.
		l.closers = append(l.closers, r)
		return func(h *hold) acquisition {
			return &entry{hold: h, own: countedLocally{compared: compared{h}, renewals: r}}
		}, nil
	})
}

const (
	renewByXX = "xx"
	bySet     = "set"
	byKeepTTL = "keepttl"
)

var (
	renewalsParam   = param.OneOf("renewals", "how often the lock is renewed before it runs out", "0", "1", "2", "3", "4")
	localRenewParam = param.Duration("renew", 0, time.Millisecond,
		"wait after each renewal; ttl: until the lock is about to expire").Or("ttl")
	renewByParam = param.OneOf("renew-by",
		"what renews: a script that compares the token, or SET XX, which overwrites another holder's", "script", renewByXX)
	reenterParam = param.OneOf("reenter",
		"what entering again sends: nothing, SET, which drops the expiry, or SET KEEPTTL", "nothing", bySet, byKeepTTL)
)

// checkLocalRenewal refuses a wait that is too long, and what only renewals need.
func checkLocalRenewal(v param.Values) error {
	if v.Count(renewalsParam) == 0 {
		for _, p := range []param.Param{localRenewParam, renewByParam} {
			if value := v.Text(p); value != p.Default {
				return fmt.Errorf("%s=%s is of no use without renewals: add renewals=4", p.Name, value)
			}
		}
	}
	ttl := v.Duration(TTLParam)
	if every := orDefault(v, localRenewParam, ttl); every > ttl {
		return fmt.Errorf("renew=%s is too late for a lock that expires after %s", every, ttl)
	}
	return nil
}

const renewers = 10 // how many locks of one worker are renewed at the same time

// localRenewals is what all locks of a worker have in common: the flag that ends
// their renewals, and who renews.
type localRenewals struct {
	steps   step.Observer
	times   int           // how often each lock is renewed
	between time.Duration // after each renewal

	flag    atomic.Bool     // raised whenever a lock is taken, lowered whenever one is released
	open    context.Context // ends with the Locker
	end     context.CancelFunc
	running sync.WaitGroup
	// Has an element for each renewer at work; what waits for one goes on in order.
	busy chan struct{}
}

// countedLocally is the reentrance of reentrant-local: the client counts its entries.
type countedLocally struct {
	compared
	renewals *localRenewals
}

func (c countedLocally) enter(ctx context.Context, entries int) (bool, error) {
	if entries > 0 {
		return true, c.enterAgain(ctx)
	}

	taken, err := c.setEXNX(ctx, c.token)
	if taken && c.renewals.times > 0 {
		c.renewals.begin(c)
	}
	var answered redis.Error
	if c.locker.keepsTaken && ctx.Err() == nil && !errors.As(err, &answered) {
		err = nil // as published: no answer counts as a lock that somebody else holds
	}
	return taken, err
}

func (c countedLocally) enterAgain(ctx context.Context) error {
	switch c.env.Params.Text(reenterParam) {
	case bySet:
		return c.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", c.key, c.token))
	case byKeepTTL:
		return c.rdb.Process(ctx, redis.NewStatusCmd(ctx, "set", c.key, c.token, "keepttl"))
	}
	return nil
}

func (c countedLocally) leave(ctx context.Context, last bool) error {
	if !last {
		return nil
	}
	c.renewals.flag.Store(false)
	err := c.release(ctx)
	if errors.Is(err, ErrLost) {
		return nil // as published
	}
	return err
}

func (c countedLocally) renew(ctx context.Context) error {
	if c.env.Params.Text(renewByParam) == renewByXX {
		return c.renewBySet(ctx, "xx")
	}
	return c.compared.renew(ctx)
}

func (c countedLocally) abandon() { c.renewals.flag.Store(false) }

// begin has a lock renewed beside its holder, who learns nothing of it.
func (r *localRenewals) begin(held renewer) {
	r.flag.Store(true)
	r.running.Go(func() {
		select {
		case r.busy <- struct{}{}:
			defer func() { <-r.busy }()
		case <-r.open.Done(): // the loop then does nothing
		}

		for done := 0; done < r.times && r.flag.Load() && r.open.Err() == nil; {
			if held.renew(r.open) != nil {
				continue // at once, and not counted
			}
			done++
			r.steps.At(r.open, step.Renewed)
			_ = locking.Sleep(r.open, r.between, nil) // if r ends, so does the loop
		}
	})
}

// Close ends the renewals, and returns when none is under way.
func (r *localRenewals) Close() error {
	r.end()
	r.running.Wait()
	return nil
}
