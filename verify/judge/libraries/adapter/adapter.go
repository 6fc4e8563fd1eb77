// Package adapter lets marketsim judge call locks of Go's libraries: a program that opens one gives
// it to [Serve].
//
// It imports nothing but Go's own packages, and is a module of its own, so that libraries which need
// different versions of a client can stand in different programs.
package adapter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"
)

// A Lock is one that a process takes again and again.
type Lock interface {
	// Acquire waits for the lock, for WaitLeases at most. It returns ErrTimeout if another still
	// holds it.
	Acquire(ctx context.Context, name string) error

	// Release frees the lock that was acquired last, and says how that ended: released, lost, or
	// done where the library does not tell.
	Release(ctx context.Context) (said string, err error)
}

// WaitLeases is for how many leases a program waits for a lock that another holds.
const WaitLeases = 4

// ErrTimeout says that another still holds the lock.
var ErrTimeout = errors.New("another client holds the lock")

// Settings are what marketsim asks of a lock.
type Settings struct {
	Address      string // of the server: host:port
	Prefix       string // of each key
	Lease, Retry time.Duration
}

// Environment returns the settings that marketsim has put into the environment of this process,
// which ends if they are not there.
func Environment() Settings {
	return Settings{
		Address: os.Getenv("REDIS_HOST") + ":" + os.Getenv("REDIS_PORT"),
		Prefix:  os.Getenv("KEY_PREFIX"),
		Lease:   milliseconds("LOCK_TTL_MS"),
		Retry:   milliseconds("LOCK_RETRY_MS"),
	}
}

func milliseconds(variable string) time.Duration {
	d, err := time.ParseDuration(os.Getenv(variable) + "ms")
	if err != nil {
		log.Fatalf("%s: %v", variable, err)
	}
	return d
}

// Poll tries to take a lock until it is taken, for WaitLeases at most, for libraries that only
// try. A try says whether it took the lock; its error ends the waiting.
func (s Settings) Poll(ctx context.Context, try func() (bool, error)) error {
	gaveUp := time.After(WaitLeases * s.Lease)
	for {
		if taken, err := try(); taken || err != nil {
			return err
		}
		select {
		case <-time.After(s.Retry):
		case <-gaveUp:
			return ErrTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// WholeSeconds is the lease for libraries that have leases of whole seconds: rounded up.
func (s Settings) WholeSeconds() int {
	return int((s.Lease + time.Second - 1) / time.Second)
}

// Serve answers the calls on standard input with the lock, each with a line, until the input ends.
func Serve(l Lock) {
	calls := make(chan call)
	go read(calls)
	for c := range calls {
		fmt.Println(answer(c, l))
	}
}

// A call is a line, and a context that ends when the call is cancelled.
type call struct {
	context.Context
	line string
}

// read reads calls, in a goroutine of its own: one may be under way when "cancel" comes.
func read(calls chan<- call) {
	defer close(calls)
	cancel := func() {}
	defer func() { cancel() }()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "cancel" {
			cancel()
			continue
		}
		cancel() // of the call before, which has been answered
		ctx, end := context.WithCancel(context.Background())
		cancel = end
		calls <- call{Context: ctx, line: lines.Text()}
	}
}

// answer is what the lock says to a call, on one line, in the words of internal/program/words.go,
// which this module does not import.
func answer(c call, l Lock) (said string) {
	var err error
	name, acquires := strings.CutPrefix(c.line, "acquire ")
	switch {
	case acquires:
		said = "acquired"
		err = l.Acquire(c, name)
	case c.line == "release":
		said, err = l.Release(c)
	case c.line == "now":
		said = fmt.Sprint(time.Now().UnixMilli())
	case c.line == "can cancel":
		said = "yes"
	default:
		err = fmt.Errorf("this is not understood: %q", c.line)
	}

	// A call that has ended well in spite of its cancellation says so: then the lock is held, or
	// free.
	switch {
	case err != nil && c.Err() != nil:
		return "cancelled"
	case errors.Is(err, ErrTimeout):
		return "timeout"
	case err != nil:
		return "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return said
}
