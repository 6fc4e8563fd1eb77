package lock

import "context"

// rwPolled is the Locker of the read-write locks: polled takes them for a writer.
type rwPolled struct {
	polled
	reader func(name string) grant
}

// AcquireShared implements SharedLocker.
func (l *rwPolled) AcquireShared(ctx context.Context, name string) (Lease, error) {
	readers := polled{poller: l.poller, grant: l.reader}
	lease, err := readers.Acquire(ctx, name)
	l.poller = readers.poller // it counts polls
	return lease, err
}

// mode is how a read-write lock is taken; it is an argument of the scripts.
type mode string

const (
	shared    mode = "shared"
	exclusive mode = "exclusive"
)
