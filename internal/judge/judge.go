// Package judge goes through the schedules of two copies of a program in any language
// that take a lock, or buy. It is the search of package explore in a world of real
// processes and real time: each copy stands behind a gate, which delivers one request
// at a time to a private redis-server (wire.StartGate), and is stopped, killed, or
// loses a reply, or has its call cancelled (cancel.go). What the program has to read and to
// answer is in package program, in the help of marketsim judge, and in package adapters.
//
// Judge has Run search each of some programs. A world (world.go) has the server, the
// gates and the clients, and plays one schedule after the other: choices.go has what can
// happen next in a schedule, the idleDetector says when that is certain, and the referee
// holds what clients were told against the promises. promises.go concludes.
package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/program"
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
	// Purchase has Judge go through Markets. Program is what Run has the copies do: one
	// of Markets, or "lock" (the same as the empty string), "lock-works" or one of clockSteps.
	Purchase    bool
	Program     string
	NoticesLoss bool // the lock promises that a release says whether the lock had been lost
	// That the lock is to have; 0: the shortest of 0.5, 1 and 2 s that it can have.
	Lease  time.Duration
	Pairs  int           // how many pairs of copies play schedules at the same time; 0: 4
	Within time.Duration // how long all may take; 0: until it is done
	Server backend.Local
	// StartServer starts a server for Server; nil: that does so. Who leaves at once closes what
	// it has returned.
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
	// The clock of the second client is set by faketime, not by its gate: see clock.go.
	faketime bool
	within   time.Duration // of all programs; Within is then that of one
}

// Kinds are the faults that can happen to every program. That its calls are cancelled
// (explore.Cancel) happens besides to the program of a lock that says that it hears this.
func Kinds() []explore.Fault {
	return []explore.Fault{explore.Pause, explore.Die, explore.Lose, explore.Late}
}

// The programs of a lock: holders leave at once, the first holder works for one lease and
// a half, and the clock of the second client is ahead or behind by clockStep.
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

// ErrAdapter is returned for a program that cannot be judged, with what it said.
var ErrAdapter = errors.New("the program cannot be judged")

// Judge goes through the schedules of a lock, or where o.Purchase is set of each of
// Markets. An error says why nothing can be concluded of one of them; what was found of
// others is returned with it, even if ctx has ended meanwhile.
func Judge(ctx context.Context, o Options) (*findings.Explorations, error) {
	res := &findings.Explorations{Schema: findings.ExplorationsSchema, Judged: true}
	found := newJudgement()
	began := time.Now()
	programs := o.programs()
	var failed error
	for n, name := range programs {
		if found.clock != "" && setsClock(name) {
			continue // what could not be set ahead cannot be set behind
		}
		one := o.only(name, n, o.Within-time.Since(began))
		searched, err := one.runWithLease(ctx, res)
		if err != nil && ctx.Err() != nil && !errors.Is(err, errClock) {
			err = errors.New("an interruption came first")
		}

		switch {
		case errors.Is(err, errClock):
			found.clock = err.Error()
		case err != nil && n == 0:
			return nil, err
		case err != nil: // what was found before counts
			res.Searches = append(res.Searches, findings.Exploration{
				Judged: true, Scheme: o.Scheme(), Program: name, Why: err.Error(),
			})
			found.unreached[name] = shortfall{why: err.Error()}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		default:
			res.Searches = append(res.Searches, withoutClocks(one.entries(searched), res.Searches)...)
			found.add(one, searched)
		}
	}

	res.Load = machineLoad()
	res.Notes = append(res.Notes, busyNote(res.Load)...)
	if !o.Purchase {
		found.searches = res.Searches
		res.Promises = found.verdicts()
		res.Notes = append(res.Notes, found.trustNote(res.Promises)...)
	}
	return res, failed
}

// share is the part of the time that is left which the first of some programs may have. The
// search of the plain program has the most schedules, and that with a clock the fewest.
func share(programs []string, left time.Duration) time.Duration {
	weights := map[string]time.Duration{locks: 4, works: 3}
	var all time.Duration
	for _, name := range programs {
		all += cmp.Or(weights[name], 1)
	}
	return left * cmp.Or(weights[programs[0]], 1) / all
}

