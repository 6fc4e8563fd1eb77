package lock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/backoff"
	"github.com/marketsim/marketsim/strategies/param"
)

// wakesByPoll is Kind.Wakes of a lock whose waiters try again.
const wakesByPoll = "poll"

// Polls completes the kind of a lock that waits by trying again and takes [PollParam]: it adds those of package
// backoff that it does not take already, by which the wait between two attempts grows, is random, or ends after some
// number of them. Its Lockers wait as [Retries] says.
func Polls(k Kind) Kind {
	k.Wakes = wakesByPoll
	poll := slices.IndexFunc(k.Params, func(p param.Param) bool { return p.Name == PollParam.Name })
	added := []param.Param{backoff.KindParam, backoff.CapParam, backoff.JitterParam, backoff.TriesParam}
	added = slices.DeleteFunc(added, func(p param.Param) bool { return k.takes(p.Name) })
	k.Params = slices.Insert(slices.Clone(k.Params), poll+1, added...)
	check := k.Check
	k.Check = func(v param.Values) error {
		if check != nil {
			if err := check(v); err != nil {
				return err
			}
		}
		return backoff.Check(v)
	}
	return k
}

// Retries says when the acquisitions of one Locker try again, and when they give up. By default they wait for the same
// time after each attempt, and give up when the time-out has passed. It is not safe for concurrent use.
type Retries struct {
	steps         step.Observer
	waits         *backoff.Waits
	poll, timeout time.Duration
	deadline      time.Time
	spent         time.Duration // of the next acquisition's time-out
	polls         int64
}

// NewRetries returns what the parameters that Polls adds ask for.
func NewRetries(env Env) *Retries {
	poll := env.Params.Duration(PollParam)
	return &Retries{
		steps: env.Steps, waits: backoff.New(env.Params, poll), poll: poll, timeout: env.Params.Duration(TimeoutParam),
	}
}

// Begin begins an acquisition, before its first attempt.
func (r *Retries) Begin() {
	r.deadline = time.Now().Add(r.timeout - r.spent)
	r.spent = 0
	r.waits.Reset()
}

// Spend says that a part of the next acquisition's time-out has passed already.
func (r *Retries) Spend(d time.Duration) { r.spent = d }

// Next reports step.Waiting after an attempt that found the lock held, and returns how long to wait before the next
// one: more than nothing. It returns ErrTimeout when the time-out has passed or there were as many tries as may be.
func (r *Retries) Next(ctx context.Context) (time.Duration, error) {
	r.polls++
	r.steps.At(ctx, step.Waiting)
	left := time.Until(r.deadline)
	if left <= 0 {
		return 0, ErrTimeout
	}
	wait, more := r.waits.Next()
	if !more {
		return 0, triesError(r.waits.Tries())
	}
	return max(1, min(wait, max(left, r.poll))), nil // a wait that has grown does not outlast the time-out
}

// Polls implements Poller.
func (r *Retries) Polls() int64 { return r.polls }

// triesError is ErrTimeout where a number of tries ended the acquisition, and not the time-out.
type triesError int

func (n triesError) Error() string {
	return fmt.Sprintf("lock was held at each of as many tries as there may be, %d", int(n))
}

// Is makes errors.Is find ErrTimeout.
func (triesError) Is(target error) bool { return target == ErrTimeout }
