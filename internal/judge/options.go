package judge

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// Options say what is judged, and how far.
type Options struct {
	Command []string
	Shown   []string  // Command as reports and tokens show it, without its secrets; nil: as it is
	Stderr  io.Writer // gets what programs write to standard error, with their names; may be nil
	// With the name of a lock behind it, the command of that lock's program:
	// see controls; nil: none.
	Controls []string
	// Purchase has Judge go through MarketNames. Program is what Run has the copies do: one of
	// MarketNames, or "lock" (the same as the empty string), "lock-works", "lock-clock" or
	// "lock-clock-behind".
	Purchase    bool
	Program     string
	NoticesLoss bool // the lock promises that a release says whether the lock had been lost
	// That the lock is to have; 0: the shortest of 0.5, 1 and 2 s that it can have.
	Lease  time.Duration
	Pairs  int           // how many pairs of copies play schedules at the same time; 0: 8
	Within time.Duration // how long all may take; 0: until it is done
	Server backend.Local
	// StartServer starts a server for Server; nil: that does so. It may note what it returns, for
	// a caller that exits at once to close.
	StartServer func(context.Context, backend.Local) (*backend.Server, error)
	Bounds      explore.Bounds

	// Progress is called when the search of a program begins, and every 10 s, or every
	// ProgressEvery; Found once for each harm of a program. They may be nil.
	Progress      func(Progress)
	Found         func(program string, f search.Found)
	ProgressEvery time.Duration

	// How long a program may say nothing before its search: of Within, what is left for all
	// programs.
	silence time.Duration
	until   time.Time // when the time of one program is over; zero: never
	// When a search that has come past the floor of kept ends: below the floor it may go on to
	// the end that until says. Zero: past the floor, too.
	beyond time.Time
	pool   *pool         // keeps worlds from one program to the next; nil: nothing does
	known  time.Duration // the lease that an earlier program had; 0: there was none
	keeps  time.Duration // see world.keeps, from an earlier program or world
	// The clock of the second client is set by faketime, not by its gate: see clock.go.
	faketime    bool
	wholeWithin time.Duration // of all programs; Within is then that of one
}

// Kinds are the faults that can happen to every program. That its calls are cancelled
// (explore.Cancel) happens besides to the program of a lock that says that it hears this.
func Kinds() []explore.Fault {
	return []explore.Fault{explore.Pause, explore.Die, explore.Lose, explore.Late}
}

// AllKinds are those that Options may name: also explore.IdleBreak, which breaks the
// connections of a holder that asks nothing, and which most client libraries hide.
func AllKinds() []explore.Fault { return append(Kinds(), explore.Cancel, explore.IdleBreak) }

// The programs of a lock. Holders leave at once; in lock-works the first holder works for one
// lease and a half. In the others the clock of the second client is ahead or behind by
// clockStep, and that client works as long if the lock renews itself.
const (
	locks       = "lock"
	works       = "lock-works"
	clockAhead  = "lock-clock"
	clockBehind = "lock-clock-behind"
)

// Progress is how far the search of a program is.
type Progress struct {
	Program string
	Summary search.Summary // of nothing while the program rehearses
	Left    time.Duration  // of its time; 0: it has no limit
}

// tell calls o.Progress.
func (o Options) tell(soFar search.Summary) {
	if o.Progress == nil {
		return
	}
	p := Progress{Program: o.program().Name, Summary: soFar}
	if !o.until.IsZero() {
		p.Left = max(0, time.Until(o.until))
	}
	o.Progress(p)
}

// limited has the time of a program begin now, unless it has begun.
func (o Options) limited() Options {
	if o.Within > 0 && o.until.IsZero() {
		o.until = time.Now().Add(o.Within)
	}
	return o
}

// hasTime reports whether the time of the program is not over.
func (o Options) hasTime() bool { return o.Within == 0 || time.Now().Before(o.until) }

// programs are those that Judge searches, in this order: what is known of the lease is kept for
// those that follow, and withoutClocks looks for a harm in those before.
func (o Options) programs() []string {
	if o.Purchase {
		return MarketNames()
	}
	return []string{locks, works, clockAhead, clockBehind}
}

// program is what reports and tokens call it.
func (o Options) program() search.Program {
	return search.Program{Name: cmp.Or(o.Program, locks), Subject: o.subject()}
}

// subject is the command in a token, which a shell reads as it stands.
func (o Options) subject() string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=,@%+", r) {
			return r
		}
		return '_'
	}, strings.Join(o.shown(), "_"))
}

// shown is the command without its secrets.
func (o Options) shown() []string {
	if o.Shown == nil {
		return o.Command
	}
	return o.Shown
}

// Scheme is the command as reports show it: as it is typed into a shell.
func (o Options) Scheme() string { return process.ShellLine(o.shown()...) }
