package lock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

var (
	pollParam    = param.Duration("poll", time.Millisecond, 10*time.Microsecond, "wait between two attempts to take the lock")
	ttlParam     = param.Duration("ttl", 10*time.Second, 10*time.Millisecond, "how long the lock is held at most without renewal")
	timeoutParam = param.Duration("timeout", 10*time.Second, 0, "how long an acquisition may take")
)

// poller repeats an attempt to take a lock until it succeeds: how every lock waits that is not told when to try.
type poller struct {
	every   time.Duration
	random  bool // wait a random time of up to twice every, so that waiters do not meet again and again
	timeout time.Duration
	steps   step.Observer
	polls   int64
	asked   time.Time
	timer   *time.Timer
}

func newPoller(env Env) poller {
	return poller{every: env.Params.Duration(pollParam), timeout: env.Params.Duration(timeoutParam), steps: env.Steps}
}

// Polls implements Poller.
func (p *poller) Polls() int64 { return p.polls }

// Asked implements Asker.
func (p *poller) Asked() time.Time { return p.asked }

// until calls attempt until it reports true or an error. It returns ErrTimeout when the time-out has passed, and
// ctx's error when ctx ended first. There is at least one attempt.
func (p *poller) until(ctx context.Context, attempt func(context.Context) (bool, error)) error {
	for deadline := time.Now().Add(p.timeout); ; {
		p.asked = time.Now()
		if taken, err := attempt(ctx); taken || err != nil {
			return ofContext(ctx, err)
		}
		p.polls++
		p.steps.At(ctx, step.Waiting)
		if !time.Now().Before(deadline) {
			return ErrTimeout
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

func (p *poller) wait(ctx context.Context) error {
	every := p.every
	if p.random {
		every = rand.N(2 * p.every)
	}
	if p.timer == nil {
		p.timer = time.NewTimer(every)
	} else {
		p.timer.Reset(every)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	}
}
