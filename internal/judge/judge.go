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
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
)

// ErrAdapter is returned for a program that cannot be judged, with what it said.
var ErrAdapter = errors.New("the program cannot be judged")

// Judge goes through the schedules of a lock, or where o.Purchase is set of each of
// MarketNames. An error says why nothing can be concluded of one of them; what was found of
// others is returned with it, even if ctx has ended meanwhile. If the first one fails, res
// is nil.
func Judge(ctx context.Context, o Options) (res *findings.Explorations, failed error) {
	res = &findings.Explorations{Schema: findings.ExplorationsSchema, Judged: true}
	found := newJudgement()
	o.pool = &pool{}
	defer func() { failed = errors.Join(failed, o.pool.close()) }()
	began := time.Now()
	programs := o.programs()
	for n, name := range programs {
		if found.clock != "" && setsClock(name) {
			continue // what could not be set ahead cannot be set behind
		}
		if setsClock(name) { // withWorlds starts others: those of the pool need not run beside
			failed = errors.Join(failed, o.pool.close())
		}
		left := o.Within - time.Since(began)
		one := o.only(name, n, left)
		searched, err := unbegun(), error(nil)
		if n == 0 || o.Within == 0 || left > 0 {
			searched, err = one.runWithLease(ctx, res)
		}
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
			res.Notes = append(res.Notes, searched.uncountedNotes(name)...)
			found.add(one, searched)
			// The programs that follow begin with what is known of the lease.
			o.known = max(o.known, searched.asked)
			o.keeps = searched.keeps
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

// unbegun has nothing that was found: no time was left to begin with the program.
func unbegun() ProgramResult {
	return ProgramResult{Summary: search.Summary{Stopped: search.OutOfTime}, kinds: Kinds()}
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
// happened with the shortest: then the report says so. A lease that was asked for stays. The
// method only, which comes before, has begun the time of the program: hasTime goes by that, and
// all tries share it.
func (o Options) runWithLease(
	ctx context.Context, res *findings.Explorations) (ProgramResult, error) {

	searched, err := Run(ctx, o)
	for o.Lease == 0 && errors.Is(err, search.ErrChance) &&
		searched.asked < longestAsked && o.hasTime() {

		o.Lease = 2 * searched.asked
		note := fmt.Sprintf("%s: with a lease of %s the same choices did not lead to the same points; "+
			"it was judged with %s", o.program().Name, searched.asked, o.Lease)
		res.Notes = append(res.Notes, note)
		searched, err = Run(ctx, o)
		o.Lease = 0 // else the loop would take it for one that was asked for
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

// only is the search of one program, the n-th, in the time that is left. It ends after its
// share of that; while it is below the floor of kept it may also use a part of what the others
// have, see Options.beyond. What it leaves is for those that follow. Controls are played beside
// the first.
func (o Options) only(name string, n int, left time.Duration) Options {
	o.Program = name
	if n > 0 {
		o.Controls = nil
	}
	if o.Within > 0 {
		// Limits are 1 ns at least: 0 means that none is set.
		o.silence = max(1, left)
		if n > 0 { // it has answered before
			o.silence = max(left, 3*program.AnswerLimit)
		}
		o.wholeWithin = o.Within // before that becomes the time of this program

		own := share(o.programs()[n:], left)
		lent := (left - own) / 4
		if n == 0 { // it has the most to play
			lent *= 2
		}
		o.beyond = time.Now().Add(own)
		o.Within = max(1, own+lent)
		o = o.limited()
	}

	// belowFloor expects no more of these programs.
	switch {
	case name == works:
		o.Bounds.Preemptions = 0
	case setsClock(name):
		o.Bounds.Preemptions = max(1, o.Bounds.Preemptions)
		o.Bounds.Faults = 0
	}
	return o
}
