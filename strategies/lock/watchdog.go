package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrNoRenewal is returned by WithWatchdog for a lock whose leases cannot be renewed.
var ErrNoRenewal = errors.New("lock cannot be renewed")

const auto = "ttl/3"

// renewParam is how often the watchdog renews.
var renewParam = param.DurationOr("renew", auto, time.Millisecond, "how often the watchdog renews")

// WithWatchdog returns kind with its leases renewed by a timer until they are released, on a connection of their own.
// A lease's context is cancelled when a renewal finds the lock gone, or when no renewal has succeeded for a whole TTL.
// The TTL counts from before the request that took or renewed the lock was sent. If a Locker does not say when that was
// (see Asker) and had to wait for the lock, the lock is renewed once before Acquire returns. WithWatchdog returns
// ErrNoRenewal, wrapped, if kind's leases cannot be renewed.
//
// What breaks it: a watchdog does not see whether its holder works or is stuck, and renews for both.
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
		ttl := env.Params.Duration(TTLParam)
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
		return v.Duration(TTLParam) / 3
	}
	return v.Duration(renewParam)
}

// checkRenewal refuses an interval at whose end the lock has already expired.
func checkRenewal(v param.Values) error {
	if every, ttl := renewal(v), v.Duration(TTLParam); every >= ttl {
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

// Spend tells the Locker under it, if it polls.
func (w *watched) Spend(d time.Duration) {
	if s, ok := w.Locker.(spender); ok {
		s.Spend(d)
	}
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

// watch starts to renew a lease that was acquired in a call that began at start.
func (w *watched) watch(ctx context.Context, start time.Time, lease Lease, err error) (Lease, error) {
	if err != nil {
		return nil, err
	}
	renewer := lease.(Renewer)
	if a, ok := w.Locker.(Asker); ok {
		start = a.Asked()
	} else if time.Since(start) >= w.every { // it waited, and has had the lock for some unknown part of that time
		start = time.Now()
		if err := renewer.Renew(ctx); err != nil {
			return nil, fmt.Errorf("renew the lock that was waited for: %w", GiveBack(ctx, err, lease.Release))
		}
	}
	return keepRenewing(renewer, start, w.every, w.ttl, w.steps), nil
}

// renewing is a lease that is renewed until it is released or lost.
type renewing struct {
	Renewer
	every, ttl time.Duration
	steps      step.Observer
	ctx        context.Context
	cancel     context.CancelCauseFunc
	done       sync.WaitGroup
}

// keepRenewing starts to renew a lease. asked is when the request that took the lock was sent: its TTL may have begun
// then.
func keepRenewing(lease Renewer, asked time.Time, every, ttl time.Duration, steps step.Observer) *renewing {
	ctx, cancel := context.WithCancelCause(lease.Context())
	r := &renewing{Renewer: lease, every: every, ttl: ttl, steps: steps, ctx: ctx, cancel: cancel}
	if time.Since(asked) >= ttl { // the reply was so late that the lock may have expired
		cancel(ErrLost)
	}
	r.done.Go(func() { r.run(asked) })
	return r
}

func (r *renewing) run(start time.Time) {
	valid := start.Add(r.ttl) // until then the lock is certainly held
	tick, end := time.NewTimer(time.Until(start.Add(r.every))), time.NewTimer(time.Until(valid))
	defer tick.Stop()
	defer end.Stop()
	for {
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
		case errors.Is(err, ErrLost) || !time.Now().Before(valid):
			r.cancel(ErrLost)
			return
		}
	}
}

// Context implements Lease.
func (r *renewing) Context() context.Context { return r.ctx }

// Release implements Lease. It waits until no renewal is under way.
func (r *renewing) Release(ctx context.Context) error {
	r.cancel(context.Canceled)
	r.done.Wait()
	return r.Renewer.Release(ctx)
}

// Fence implements Fencer. It returns 0 if the lease under it is not a Fencer.
func (r *renewing) Fence() int64 {
	if f, ok := r.Renewer.(Fencer); ok {
		return f.Fence()
	}
	return 0
}

// Reenter implements Reentrant. It returns ErrHeld if the lease under it is not Reentrant: its own holder has the lock.
// The new lease is renewed separately, because either lease may be released first.
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
	return keepRenewing(again.(Renewer), start, r.every, r.ttl, r.steps), nil
}

// Background is a second connection of a Locker, for renewals while the worker works. A renewal on the worker's own
// connection would wait for the work that it is needed for.
type Background struct {
	dial func(context.Context) (*redis.Client, error)
	mu   sync.Mutex
	rdb  *redis.Client
}

// NewBackground returns a connection that opens when it is first needed.
func NewBackground(env Env) *Background { return &Background{dial: env.Dial} }

// Connection returns the connection. go-redis serializes its use.
func (b *Background) Connection(ctx context.Context) (*redis.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		rdb, err := b.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect for renewals: %w", err)
		}
		b.rdb = rdb
	}
	return b.rdb, nil
}

// renew runs a script that answers 1 if it renewed the lock and 0 if the lock was lost.
func (b *Background) renew(ctx context.Context, script *redis.Script, keys []string, args ...any) error {
	rdb, err := b.Connection(ctx)
	if err != nil {
		return err
	}
	return lost(script.Run(ctx, rdb, keys, args...).Int64())
}

// Close closes the connection if it was opened.
func (b *Background) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		return nil
	}
	return b.rdb.Close()
}
