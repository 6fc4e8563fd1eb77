package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
)

// The exit codes; the package comment says what each means.
const (
	exitFine        = 0
	exitEnvironment = 1
	exitUsage       = 2
	exitViolation   = 3
	exitInterrupted = 130
)

var (
	// errUsage marks a mistake in the command line that has no sentinel of its own in another package.
	errUsage = errors.New("usage")
	// errViolation means that an audit found coins or items wrong, that a history has no order, or that a lock broke its
	// promise.
	errViolation = errors.New("violation")
	// errInterrupted means that the user stopped the command.
	errInterrupted = errors.New("interrupted")
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// Unwrap makes it an errUsage without showing that word.
func (e usageError) Unwrap() []error { return []error{errUsage, e.error} }

// exitCode maps what run returned to the program's exit code. A failure of the environment is any error that is none
// of the others.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errViolation):
		return exitViolation
	case isUsage(err):
		return exitUsage
	case isInterruption(err):
		return exitInterrupted
	}
	return exitEnvironment
}

// isUsage reports whether the command line was wrong, whichever package noticed.
func isUsage(err error) bool {
	for _, usage := range []error{
		errUsage, strategies.ErrSpec, bench.ErrConfig, market.ErrPrefix, report.ErrFormat, report.ErrOneRow,
		backend.ErrURL, backend.ErrChoice, fault.ErrScenario, history.ErrNone, history.ErrExists, history.ErrDamaged,
	} {
		if errors.Is(err, usage) {
			return true
		}
	}
	return false
}

// isInterruption reports whether err is errInterrupted and nothing else went wrong.
func isInterruption(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !isInterruption(one) {
				return false
			}
		}
		return true
	case interface{ Unwrap() error }:
		return isInterruption(e.Unwrap())
	}
	return err == errInterrupted
}

// interruptedOr returns errInterrupted, with err in its text, if the user stopped what failed, else err itself.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", errInterrupted, err)
	}
	return err
}

// interrupts handles SIGINT, SIGTERM and SIGHUP. The first ends a context, and the command finishes what is in flight.
// The second closes what the command has started, so that no private server stays behind, and ends the program. A third
// does not wait for that. A command may ask for other ways to end.
type interrupts struct {
	mu      sync.Mutex
	closers []func() error
	way     ending
	over    bool // the program ends by itself
}

// An ending is what signals do to a command.
type ending int

const (
	finishing ending = iota
	soon             // it ends soon after the first signal, with what it has found: the second changes nothing
	atOnce           // it has nothing to finish: the first signal ends it
)

// watch returns a context that ends at the first signal. Stop ends the watch.
func (i *interrupts) watch(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals, stopped := make(chan os.Signal, 3), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signaled := func() bool {
		select {
		case <-signals:
			return true
		case <-stopped:
			return false
		}
	}
	go func() {
		if !signaled() {
			return
		}
		switch i.ending() {
		case finishing:
			fmt.Fprintln(stderr, "marketsim: finishing what is in flight; interrupt again to leave at once")
		case soon:
			fmt.Fprintln(stderr, "marketsim: ending what runs, which takes a few seconds at most")
		case atOnce:
			fmt.Fprintln(stderr, "marketsim: interrupted")
			i.leave()
			return
		}
		cancel()
		if !signaled() || i.ending() == soon && !signaled() {
			return
		}
		fmt.Fprintln(stderr, "marketsim: left at once; keys on a server of yours stay until 'marketsim clean' removes them")
		go func() {
			if signaled() {
				os.Exit(exitInterrupted)
			}
		}()
		i.leave()
	}()
	return ctx, func() {
		signal.Stop(signals)
		i.mu.Lock() // if leave has begun, this waits for it, and it does not return
		i.over = true
		i.mu.Unlock()
		close(stopped)
		cancel()
	}
}

// ends says what signals are to do from now on.
func (i *interrupts) ends(way ending) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.way = way
}

func (i *interrupts) ending() ending {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.way
}

// atOnce adds what is to be closed before the program ends at the second signal.
func (i *interrupts) atOnce(closer func() error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closers = append(i.closers, closer)
}

// leave ends the program, unless it ends by itself.
func (i *interrupts) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over {
		return
	}
	for _, closer := range slices.Backward(i.closers) {
		_ = closer() // nobody reads an error any more
	}
	os.Exit(exitInterrupted)
}
