package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A grant is one try at holding a lock: until take has reported true it is nothing, then it is the lease.
type grant interface {
	Lease
	// take makes one attempt: true means held, false means that someone else holds it. It may be called again after
	// false. When it fails it has given back what it may have taken (see abandon).
	take(ctx context.Context) (bool, error)
}

// polled is the Locker of every lock that waits by trying again.
type polled struct {
	poller
	promises Promises
	grant    func(name string) grant
	close    func() error // may be nil
}

// Promises implements Locker.
func (l *polled) Promises() Promises { return l.promises }

// Acquire implements Locker.
func (l *polled) Acquire(ctx context.Context, name string) (Lease, error) {
	g := l.grant(name)
	if err := l.until(ctx, g.take); err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return g, nil
}

// Try implements Locker.
func (l *polled) Try(ctx context.Context, name string) (Lease, error) {
	g := l.grant(name)
	l.asked = time.Now()
	taken, err := g.take(ctx)
	if err == nil && !taken {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, ofContext(ctx, err))
	}
	return g, nil
}

// Close implements io.Closer.
func (l *polled) Close() error {
	if l.close == nil {
		return nil
	}
	return l.close()
}

// unaware is the part of a lease that cannot notice that it is lost.
type unaware struct{}

// Context implements Lease.
func (unaware) Context() context.Context { return context.Background() }

// lost is ErrLost unless the script that released or renewed found the lock its own.
func lost(found int64, err error) error {
	if err == nil && found == 0 {
		return ErrLost
	}
	return err
}

// releaseError wraps what a release met. ErrLost stays recognizable.
func releaseError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("release %s: %w", key, err)
}

// isLost reports whether an error says that the lock was not held any more.
func isLost(err error) bool { return errors.Is(err, ErrLost) }
