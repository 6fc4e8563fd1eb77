package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// abandonTimeout bounds the attempt to give back a lock that may have been taken.
const abandonTimeout = 2 * time.Second

// abandon is called when the reply to an acquiring command was lost: the lock may be held under our token, so it is
// released under a context of its own before the cause is returned. A server that answered with an error did not
// give the lock away.
func abandon(ctx context.Context, cause error, release func(context.Context) error) error {
	var refused redis.Error
	if errors.As(cause, &refused) {
		return cause
	}
	return giveBack(ctx, cause, release)
}

// giveBack is abandon for a lock that is held for certain, whatever the server answered to a later step of taking it.
func giveBack(ctx context.Context, cause error, release func(context.Context) error) error {
	cause = ofContext(ctx, cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w (and the lock may still be held: %w)", cause, err)
	}
	return cause
}

// ofContext marks an error as the context's if that is over: a command that its deadline cut off says "i/o timeout", and
// may do so before the context's own timer has fired.
func ofContext(ctx context.Context, err error) error {
	over := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && over == nil && !time.Now().Before(deadline) {
		over = context.DeadlineExceeded
	}
	if err == nil || over == nil || errors.Is(err, over) {
		return err
	}
	return fmt.Errorf("%w: %w", over, err)
}
