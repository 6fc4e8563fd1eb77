package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// watch is optimistic locking: WATCH what is read, and EXEC the writes if nothing of it
// has changed; if something has, start again. A purchase watches the whole market and the
// buyer, so every listing and purchase by anyone aborts it. A listing watches only the
// seller's inventory. The book starts again at once; backoff waits first. gate=local lets
// workers of one process through one at a time, as JuiceFS does. Source: Redis in Action,
// sections 4.4.2 and 4.4.3, list_item and purchase_item; for back-offs, M. Brooker,
// "Exponential Backoff And Jitter", 2015.
func watch() Strategy {
	return optimistic(Strategy{
		Name:    "watch",
		Summary: "optimistic locking: WATCH market and buyer, MULTI, EXEC, again after an abort",
		Source:  "Redis in Action, section 4.4",
	}, false)
}

// watchItem is optimistic locking on a version of each item, in place of the whole
// market: WATCH the item's version and the buyer's account, and count the version up with
// the writes. Only operations on the same item or account abort it.
//
// What breaks it: whoever writes an item without counting up its version, such as another
// strategy. Each item that was ever listed leaves a key at the market for the market's
// lifetime. Source: Redis in Action, section 4.4, at the granularity of section 6.2.4; H.
// T. Kung and J. T. Robinson, 1981.
func watchItem() Strategy {
	return optimistic(Strategy{
		Name:    "watch-item",
		Summary: "optimistic locking on a version an item and the buyer's account, in place of the market",
		Source:  "Redis in Action, section 4.4, at the granularity of 6.2.4",
		Keys: func(keys market.Keys, made market.RunNote, leaves func(key string) bool) {
			for id := market.ItemID(1); id <= made.Items && leaves(keys.Version(id)); id++ {
			}
		},
	}, true)
}

const gateLocal = "local"

var (
	watchTimeout = param.Duration("timeout", 10*time.Second, 0,
		"how long a purchase tries again after aborts").As(param.Timeout)
	watchListTimeout = param.Duration("list-timeout", 5*time.Second, 0,
		"how long a listing tries again after aborts").As(param.Timeout)
	gateParam   = param.OneOf("gate", "local: workers of one process go one at a time", "none", gateLocal)
	backoffBase = param.Duration("base", time.Millisecond, time.Microsecond, "first wait of a back-off")
)

// optimistic completes a strategy that makes transactions under WATCH, and
// repeats those that are aborted. With versions it watches a version of the item
// in place of what other items share.
func optimistic(s Strategy, versions bool) Strategy {
	s.Protects = Protection{Items: true, Accounts: true}
	s.Params = []param.Param{
		watchTimeout, watchListTimeout, gateParam, locking.BackoffParam, backoffBase,
		locking.LongestWaitParam, locking.JitterParam, locking.TriesParam,
	}

	s.Check = func(spec Spec, _ Catalogue) error {
		for _, p := range []param.Param{backoffBase, locking.JitterParam} {
			without := spec.params.Text(locking.BackoffParam) == locking.BackoffNone
			if without && spec.params.Text(p) != p.Default {
				return fmt.Errorf("%s is of no use without a wait: add backoff=exp, full or decorrelated",
					p.Name)
			}
		}
		return locking.CheckBackoff(spec.params)
	}

	s.New = func(env Env) (market.Purchaser, io.Closer, error) {
		w := &watcher{
			Env:      env,
			versions: versions,
			waits:    locking.NewBackoff(env.Params, env.Params.Duration(backoffBase)),
		}

		// All workers of the process in one market share a gate: the prefix is in its name.
		if env.Params.Text(gateParam) == gateLocal {
			one := func() *semaphore.Weighted {
				return semaphore.NewWeighted(1)
			}
			w.gate = lock.Share(env.Process, "gate "+env.Keys.Prefix(), one)
		}
		return purchaser{env.Keys, w}, nil, nil
	}
	return s
}

type watcher struct {
	Env
	versions bool
	gate     *semaphore.Weighted // lets one worker of the process in at a time; nil: there is none
	waits    *locking.Backoff
}

// execute makes transactions until one is not aborted, or until the time-out has passed or
// the tries are used up.
func (w *watcher) execute(ctx context.Context, op *operation) (r market.Receipt, err error) {
	start := time.Now()
	timeout := w.Params.Duration(watchTimeout)
	if op.lists {
		timeout = w.Params.Duration(watchListTimeout)
	}

	if w.gate != nil {
		// Waiting at the gate is a wait for a lock. What is thrown away is measured after it.
		if !w.gate.TryAcquire(1) {
			w.Steps.At(ctx, step.Waiting)
			err = w.gate.Acquire(ctx, 1)
		}
		r.LockWait = time.Since(start)
		if err != nil {
			return r, beforeWrite(err)
		}
		defer w.gate.Release(1)
		start = time.Now()
	}

	w.waits.Reset()
	for {
		if err := w.transaction(ctx, op); !errors.Is(err, redis.TxFailedErr) {
			return r, err
		}
		r.Retries++
		r.Thrown = time.Since(start)

		wait, more := w.waits.Next()
		if !more || r.Thrown >= timeout {
			return r, fmt.Errorf("%w: aborted %d times in %s", market.ErrContended, r.Retries, r.Thrown)
		}
		// Without a back-off it starts again at once, as the book does.
		if w.Params.Text(locking.BackoffParam) != locking.BackoffNone {
			w.Steps.At(ctx, step.Waiting)
			if err := locking.Sleep(ctx, wait, nil); err != nil {
				return r, beforeWrite(err)
			}
			r.Thrown = time.Since(start)
		}
	}
}

// transaction watches keys, reads and decides, and executes the writes if
// nothing watched has changed.
func (w *watcher) transaction(ctx context.Context, op *operation) error {
	// An error before sent is one of an operation that has certainly written nothing.
	sent := false
	keys := op.reads()
	if w.versions {
		keys[0] = w.Keys.Version(op.Item) // in place of that of many items
	}

	err := w.Redis.Watch(ctx, func(tx *redis.Tx) error {
		op.read(ctx, tx)
		if err := op.judge(); err != nil {
			return err
		}

		// Nothing happens between these two here, but a worker may be held at either.
		w.Steps.At(ctx, step.Read)
		w.Steps.At(ctx, step.BeforeWrite)
		sent = true
		err := exec(ctx, tx.TxPipelined, false, func(p redis.Pipeliner) {
			if w.versions {
				p.Incr(ctx, keys[0])
			}
			op.write(ctx, p)
		})
		if err == nil {
			w.Steps.At(ctx, step.Written)
		}
		return err
	}, keys...)

	if !sent {
		return beforeWrite(err)
	}
	return err
}
