package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/backoff"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

const gateLocal = "local"

// The parameters of a repeater.
var (
	watchTimeout     = param.Duration("timeout", 10*time.Second, 0, "how long a purchase tries again after aborts")
	watchListTimeout = param.Duration("list-timeout", 5*time.Second, 0, "how long a listing tries again after aborts")
	gateParam        = param.Choice("gate", "local: workers of one process go one at a time", "none", gateLocal)
	backoffBase      = param.Duration("base", time.Millisecond, time.Microsecond, "first wait of a back-off")
)

// repeaterParams are its parameters in the order in which they are shown.
func repeaterParams() []param.Param {
	return []param.Param{
		watchTimeout, watchListTimeout, gateParam, backoff.KindParam, backoffBase, backoff.CapParam, backoff.JitterParam,
		backoff.TriesParam,
	}
}

// checkRepeats refuses parameters that are of no use without a back-off.
func checkRepeats(v param.Values) error {
	if v.Text(backoff.KindParam) == backoff.None {
		for _, p := range []param.Param{backoffBase, backoff.JitterParam} {
			if v.Text(p) != p.Default {
				return fmt.Errorf("%s is of no use without a wait: add backoff=exp, full or decorrelated", p.Name)
			}
		}
	}
	return backoff.Check(v)
}

// repeater makes transactions under WATCH, and repeats those that are aborted.
type repeater struct {
	rdb                          *redis.Client
	steps                        step.Observer
	thrown                       func() // may be nil
	purchaseTimeout, listTimeout time.Duration
	gate                         gate // nil: there is none
	waits                        *backoff.Waits
	waiting                      bool // after an abort, and not only for the gate
}

func newRepeater(env Env) (r repeater, err error) {
	v := env.Params
	r = repeater{
		rdb: env.Redis, steps: env.Steps, thrown: env.Thrown,
		purchaseTimeout: v.Duration(watchTimeout), listTimeout: v.Duration(watchListTimeout),
		waits: backoff.New(v, v.Duration(backoffBase)), waiting: v.Text(backoff.KindParam) != backoff.None,
	}
	if v.Text(gateParam) == gateLocal {
		r.gate, err = processGate(env.Process, env.Keys)
	}
	return r, err
}

// again repeats a transaction that is aborted, until the time-out has passed or there were as many tries as may be.
func (r *repeater) again(ctx context.Context, timeout time.Duration, transaction func() error,
) (receipt market.Receipt, err error) {
	start := time.Now()
	if r.gate != nil {
		err := r.gate.enter(ctx, func() { r.steps.At(ctx, step.Waiting) })
		receipt.LockWait = time.Since(start)
		if err != nil {
			return receipt, beforeWrite(err)
		}
		defer r.gate.leave()
		start = time.Now()
	}
	r.waits.Reset()
	for {
		err := transaction()
		if !errors.Is(err, redis.TxFailedErr) {
			return receipt, err
		}
		receipt.Retries++
		receipt.Thrown = time.Since(start)
		if r.thrown != nil {
			r.thrown()
		}
		wait, more := r.waits.Next()
		if !more || receipt.Thrown >= timeout {
			return receipt, fmt.Errorf("%w: aborted %d times in %s", market.ErrContended, receipt.Retries, receipt.Thrown)
		}
		if r.waiting {
			r.steps.At(ctx, step.Waiting)
			if err := sleep(ctx, wait); err != nil {
				return receipt, beforeWrite(err)
			}
			receipt.Thrown = time.Since(start)
		}
	}
}

// sleep returns ctx's error when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// optimistically watches keys, reads and decides, and executes the writes if nothing watched has changed.
func (r *repeater) optimistically(ctx context.Context, read func(*redis.Tx) error, write func(redis.Pipeliner),
	keys ...string,
) error {
	sent := false
	err := r.rdb.Watch(ctx, func(tx *redis.Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		r.steps.At(ctx, step.Read)
		r.steps.At(ctx, step.BeforeWrite)
		sent = true
		if err := exec(ctx, tx.TxPipelined, write); err != nil {
			return err
		}
		r.steps.At(ctx, step.Written)
		return nil
	}, keys...)
	if !sent {
		return beforeWrite(err)
	}
	return err
}

// A gate is a mutex of the process whose wait can be cancelled. It keeps workers of one process from conflicting with
// each other; those of other processes it does not know.
type gate chan struct{}

// processGate is the gate of a market in this process; a new one for a worker that is alone in its process.
func processGate(p *lock.Process, keys market.Keys) (gate, error) {
	if p == nil {
		return make(gate, 1), nil
	}
	shared, err := p.Share("gate "+keys.Prefix(), func() (io.Closer, error) { return make(gate, 1), nil })
	if err != nil {
		return nil, err
	}
	return shared.(gate), nil
}

// enter waits until nobody is inside. waiting is called if somebody is.
func (g gate) enter(ctx context.Context, waiting func()) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	waiting()
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g gate) leave() { <-g }

// Close implements io.Closer, which Process asks for.
func (gate) Close() error { return nil }
