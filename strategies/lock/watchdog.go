package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrNoRenewal is returned by WithWatchdog for a lock whose leases cannot be renewed.
var ErrNoRenewal = errors.New("lock cannot be renewed")

var renewParam = param.Duration("renew", 0, time.Millisecond, "how often the watchdog renews").Or("ttl/3")

// Watchdog is what follows a lock's name after a + for WithWatchdog.
const Watchdog = "watchdog"

// WithWatchdog returns kind with its leases renewed by a timer until they are released,
// on a connection of their own. A lease's context is cancelled when a renewal finds the
// lock gone, or when no renewal has succeeded for a whole TTL. The TTL counts from before
// the request that took or renewed the lock was sent.
//
// What breaks it: a watchdog does not see whether its holder works or is stuck,
// and renews for both.
func WithWatchdog(kind Kind) (Kind, error) {
	if !kind.Renews || !kind.own {
		return Kind{}, fmt.Errorf("%w: %s", ErrNoRenewal, kind.Name)
	}

	kind.Name += "+" + Watchdog
	kind.Summary += "; renewed in the background"
	kind.Params = append(slices.Clone(kind.Params), renewParam)
	kind.Promises.NoticesLoss = true
	kind.Check = also(kind.Check, checkRenewal)

	// open makes Lockers of the kind as it was: of all that is changed here they see env.watched
	// alone, by which withOwnParts has them promise NoticesLoss, too.
	open := kind.New
	kind.New = func(env Env) (Locker, error) {
		env.watched = true
		return open(env)
	}
	return kind, nil
}

// orDefault is the value of a parameter that is a duration or a word, which
// stands for another one.
func orDefault(v param.Values, p param.Param, word time.Duration) time.Duration {
	if v.Text(p) == p.Default {
		return word
	}
	return v.Duration(p)
}

// checkRenewal refuses an interval at whose end the lock has already expired.
func checkRenewal(v param.Values) error {
	ttl := v.Duration(TTLParam)
	if every := orDefault(v, renewParam, ttl/3); every >= ttl {
		return fmt.Errorf("renew=%s is too late for a lock that expires after %s", every, ttl)
	}
	return nil
}

// watched is the lease of a lock that was taken, renewed until it is released or lost.
func (l *locker) watched(h *hold) *Lease {
	ttl := h.ttl()
	every := orDefault(l.env.Params, renewParam, ttl/3)
	return keepRenewing(&h.lease, h.asked, every, ttl, l.env.Steps)
}

// keepRenewing returns the lease renewed until it is released or lost. asked is when the
// request that took the lock was sent. The lease of another entry is renewed separately,
// because either may be released first.
func keepRenewing(
	lease *Lease, asked time.Time, every, ttl time.Duration, steps step.Observer) *Lease {

	noticed, cancel := context.WithCancelCause(lease.Context())
	if time.Since(asked) >= ttl { // the reply was so late that the lock may have expired
		cancel(ErrLost)
	}

	var done sync.WaitGroup
	done.Go(func() {
		renewUntil(noticed, lease, asked, every, ttl, steps)
		cancel(ErrLost) // unless noticed has ended
	})

	kept := *lease
	kept.Noticed = noticed
	kept.Release = func(ctx context.Context) error {
		cancel(context.Canceled)
		done.Wait() // no renewal is under way any more
		return lease.Release(ctx)
	}
	kept.Abandon = func() {
		cancel(context.Canceled)
		done.Wait()
		lease.Leave()
	}
	return &kept
}

// renewUntil renews a lease until noticed ends or the lock is lost.
func renewUntil(
	noticed context.Context, lease *Lease, start time.Time, every, ttl time.Duration,
	steps step.Observer,
) {
	valid := start.Add(ttl) // until then the lock is certainly held
	tick := time.NewTimer(time.Until(start.Add(every)))
	defer tick.Stop()
	end := time.NewTimer(time.Until(valid))
	defer end.Stop()

	for {
		select {
		case <-noticed.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
		}

		// Read before the request is sent: the server counts the TTL from a later moment.
		start = time.Now()
		tick.Reset(every)
		ctx, done := context.WithDeadline(noticed, valid)
		err := lease.Renew(ctx)
		done()

		// After any other error than ErrLost the next tick tries again, until the lock may
		// have expired.
		switch {
		case err == nil:
			valid = start.Add(ttl)
			end.Reset(time.Until(valid))
			// Not ctx, which has ended: an observer may hold this goroutine until the release,
			// which ends noticed and then waits for it.
			steps.At(noticed, step.Renewed)
		case errors.Is(err, ErrLost) || !time.Now().Before(valid):
			return
		}
	}
}

// background is a connection beside the worker's own, for renewals and messages: on that
// one they would wait for the work that they are needed for. It opens when it is first
// needed, and again after Close.
type background struct {
	dial func(context.Context) (*redis.Client, error)
	mu   sync.Mutex
	rdb  *redis.Client
}

func (b *background) connection(ctx context.Context) (*redis.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		rdb, err := b.dial(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect to the lock's server: %w", err)
		}
		b.rdb = rdb
	}
	return b.rdb, nil
}

func (b *background) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rdb == nil {
		return nil
	}
	err := b.rdb.Close()
	b.rdb = nil
	return err
}
