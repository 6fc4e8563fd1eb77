package backend

import "errors"

// The errors a caller can act on. They are wrapped, beside their cause: test with errors.Is.
var (
	// ErrURL is returned by ParseURL, and by TLSFiles.Apply for files that do not fit the URL. It is the user's
	// mistake, not the environment's, and its text never holds any part of the URL.
	ErrURL = errors.New("invalid Redis URL")

	// ErrUnreachable is returned by Dial when nothing that speaks Redis answered in time.
	ErrUnreachable = errors.New("cannot reach Redis")

	// ErrAuth is returned by Dial when the server wants another user name or password.
	ErrAuth = errors.New("cannot log in to Redis")

	// ErrTLS is returned by Dial when one side speaks TLS and the other does not, or when they do not trust each
	// other's certificates.
	ErrTLS = errors.New("cannot agree on TLS with Redis")

	// ErrLoading is returned by Dial and Preflight while the server reads its data from disk.
	ErrLoading = errors.New("the server is still loading its data")

	// ErrUnsuitable is returned by Preflight for a server that cannot hold a market: too old, or a replica.
	ErrUnsuitable = errors.New("this server cannot be used")

	// ErrChoice is returned by Start for a name that is not a backend.
	ErrChoice = errors.New("unknown backend")

	// ErrUnavailable is returned by a Starter whose program or engine is not on this machine, and by Start when
	// no Starter succeeded.
	ErrUnavailable = errors.New("not available")

	// ErrNotOurs is returned by Kill for a server that marketsim did not start as a process of its own.
	ErrNotOurs = errors.New("not a process of ours")
)
