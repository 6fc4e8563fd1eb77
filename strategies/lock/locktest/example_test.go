package locktest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
)

// The author of a lock library puts it behind lock.Locker, says what it promises, and runs the suite. Here it is
// github.com/bsm/redislock. What has no hook, such as a holder's crash, is reported as unchecked.
func Example() {
	_ = testMine // in the author's package: func TestMine(t *testing.T) { testMine(t) }
}

func testMine(t *testing.T) locktest.Report {
	server := testkit.Local(t)
	admin := testkit.Dial(t, server)
	return locktest.Run(t, locktest.Factory{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			return mine{redislock.New(testkit.Dial(t, server)), w}
		},
		Lose: func(t testing.TB, name string) { admin.Del(t.Context(), name) },
	})
}

// mine is a lock.Locker by redislock.
type mine struct {
	client *redislock.Client
	locktest.Worker
}

func (mine) Promises() lock.Promises {
	return lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true}
}

func (m mine) Try(ctx context.Context, name string) (lock.Lease, error) {
	return m.obtain(ctx, name, redislock.NoRetry(), lock.ErrHeld)
}

func (m mine) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	// The library gives a context without a deadline one of its own, the TTL. This deadline never comes first.
	bounded, cancel := context.WithTimeout(ctx, m.Timeout+time.Hour)
	defer cancel()
	return m.obtain(bounded, name, polls{ctx, m.Steps, time.Now().Add(m.Timeout)}, lock.ErrTimeout)
}

// polls is the library's retry strategy. It tells the suite when the worker waits.
type polls struct {
	ctx   context.Context
	steps step.Observer
	until time.Time
}

func (p polls) NextBackoff() time.Duration {
	p.steps.At(p.ctx, step.Waiting)
	if time.Now().After(p.until) {
		return 0
	}
	return time.Millisecond
}

func (m mine) obtain(ctx context.Context, name string, retry redislock.RetryStrategy, refused error,
) (lock.Lease, error) {
	l, err := m.client.Obtain(ctx, name, m.TTL, &redislock.Options{RetryStrategy: retry})
	switch {
	case err == nil:
		return lease{l}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded): // it came while a command was under way
		return nil, context.DeadlineExceeded
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, refused
	}
	return nil, err
}

type lease struct{ *redislock.Lock }

func (lease) Context() context.Context { return context.Background() }

func (l lease) Release(ctx context.Context) error {
	err := l.Lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return lock.ErrLost
	}
	return err
}
