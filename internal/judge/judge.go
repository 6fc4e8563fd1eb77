// Package judge goes through the schedules of two copies of a program in any language
// that take a lock, or buy. It is the search of package explore in a world of real
// processes and real time: each copy stands behind a gate, which delivers one request
// at a time to a private redis-server (wire.StartGate), and is stopped, killed, or
// loses a reply. What the program has to read and to answer is in the help of marketsim
// judge, and in package adapters.
package judge

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// Options say what is judged, and how far.
type Options struct {
	Command []string
	Stderr  io.Writer // gets what programs write to standard error, with their names; may be nil
	// With the name of a lock behind it, the command of that lock's program:
	// see controls; nil: none.
	Proof []string
	// Purchase has Judge go through Markets. Program is what Run has the copies do: one
	// of Markets, or "lock" (the same as the empty string), "lock-works" or "lock-clock".
	Purchase    bool
	Program     string
	NoticesLoss bool // the lock promises that a release says whether the lock had been lost
	// That the lock is to have; 0: the shortest of 0.5, 1 and 2 s that it can have.
	Lease  time.Duration
	Pairs  int           // how many pairs of copies play schedules at the same time; 0: 4
	Within time.Duration // how long the search may take; 0: until it is done
	Server backend.Local
	Bounds explore.Bounds
}

// Kinds are the faults that can happen to a program.
func Kinds() []explore.Fault {
	return []explore.Fault{explore.Pause, explore.Die, explore.Lose, explore.Late}
}

// program is what reports and tokens call it.
func (o Options) program() search.Program {
	return search.Program{Name: cmp.Or(o.Program, locks), Subject: o.subject()}
}

// bounds are those of the search. Which faults may happen is for a pair to know.
func (o Options) bounds() search.Bounds {
	return search.Bounds{
		Preemptions: o.Bounds.Preemptions, Faults: o.Bounds.Faults, Total: o.Bounds.Total,
		Schedules: o.Bounds.Schedules, Exhaustive: o.Bounds.Exhaustive,
	}
}

// subject is the command in a token, which a shell reads as it stands.
func (o Options) subject() string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=,@%+", r) {
			return r
		}
		return '_'
	}, strings.Join(o.Command, "_"))
}

// Searched is what was found of one program.
type Searched struct {
	search.Result
	// The promises that were put to the test: if they were broken, that would
	// have been seen.
	reached map[string]bool
	took    time.Duration // without controls and the first start of the clients
}

// Run goes through the schedules of one program within bounds. What it finds is
// no failure. An error says why nothing can be concluded: ErrAdapter where the
// program is at fault.
func Run(ctx context.Context, o Options) (s Searched, err error) {
	if o.Bounds.Kinds == nil {
		o.Bounds.Kinds = Kinds()
	}
	s.reached = map[string]bool{}
	err = o.with(ctx, func(pairs []*pair) error {
		if err := o.proved(ctx); err != nil {
			return err
		}
		var worlds []search.World
		for _, p := range pairs {
			worlds = append(worlds, p)
		}
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Within, math.MaxInt64))
		defer cancel()
		began := time.Now()
		s.Result, err = search.Drive(ctx, search.Options{Program: o.program(), Bounds: o.bounds(), Worlds: worlds})
		s.took = time.Since(began)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil { // what was found until then counts
			s.Stopped, err = "an interruption", nil
		}
		for _, p := range pairs {
			maps.Copy(s.reached, p.reached)
		}
		if err == nil && s.Stopped == "" && !s.reached[exclusive] && len(s.Found) == 0 {
			err = errors.New("in no schedule have the two locked three times, or has one bought, and the other been refused, " +
				"so that nothing can be concluded")
		}
		return err
	})
	return s, err
}

// takes is how often the two lock in a schedule.
const takes = 3

// Replay plays the schedule of a token that Run has reported.
func Replay(ctx context.Context, o Options, token string) (f search.Found, err error) {
	_, program, steps, err := search.ParseToken(token)
	if err != nil {
		return f, err
	}
	o.Program, o.Pairs, o.Bounds.Kinds = program, 1, Kinds()
	err = o.with(ctx, func(pairs []*pair) error {
		f, err = search.Replay(o.program(), pairs[0], steps)
		return err
	})
	f.Token = token
	return f, err
}

// ErrAdapter is returned for a program that cannot be judged, with what it said.
var ErrAdapter = errors.New("the program cannot be judged")

// with starts pairs, has them rehearse, calls do with them, and ends them.
func (o Options) with(ctx context.Context, do func([]*pair) error) (err error) {
	leases := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}
	if o.Lease > 0 {
		leases = []time.Duration{o.Lease}
	}
	guard, err := newGuardian()
	if err != nil {
		return err
	}
	var pairs []*pair
	defer func() {
		// First: a program in another group would hold its output open.
		err = errors.Join(err, guard.close())
		for _, p := range pairs {
			err = errors.Join(err, p.close())
		}
	}()
	for range cmp.Or(o.Pairs, 4) {
		p, err := newPair(ctx, o, guard, leases)
		if err != nil {
			return err
		}
		leases = []time.Duration{p.asked} // the others need not try
		pairs = append(pairs, p)
	}
	shortest := slices.MinFunc(pairs, func(a, b *pair) int { return cmp.Compare(a.lease, b.lease) }).lease
	for _, p := range pairs {
		p.lease = shortest // where it was found to be longer, the machine was slow
		p.surely = min(shortest, p.asked)
	}
	return do(pairs)
}
