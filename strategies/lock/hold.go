package lock

import "time"

// A Hold is one holding of a lock, as its worker saw it: what a history of locks is made of.
type Hold struct {
	Name   string
	Shared bool
	// Called and Acquired are when the acquisition was called and had returned, Releasing and Released the same of the
	// release. Between Acquired and Releasing the worker acted as one who holds the lock.
	Called, Acquired, Releasing, Released time.Time

	Fence   int64 // the fencing token; 0: the lock has none
	Lost    bool  // the lock was no longer held when it was released
	Noticed bool  // the lease's context had said so before the release
}
