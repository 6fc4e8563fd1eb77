package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

// A redsyncLock is a mutex of redsync on one server, with go-redis as it is by default.
type redsyncLock struct {
	adapter.Settings
	redsync *redsync.Redsync
	options []redsync.Option
	extends bool // while it is held, as its documentation leaves to the caller

	mutex  *redsync.Mutex // of the last acquisition
	ending func()         // ends its extensions
}

func newRedsync(s adapter.Settings) (adapter.Lock, error) { return openRedsync(s, false), nil }

func newRedsyncFailFast(s adapter.Settings) (adapter.Lock, error) {
	return openRedsync(s, false, redsync.WithFailFast(true)), nil
}

func newRedsyncExtends(s adapter.Settings) (adapter.Lock, error) { return openRedsync(s, true), nil }

func newRedsyncSetNXExtends(s adapter.Settings) (adapter.Lock, error) {
	return openRedsync(s, true, redsync.WithSetNXOnExtend()), nil
}

// openRedsync sets what all variants have. If an option changes, their rows in
// results/judged/programs.csv have to say so, and are judged again.
func openRedsync(s adapter.Settings, extends bool, options ...redsync.Option) *redsyncLock {
	server := redis.NewClient(&redis.Options{Addr: s.Address})
	options = append(options, // none of these sets what a variant has set
		redsync.WithExpiry(s.Lease),
		// How long a request may take, of a lease. By default it is 0.05 of 8 s, 400 ms: as much is
		// 0.4 of a lease of 1 s.
		redsync.WithTimeoutFactor(0.4),
		redsync.WithRetryDelay(s.Retry),
		redsync.WithTries(int(adapter.WaitLeases*s.Lease/s.Retry)),
	)
	return &redsyncLock{
		Settings: s,
		redsync:  redsync.New(goredis.NewPool(server)),
		options:  options,
		extends:  extends,
	}
}

func (l *redsyncLock) Acquire(ctx context.Context, name string) error {
	mutex := l.redsync.NewMutex(l.Prefix+name, l.options...)
	err := mutex.LockContext(ctx)
	if errors.As(err, new(*redsync.ErrTaken)) {
		return adapter.ErrTimeout
	}
	if err != nil {
		return err
	}

	l.mutex, l.ending = mutex, func() {}
	if l.extends {
		l.ending = l.extend(mutex)
	}
	return nil
}

// extend extends a mutex each third of its lease, until that fails or what it returns is called,
// which may be more than once: a release that failed is asked for again. Its context is its own:
// that of acquire ends with the next call.
func (l *redsyncLock) extend(mutex *redsync.Mutex) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-time.After(l.Lease / 3):
			case <-ctx.Done():
				return
			}

			if extended, _ := mutex.ExtendContext(ctx); !extended {
				return
			}
		}
	})
	return func() {
		cancel()
		ended.Wait() // release unlocks next, and no extension may come after that
	}
}

func (l *redsyncLock) Release(ctx context.Context) (said string, err error) {
	l.ending()
	released, err := l.mutex.UnlockContext(ctx)
	lost := errors.Is(err, redsync.ErrLockAlreadyExpired) || errors.As(err, new(*redsync.ErrTaken))
	switch {
	case released:
		return "released", nil
	case lost:
		return "lost", nil
	}
	return "", err
}
