package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
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
	// errViolation means that an audit or a history found something wrong, or that
	// a lock broke its promise.
	errViolation   = errors.New("violation")
	errInterrupted = errors.New("interrupted") // the user stopped the command
	errUnread      = fmt.Errorf("%w: nobody reads the output", errInterrupted)
)

// A usageError is a mistake in the command line that has no sentinel of its own
// in another package.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode maps what run returned to the program's exit code. By default an error is
// a failure of the environment.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitFine
	case errors.Is(err, errViolation), errors.Is(err, load.ErrWrong):
		return exitViolation
	case isUsage(err):
		return exitUsage
	case isInterruption(err):
		return exitInterrupted
	}
	return exitEnvironment
}

func isUsage(err error) bool {
	_, usage := errors.AsType[usageError](err)
	_, point := errors.AsType[*load.PointError](err)
	return usage || point || slices.ContainsFunc([]error{
		strategies.ErrSpec, market.ErrPrefix, redisconn.ErrURL, backend.ErrChoice, fault.ErrScenario,
		history.ErrNone, history.ErrExists, history.ErrDamaged,
	}, func(sentinel error) bool { return errors.Is(err, sentinel) })
}

// isInterruption reports whether err is errInterrupted, wrapped or not, and no
// other error is joined with it.
func isInterruption(err error) bool {
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !isInterruption(one) })
	case interface{ Unwrap() error }:
		return isInterruption(e.Unwrap())
	}
	return err == errInterrupted
}

// interruptedOr returns errInterrupted, with err in its text, if the user stopped
// what failed, else err itself.
func interruptedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", errInterrupted, err)
	}
	return err
}

// interruptible handles SIGINT, SIGTERM and SIGHUP for the commands that have something
// to finish. It returns a context that ends at the first signal: the command then
// finishes what is in flight. The second signal closes what was begun with starting, so
// that no private server stays behind, and ends the program; a third does not wait for
// that. A SIGHUP that nohup has the program ignore stays ignored. The program that reads
// the output may end at the same signal, as tee does, before this one has tidied up, or
// live on and read nothing, as less does: see stoppableWriter. A command calls it once:
// after stop, leave does nothing any more.
func (p *program) interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 3)
	stopped := make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	// A signal that is asked for does not end the program, though nobody receives it here: a write to
	// a reader that has gone then fails.
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)

	go func() {
		for received := 1; ; received++ {
			select {
			case <-signals:
			case <-stopped:
				return
			}
			switch received {
			case 1:
				cancel() // first: what is written below may wait for somebody who reads it
				p.hurry()
				fmt.Fprintln(p.stderr, "marketsim: finishing what is in flight; interrupt again to leave at once")
			case 2:
				fmt.Fprintln(p.stderr,
					"marketsim: left at once; keys on a server of yours stay until 'marketsim clean' removes them")
				go p.leave() // beside this loop, which has to receive a third signal
			default:
				os.Exit(exitInterrupted)
			}
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(unread)
		p.mu.Lock() // if leave has begun, this waits for it, and it does not return
		p.over = true
		p.mu.Unlock()
		close(stopped)
		cancel()
	}
}

// starting calls start, and notes what that returns, to be closed. While start
// runs, leave waits.
func starting[T io.Closer](p *program, start func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	started, err := start()
	if err == nil {
		p.started = append(p.started, started)
	}
	return started, err
}

// leave closes what was started and ends the program, unless it is ending by itself.
func (p *program) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	_ = p.started.Close() // nobody reads an error any more
	os.Exit(exitInterrupted)
}
