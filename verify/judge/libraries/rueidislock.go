package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/marketsim/marketsim/verify/judge/libraries/adapter"
)

// A rueidisLock is that of rueidislock: it renews the lock, and the context that it gives out
// ends when the lock is lost.
type rueidisLock struct {
	adapter.Settings
	locker rueidislock.Locker
	held   context.Context // of the last acquisition
	free   context.CancelFunc
}

func newRueidislock(s adapter.Settings) (adapter.Lock, error) { return openRueidislock(s, false) }

// newRueidislockSetPX has FallbackSETPX, which is meant for servers before 6.2: it takes the lock for a duration, and
// not until a time.
func newRueidislockSetPX(s adapter.Settings) (adapter.Lock, error) { return openRueidislock(s, true) }

// openRueidislock sets KeyMajority and NoLoopTracking as rueidislock's README has them for one
// server. If an option changes, its row in results/judged/programs.csv has to say so, and is
// judged again.
func openRueidislock(s adapter.Settings, setPX bool) (adapter.Lock, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress:       []string{s.Address},
			ForceSingleClient: true, // or it asks first whether the server is one of a cluster
		},
		KeyPrefix:   s.Prefix, // rueidislock if it is empty
		KeyValidity: s.Lease,
		KeyMajority: 1,
		// By default 20 ms: a take that is not answered by then is given up, and WithContext then waits
		// for good though the lock is free (docs/judged.md); at judge's gate an answer may take longer.
		TryNextAfter:   time.Minute,
		NoLoopTracking: true,
		FallbackSETPX:  setPX,
	})
	return &rueidisLock{Settings: s, locker: locker}, err
}

func (l *rueidisLock) Acquire(ctx context.Context, name string) error {
	// The context that is given holds for the lock, too: it must not end with the wait.
	lives, end := context.WithCancel(context.Background())
	stopWaiting := context.AfterFunc(ctx, end)
	held, free, err := l.locker.WithContext(lives, name)
	if err != nil || !stopWaiting() {
		end()
		return errors.Join(err, ctx.Err())
	}
	l.held, l.free = held, free
	return nil
}

// Release tells of a loss if the lock's context has ended before.
func (l *rueidisLock) Release(context.Context) (said string, err error) {
	said = "done" // what the server answers is not told
	if l.held.Err() != nil {
		said = "lost"
	}
	l.free()
	return said, nil
}
