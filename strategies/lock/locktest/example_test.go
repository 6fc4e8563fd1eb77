package locktest_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bsm/redislock"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
)

// The author of a lock library puts it behind lock.Locker, says what it promises, and runs the suite. Here it is
// github.com/bsm/redislock. What has no hook, such as a holder's crash, is reported as unchecked.
func Example() {
	_ = testMine // in the author's package: func TestMine(t *testing.T) { testMine(t) }
}

func testMine(t *testing.T) locktest.Report {
	server := backendtest.Local(t)
	thief := backendtest.Dial(t, server)
	return locktest.Run(t, locktest.Subject{
		Open: func(t testing.TB, w locktest.Worker) lock.Locker {
			return mine{redislock.New(backendtest.Dial(t, server)), w}
		},
		Lose: func(t testing.TB, name string) { thief.Del(t.Context(), name) },
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
	polls := redislock.LimitRetry(redislock.LinearBackoff(time.Millisecond), int(m.Timeout.Milliseconds()))
	bounded, cancel := context.WithTimeout(ctx, 2*m.Timeout)
	defer cancel()
	l, err := m.obtain(bounded, name, polls, lock.ErrTimeout)
	ours, _ := bounded.Deadline()
	if theirs, has := ctx.Deadline(); errors.Is(err, context.DeadlineExceeded) && (!has || ours.Before(theirs)) {
		err = lock.ErrTimeout
	}
	return l, err
}

func (m mine) obtain(ctx context.Context, name string, retry redislock.RetryStrategy, refused error) (lock.Lease, error) {
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