// runWithLease is Run, with a longer lease where chance or the machine have decided what
// happened with the shortest: then the report says so. A lease that was asked for stays.
func (o Options) runWithLease(ctx context.Context, res *findings.Explorations) (ProgramResult, error) {
	searched, err := Run(ctx, o)
	for o.Lease == 0 && errors.Is(err, search.ErrChance) && searched.asked < longestAsked && o.hasTime() {
		o.Lease = 2 * searched.asked
		res.Notes = append(res.Notes, fmt.Sprintf("%s: with a lease of %s the same choices did not lead to the same points; "+
			"it was judged with %s", o.program().Name, searched.asked, o.Lease))
		searched, err = Run(ctx, o)
		o.Lease = 0
	}

	if err == nil && o.program().Name == locks {
		res.Notes = append(res.Notes, searched.leases())
	}
	return searched, err
}

// The leases that are tried where none was asked for: these, and 1 s.
const (
	ShortestLease = 500 * time.Millisecond
	longestAsked  = 2 * time.Second
)

// hasTime reports whether the time of the program is not over.
func (o Options) hasTime() bool { return o.Within == 0 || time.Now().Before(o.until) }

// programs are those that Judge searches.
func (o Options) programs() []string {
	if o.Purchase {
		return MarketNames()
	}
	return []string{locks, works, clockAhead, clockBehind}
}

// only is the search of one program, the n-th, which may take its share of the time: what
// it leaves is for those that follow. Controls come first, once.
func (o Options) only(name string, n int, left time.Duration) Options {
	o.Program = name
	if n > 0 {
		o.Controls = nil
	}
	if o.Within > 0 {
		o.silence = max(1, left)
		if n > 0 { // it has answered before
			o.silence = max(left, 3*program.AnswerLimit)
		}
		o.within = o.Within
		o.Within = max(1, share(o.programs()[n:], left))
		o = o.limited()
	}

	switch {
	case name == works:
		o.Bounds.Preemptions = 0
	case setsClock(name):
		o.Bounds.Preemptions = max(1, o.Bounds.Preemptions)
		o.Bounds.Faults = 0
	}
	return o
}

// A ProgramResult is what was found of one program.
type ProgramResult struct {
	search.Summary
	// The promises that were put to the test: if they were broken, that would
	// have been seen.
	tested  map[string]bool
	keptOut map[string]string // see world.keptOut
	kinds   []explore.Fault   // which could happen
	trusted []string          // see world.opaque

	// The lease that the program was asked for, and the shortest and the longest that it
	// was seen to have.
	asked    time.Duration
	shortest time.Duration
	longest  time.Duration
}

// leases says how long leases were.
func (s ProgramResult) leases() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("lease: asked for %s; lasted %s to %s", s.asked, round(s.shortest), round(s.longest))
}

// lease is the same as it is stored; nil: the program takes no lock, or none was measured.
func (s ProgramResult) lease() *findings.JudgedLease {
	if s.longest == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Millisecond).Milliseconds()) }
	return &findings.JudgedLease{AskedMS: ms(s.asked), ShortestMS: ms(s.shortest), LongestMS: ms(s.longest)}
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
	o = o.limited()
	o.tell(search.Summary{})

	err = o.withClock(func(o Options) error {
		return o.withWorlds(ctx, func(worlds []*world) error {
			err := o.playControls(ctx)
			if err == nil {
				s, err = o.search(ctx, worlds)
			}
			s.noteLeases(worlds)
			s.trusted = worlds[0].opaque
			return err
		})
	})
	return s, err
}

// limited has the time of a program begin now, unless it has begun.
func (o Options) limited() Options {
	if o.Within > 0 && o.until.IsZero() {
		o.until = time.Now().Add(o.Within)
	}
	return o
}

// noteLeases notes the leases that worlds have measured.
func (s *ProgramResult) noteLeases(worlds []*world) {
	s.asked = worlds[0].wantedLease
	s.shortest = worlds[0].measured
	for _, w := range worlds {
		s.shortest = min(s.shortest, w.measured)
		s.longest = max(s.longest, w.measured)
	}
}

