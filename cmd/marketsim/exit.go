package main

import (
	"errors"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/results/reference"
	"github.com/marketsim/marketsim/strategies"
)

// The exit codes; the package comment tells what each means.
const (
	exitFine        = 0
	exitEnvironment = 1
	exitUsage       = 2
	exitViolation   = 3
	exitInterrupted = 130
)

var (
	// errUsage marks a mistake in the command line that no package's own sentinel tells.
	errUsage = errors.New("usage")
	// errViolation says that an audit found coins or items wrong, or that a lock broke its promise.
	errViolation = errors.New("violation")
	// errInterrupted says that the user stopped the run.
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

// isUsage reports whether the command line was wrong, whoever noticed.
func isUsage(err error) bool {
	for _, usage := range []error{
		errUsage, strategies.ErrSpec, bench.ErrConfig, market.ErrPrefix, report.ErrFormat, reference.ErrTable,
		backend.ErrURL, backend.ErrChoice, fault.ErrScenario,
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
