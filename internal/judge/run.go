package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A ProgramResult is what was found of one program.
type ProgramResult struct {
	search.Summary
	// The promises that were put to the test: if they were broken, that would
	// have been seen.
	tested  map[string]bool
	keptOut map[string]string // see world.keptOut
	// In how many schedules a harm was seen that did not come again, see confirm.go.
	refuted     map[verify.Harm]int
	unconfirmed map[cause]int   // or that there was no time to play again
	kinds       []explore.Fault // which could happen
	trusted     []string        // see world.opaque

	// The lease that the program was asked for, and the shortest and the longest that it
	// was seen to have.
	asked    time.Duration
	shortest time.Duration
	longest  time.Duration
	keeps    time.Duration // see world.keeps
}

// leases says how long leases were, or that there is none.
func (s ProgramResult) leases() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	if s.keeps > 0 {
		return fmt.Sprintf("lease: none was seen: a holder was stopped, and in %s nobody got in (LOCK_TTL_MS = %d): "+
			"the lock has none, or its waiters prolong it, or it follows something else; who dies keeps it. "+
			"Set the expiry in the command that takes it: SET key token NX PX ms", round(s.keeps), s.asked.Milliseconds())
	}
	return fmt.Sprintf("lease: asked for %s; lasted %s to %s", s.asked, round(s.shortest), round(s.longest))
}

// lease is the same as it is stored; nil: the program takes no lock, or none was measured.
func (s ProgramResult) lease() *findings.JudgedLease {
	if s.longest == 0 && s.keeps == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Millisecond).Milliseconds()) }
	return &findings.JudgedLease{
		AskedMS:    ms(s.asked),
		ShortestMS: ms(s.shortest),
		LongestMS:  ms(s.longest),
		KeptMS:     ms(s.keeps),
	}
}

// promises are those that the search has put to the test. If all lock as
// they should though the clock of one is wrong, the lock does not need clocks.
func (o Options) promises(s ProgramResult) map[string]bool {
	if setsClock(o.program().Name) && s.tested[exclusive] {
		return map[string]bool{clockIndependent: true}
	}
	return s.tested
}

// takes is how often the two lock in a schedule.
const takes = 3

// Run goes through the schedules of one program within bounds. What it finds is
// no failure. An error says why nothing can be concluded: ErrAdapter where the
// program is at fault.
func Run(ctx context.Context, o Options) (s ProgramResult, err error) {
	o.Bounds.Kinds = o.kinds()
	o = o.limited() // before tell, which says how much of that time is left
	o.tell(search.Summary{})

	err = o.withClock(func(o Options) error {
		return o.withWorlds(ctx, func(worlds []*world) error {
			var err error
			s, err = o.searchBesideControls(ctx, worlds)
			s.noteLeases(worlds) // also after ErrChance: runWithLease then doubles s.asked
			s.trusted = worlds[0].opaque
			return err
		})
	})
	return s, err
}

// noteLeases notes the leases that worlds have measured.
func (s *ProgramResult) noteLeases(worlds []*world) {
	s.asked = worlds[0].wantedLease
	s.keeps = worlds[0].keeps
	s.shortest = worlds[0].measured
	for _, w := range worlds {
		s.shortest = min(s.shortest, w.measured)
		s.longest = max(s.longest, w.measured)
	}
}

// searchBesideControls is search while controls are played: most of both is waiting. A control
// that does no harm ends the search, and is the error whatever came of that. An interruption
// ends both, and is no failure of a control.
func (o Options) searchBesideControls(ctx context.Context, worlds []*world) (ProgramResult, error) {
	searching, end := context.WithCancel(ctx)
	defer end()
	controlled := make(chan error, 1)
	go func() {
		err := o.playControls(ctx)
		if err != nil {
			end()
		}
		controlled <- err
	}()

	s, err := o.search(searching, worlds)
	failed := <-controlled
	if failed != nil && ctx.Err() == nil {
		return s, failed
	}
	return s, err
}