// chanceHint is what usually makes a program do something else after the same choices.
const chanceHint = "usually a thread or a timer of the program sends by itself, or it waits for a random " +
	"time, or this machine is busy: try --lease 2s, --pairs 1, or a machine that does less"

// search has worlds go through the schedules.
func (o Options) search(ctx context.Context, worlds []*world) (s ProgramResult, err error) {
	var all []search.World
	for _, w := range worlds {
		all = append(all, w)
	}
	if !o.until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.until)
		defer cancel()
	}

	s.Summary, err = search.Drive(ctx, search.Options{
		Program:    o.program(),
		Bounds:     o.bounds(),
		Worlds:     all,
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

	s.tested = map[string]bool{}
	s.keptOut = map[string]string{}
	s.kinds = worlds[0].kinds
	for _, w := range worlds {
		maps.Copy(s.tested, w.tested)
		maps.Copy(s.keptOut, w.keptOut)
	}
	showsNothing := s.Stopped == "" && !s.tested[exclusive] && len(s.Found) == 0
	if err == nil && showsNothing {
		err = errors.New("in no schedule have the two locked three times, or has one bought, and the other been refused, " +
			"so that nothing can be concluded")
	}
	return s, err
}

// Replay plays the schedule of a token that Run has reported.
func Replay(ctx context.Context, o Options, token string) (f search.Found, err error) {
	_, name, steps, err := search.ParseToken(token)
	if err != nil {
		return f, err
	}

	o = o.limited()
	o.Program = name
	o.Pairs = 1
	o.Bounds.Kinds = Kinds()
	if slices.ContainsFunc(steps, isCancel) {
		o.Bounds.Kinds = append(o.Bounds.Kinds, explore.Cancel)
		o.Bounds.Faults = len(steps)
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

// program is what reports and tokens call it.
func (o Options) program() search.Program {
	return search.Program{Name: cmp.Or(o.Program, locks), Subject: o.subject()}
}

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

// withWorlds starts worlds, calls do with them, and ends them.
func (o Options) withWorlds(ctx context.Context, do func([]*world) error) (err error) {
	guardian, err := program.NewGuardian()
	if err != nil {
		return err
	}
	var worlds []*world
	defer func() {
		for _, w := range worlds {
			err = errors.Join(err, w.close())
		}
		err = errors.Join(err, guardian.Close())
	}()

	leases := []time.Duration{ShortestLease, time.Second, longestAsked}
	if o.Lease > 0 {
		leases = []time.Duration{o.Lease}
	}
	first, err := newWorld(ctx, o, guardian, leases, 0)
	if err != nil {
		return err
	}
	worlds = append(worlds, first)
	o.Bounds.Kinds, err = first.interview(o)
	if err != nil {
		return err
	}
	first.kinds = o.Bounds.Kinds

	// The others need not try other leases.
	others, err := o.startWorlds(ctx, guardian, first.wantedLease)
	worlds = append(worlds, others...)
	if err != nil {
		return err
	}
	shareLease(worlds)
	if err := first.hidden(); err != nil {
		return err
	}
	return do(worlds)
}

// startWorlds starts all worlds but the first, side by side.
func (o Options) startWorlds(
	ctx context.Context, guardian *program.Guardian, lease time.Duration,
) (worlds []*world, err error) {
	others := make([]*world, o.pairs()-1)
	var starting errgroup.Group
	for n := range others {
		starting.Go(func() (err error) {
			others[n], err = newWorld(ctx, o, guardian, []time.Duration{lease}, n+1)
			return err
		})
	}
	err = starting.Wait()
	return slices.DeleteFunc(others, func(w *world) bool { return w == nil }), err
}

// pairs is how many worlds there are.
func (o Options) pairs() int { return cmp.Or(o.Pairs, 4) }

// shareLease has all worlds go by the shortest lease that one has measured. The others
// were longer because the machine was slow. Renewals and opaque words are as the first has
// seen them.
func shareLease(worlds []*world) {

	shortest := worlds[0].lease
	for _, w := range worlds {
		shortest = min(shortest, w.lease)
	}
	for _, w := range worlds {
		w.lease = shortest
		w.renewing = worlds[0].renewing
		w.opaque = worlds[0].opaque
		w.signed = worlds[0].signed
		w.leastLease = min(shortest, w.wantedLease)
	}
}
