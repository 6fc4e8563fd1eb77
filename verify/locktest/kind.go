package locktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Kind is the lock that open makes, as one of a catalogue's: package bench/compare
// measures with it. It waits as [Check] does, by calling the [Lock] again until it is taken.
func (open Open) Kind(name string) lock.Kind {
	return lock.Kind{
		Name:          name,
		Summary:       "a lock of your own",
		Wakes:         "as the lock says",
		Promises:      new(adapter).Promises(),
		Params:        []param.Param{lock.TTLParam, lock.TimeoutParam},
		KeysBeginning: true,
		New:           open.locker,
	}
}

func (open Open) locker(env lock.Env) (lock.Locker, error) {
	life, end := context.WithCancel(context.Background())
	w := Worker{
		TTL:     env.Params.Duration(lock.TTLParam),
		Timeout: env.Params.Duration(lock.TimeoutParam),
		Steps:   env.Steps,
		Now:     env.Now,
		Name:    fmt.Sprintf("worker %d", env.Number),
		Number:  env.Number,
		dial:    env.Dial,
	}

	l, closer, err := open(life, w)
	if err != nil {
		end()
		if closer != nil {
			_ = closer.Close()
		}
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	return &measured{
		// It rests as long as lock.PollParam says by default.
		adapter: adapter{lock: l, w: w, end: end, rest: time.Millisecond},
		key:     env.Key,
		closer:  closer,
	}, nil
}

// A measured is an adapter whose locks are keys of a market.
type measured struct {
	adapter
	key    func(name string) string
	closer io.Closer // may be nil
}

func (m *measured) Acquire(ctx context.Context, name string) (*lock.Lease, error) {
	return m.adapter.Acquire(ctx, m.key(name))
}

func (m *measured) Try(ctx context.Context, name string) (*lock.Lease, error) {
	return m.adapter.Try(ctx, m.key(name))
}

// Close ends the client's life, and then closes what open returned.
func (m *measured) Close() error {
	m.end()
	if m.closer == nil {
		return nil
	}
	if err := m.closer.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close the lock: %w", err)
	}
	return nil
}