// chanceHint is what usually makes a program do something else after the same choices.
const chanceHint = "usually a thread or a timer of the program sends by itself, " +
	"or it waits for a random time, or this machine is busy: " +
	"try --lease 2s, --pairs 1, or a machine that does less"

// search has worlds go through the schedules.
func (o Options) search(ctx context.Context, worlds []*world) (s ProgramResult, err error) {
	var all []search.World
	for _, w := range worlds {
		w.until = o.until
		all = append(all, w)
	}
	if !o.until.IsZero() {
		// The deadline has no cause: Drive then says OutOfTime, for which belowFloor asks.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.until)
		defer cancel()
	}

	s.Summary, err = search.Drive(ctx, search.Options{
		Program:    o.program(),
		Bounds:     o.bounds(),
		Worlds:     all,
		Beyond:     o.beyond,
		ChanceHint: chanceHint,

		Progress:      o.tell,
		ProgressEvery: o.ProgressEvery,
		Found: func(f search.Found) {
			if o.Found != nil {
				o.Found(o.program().Name, f)
			}
		},
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil { // what was found until then counts
		s.Stopped = "an interruption"
		err = nil
	}

	// No world plays any more: what they have noted can be read.
	s.tested = map[string]bool{}
	s.keptOut = map[string]string{}
	s.refuted = map[verify.Harm]int{}
	s.unconfirmed = map[cause]int{}
	s.kinds = worlds[0].kinds
	for _, w := range worlds {
		maps.Copy(s.tested, w.tested)
		maps.Copy(s.keptOut, w.keptOut)
		for harm, times := range w.refuted {
			s.refuted[harm] += times
		}
		for of, times := range w.unconfirmed {
			s.unconfirmed[of] += times
		}
	}

	for _, w := range worlds { // what one world has confirmed no other has to
		maps.DeleteFunc(s.unconfirmed, func(of cause, _ int) bool { return w.confirmed[of] })
	}

	showsNothing := s.Stopped == "" && !s.tested[exclusive] && len(s.Found) == 0
	if err == nil && showsNothing {
		err = errors.New("in no schedule have the two locked three times, " +
			"or has one bought, and the other been refused, so that nothing can be concluded")
	}
	return s, err
}

// Replay plays the schedule of a token that Run has reported. It takes a program that it does
// not know for the plain one of a lock: who has the token from a user asks CheckToken first.
func Replay(ctx context.Context, o Options, token string) (f search.Found, err error) {
	_, name, steps, err := search.ParseToken(token)
	if err != nil {
		return f, err
	}

	o = o.limited()
	o.Program = name
	o.Pairs = 1

	// A fault that is a choice only if it is asked for has to be one again, or the steps would not
	// lead to the same points.
	o.Bounds.Kinds = Kinds()
	if slices.ContainsFunc(steps, isCancel) {
		o.Bounds.Kinds = append(o.Bounds.Kinds, explore.Cancel)
		o.Bounds.Faults = len(steps) // above 0, or cancels would say no
	}
	if slices.ContainsFunc(steps, isIdleBreak) {
		o.Bounds.Kinds = append(o.Bounds.Kinds, explore.IdleBreak)
	}

	err = o.withClock(func(o Options) error {
		return o.withWorlds(ctx, func(worlds []*world) error {
			f, err = search.Replay(o.program(), worlds[0], steps)
			return err
		})
	})
	f.Token = token
	return f, err
}

func isIdleBreak(step string) bool { return strings.HasPrefix(step, string(explore.IdleBreak)) }

// bounds are those of the search. Which faults may happen is for a world to know.
func (o Options) bounds() search.Bounds {
	return search.Bounds{
		Preemptions: o.Bounds.Preemptions,
		Faults:      o.Bounds.Faults,
		Total:       o.Bounds.Total,
		Schedules:   o.Bounds.Schedules,
		Exhaustive:  o.Bounds.Exhaustive,
	}
}
