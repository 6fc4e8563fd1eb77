package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// ErrNoRenewal is returned by WithWatchdog for a lock whose leases cannot be renewed.
var ErrNoRenewal = errors.New("lock cannot be renewed")

const auto = "ttl/3"

// renewParam is how often the watchdog renews.
var renewParam = param.Param{
	Name: "renew", Default: auto, Summary: "how often the watchdog renews",
	Normalize: func(value string) (string, error) {
		if value == auto {
			return auto, nil
		}
		return param.Duration("renew", time.Second, time.Millisecond, "").Normalize(value)
	},
}

// WithWatchdog returns kind with its leases renewed by a timer until they are released, on a connection of their own.
// A lease's context is cancelled when a renewal finds the lock gone, or when none has succeeded for a whole TTL, counted
// from before the request that took or renewed it was sent. Where a Locker does not say when that was (see Asker), a
// lock that was waited for is renewed before it is handed out. It returns ErrNoRenewal, wrapped, if kind's leases cannot
// be renewed.
//
// What breaks it: a watchdog renews for a holder that is stuck as gladly as for one that works.
func WithWatchdog(kind Kind) (Kind, error) {
	if !kind.Renews {
		return Kind{}, fmt.Errorf("%w: %s", ErrNoRenewal, kind.Name)
	}
	open := kind.New
	kind.Name += "+watchdog"
	kind.Summary += "; renewed in the background"
	kind.Params = append(append([]param.Param(nil), kind.Params...), renewParam)
	kind.Promises.NoticesLoss = true
	if with := kind.PromisesWith; with != nil {
		kind.PromisesWith = func(v param.Values) Promises {
			p := with(v)
			p.NoticesLoss = true
			return p
		}
	}
	check := kind.Check
	kind.Check = func(v param.Values) error {
		if check != nil {
			if err := check(v); err != nil {
				return err
			}
		}
		return checkRenewal(v)
	}
	kind.New = func(env Env) (Locker, error) {
		locker, err := open(env)
		if err != nil {
			return nil, err
		}
		ttl := env.Params.Duration(ttlParam)
		w := &watched{Locker: locker, every: renewal(env.Params), ttl: ttl, steps: env.Steps}
		if _, ok := locker.(SharedLocker); ok {
			return &watchedShared{w}, nil
		}
		return w, nil
	}
	return kind, nil
}

// renewal is how often a lease is renewed.
func renewal(v param.Values) time.Duration {
	if v.Text(renewParam) == auto {
		return v.Duration(ttlParam) / 3
	}
	return v.Duration(renewParam)
}

// checkRenewal refuses a renewal that comes when the lock has expired.
func checkRenewal(v param.Values) error {
	if every, ttl := renewal(v), v.Duration(ttlParam); every >= ttl {
		return fmt.Errorf("renew=%s is too late for a lock that expires after %s", every, ttl)
	}
	return nil
}

// watched is a Locker whose leases are renewed.
type watched struct {
	Locker
	every, ttl time.Duration
	steps      step.Observer
}

// Promises implements Locker.
func (w *watched) Promises() Promises {
	p := w.Locker.Promises()
	p.NoticesLoss = true
	return p
}

// Polls implements Poller.
func (w *watched) Polls() int64 {
	if p, ok := w.Locker.(Poller); ok {
		return p.Polls()
	}
	return 0
}

