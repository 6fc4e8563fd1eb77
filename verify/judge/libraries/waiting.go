package main

import (
	"context"
	"errors"
	"time"
)

// waitLeases is for how many leases a program waits for a lock that another holds.
const waitLeases = 4

// errTimeout says that another still holds the lock.
var errTimeout = errors.New("another client holds the lock")

// poll tries to take a lock until it is taken, for libraries that only try. A try says whether
// it took the lock; its error ends the waiting.
func poll(ctx context.Context, s settings, try func() (bool, error)) error {
	gaveUp := time.After(waitLeases * s.lease)
	for {
		if taken, err := try(); taken || err != nil {
			return err
		}
		select {
		case <-time.After(s.retry):
		case <-gaveUp:
			return errTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wholeSeconds is a duration for libraries that have leases of whole seconds: rounded up.
func wholeSeconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