// Close implements io.Closer.
func (w *watched) Close() error {
	if c, ok := w.Locker.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Acquire implements Locker.
func (w *watched) Acquire(ctx context.Context, name string) (Lease, error) {
	start := time.Now()
	lease, err := w.Locker.Acquire(ctx, name)
	return w.watch(ctx, start, lease, err)
}

// Try implements Locker.
func (w *watched) Try(ctx context.Context, name string) (Lease, error) {
	start := time.Now()
	lease, err := w.Locker.Try(ctx, name)
	return w.watch(ctx, start, lease, err)
}

// watchedShared is a watched SharedLocker.
type watchedShared struct{ *watched }

// AcquireShared implements SharedLocker.
func (w *watchedShared) AcquireShared(ctx context.Context, name string) (Lease, error) {
	start := time.Now()
	lease, err := w.Locker.(SharedLocker).AcquireShared(ctx, name)
	return w.watch(ctx, start, lease, err)
}

// watch keeps a lease renewed that was acquired in a call that began at start.
func (w *watched) watch(ctx context.Context, start time.Time, lease Lease, err error) (Lease, error) {
	if err != nil {
		return nil, err
	}
	renewer := lease.(Renewer)
	if a, ok := w.Locker.(Asker); ok {
		start = a.Asked()
	} else if time.Since(start) >= w.every { // it waited, and nobody knows for how long of that it has had the lock
		start = time.Now()
		if err := renewer.Renew(ctx); err != nil {
			return nil, fmt.Errorf("renew the lock that was waited for: %w", giveBack(ctx, err, lease.Release))
		}
	}
	return keepRenewing(renewer, start, w.every, w.ttl, 0, w.steps), nil
}

// renewing is a lease that is renewed until it is released, lost, or renewed as often as it may be.
type renewing struct {
	Renewer
	every, ttl time.Duration
	times      int
	steps      step.Observer
	ctx        context.Context
	cancel     context.CancelCauseFunc
	done       sync.WaitGroup
}

// keepRenewing starts to renew a lease, at most times often if that is not zero. asked is when the request was sent that
// took it: from then on its TTL may have run.
func keepRenewing(lease Renewer, asked time.Time, every, ttl time.Duration, times int, steps step.Observer) *renewing {
	ctx, cancel := context.WithCancelCause(lease.Context())
	r := &renewing{Renewer: lease, every: every, ttl: ttl, times: times, steps: steps, ctx: ctx, cancel: cancel}
	if time.Since(asked) >= ttl { // the reply was so late that its holder must not begin
		cancel(ErrLost)
	}
	r.done.Go(func() { r.run(asked) })
	return r
}

func (r *renewing) run(start time.Time) {
	valid := start.Add(r.ttl) // until then the lock is surely ours
	tick, end := time.NewTimer(time.Until(start.Add(r.every))), time.NewTimer(time.Until(valid))
	defer tick.Stop()
	defer end.Stop()
	for n := 0; r.times == 0 || n < r.times; n++ {
		select {
		case <-r.ctx.Done():
			return
		case <-end.C:
			r.cancel(ErrLost)
			return
		case <-tick.C:
		}
		start = time.Now()
		tick.Reset(r.every)
		ctx, cancel := context.WithDeadline(r.ctx, valid)
		err := r.Renew(ctx)
		cancel()
		switch {
		case err == nil:
			valid = start.Add(r.ttl)
			end.Reset(time.Until(valid))
			r.steps.At(r.ctx, step.Renewed)
		case isLost(err) || !time.Now().Before(valid):
			r.cancel(ErrLost)
			return
		}
	}
}

// Context implements Lease.
func (r *renewing) Context() context.Context { return r.ctx }

// Release implements Lease: no renewal is under way when the lock is given back.
func (r *renewing) Release(ctx context.Context) error {
	r.cancel(context.Canceled)
	r.done.Wait()
	return r.Renewer.Release(ctx)
}

// Fence implements Fencer where the lease under it does.
func (r *renewing) Fence() int64 {
	if f, ok := r.Renewer.(Fencer); ok {
		return f.Fence()
	}
	return 0
}

// Reenter implements Reentrant where the lease under it does; the lock of another is held by someone, its holder
// included. The new lease is renewed by itself, because either may be released first.
func (r *renewing) Reenter(ctx context.Context) (Lease, error) {
	reentrant, ok := r.Renewer.(Reentrant)
	if !ok {
		return nil, ErrHeld
	}
	start := time.Now()
	again, err := reentrant.Reenter(ctx)
	if err != nil {
		return nil, err
	}
	return keepRenewing(again.(Renewer), start, r.every, r.ttl, r.times, r.steps), nil
}
