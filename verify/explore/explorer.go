package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
)

// An explorer plays the schedules of a program in memory, each in a world of its own. It
// is a search.World.
type explorer struct {
	program Program
	bounds  Bounds
	reduction

	// What schedules begin with:
	scripts    []string               // that were sent whole in the first schedule
	addrs      []string               // of the servers of the locks
	redis      []*miniredis.Miniredis // nil: others are started for the next one
	remembered backend.Scripts
	rehearsal  rehearsal
	pools      pools
	chance     chance
	withheld   bool // a choice was left out because of the bound on preemptions

	// In tests:
	leftOut      string // a part of states
	everyArrival bool   // late requests come at all points, see passes
	everyPoll    bool   // what is asked again is a choice each time

	realTime int64                 // when the schedule that is played began, in nanoseconds
	progress atomic.Int64          // counts the steps of all schedules; below 0: given up
	running  atomic.Pointer[world] // the schedule that is run
	silence  time.Duration         // how long the search may stand still in real time
	// Whether goroutines that wait for a mutex are looked for, which takes long: false once the
	// first schedule had none, until a schedule stands still because of one.
	mutexes    bool
	hadMutexes bool // the first schedule had one
	// How many goroutines wait for a mutex that are from before, or of schedules that were
	// given up.
	waiting int
	// Sees each request that is sent again without a choice; may be nil.
	onRepeat func(*world, *request)
}

func newExplorer(p Program, b Bounds) *explorer {
	b.Schedules = cmp.Or(b.Schedules, 1_000_000)
	p.Lease = cmp.Or(p.Lease, Lease)
	p.Reply = cmp.Or(p.Reply, Reply)
	if b.Kinds == nil {
		b.Kinds = Faults()
	}

	e := &explorer{
		program: p, bounds: b,
		reduction: reduction{uses: map[requestID]keys{}},
		silence:   20 * time.Second,
		mutexes:   true,
	}
	// in a network for documentation: nothing answers a client that connects by itself
	for n := range p.LockServers {
		e.addrs = append(e.addrs, fmt.Sprintf("192.0.2.%d:6379", n+1))
	}
	return e
}

// search goes through the schedules of the program within the bounds.
func (e *explorer) search(ctx context.Context) (*Report, error) {
	switch {
	case e.bounds.Time < 0:
		return e.report(search.Summary{}),
			fmt.Errorf("the time of a search is %s, and cannot be below 0", e.bounds.Time)
	case e.bounds.Time > 0:
		within, cancel := context.WithTimeout(ctx, e.bounds.Time)
		defer cancel()
		ctx = within
	}

	var found search.Summary
	err := e.afterFirst(func() (err error) {
		found, err = e.drive(ctx)
		return err
	})
	return e.report(found), err
}

// report is what was found, by the end of the search or so far.
func (e *explorer) report(found search.Summary) *Report {
	found.Complete = found.Complete && !e.withheld
	return reportOf(e.program, e.bounds, found)
}

// drive does what search does, after the first schedule.
func (e *explorer) drive(ctx context.Context) (search.Summary, error) {
	o := search.Options{
		ChanceHint: "usually a client draws delays or numbers from math/rand/v2, goes through a map, " +
			"or sends from several goroutines at once",
		Program: e.program.named(),
		Bounds: search.Bounds{
			Preemptions: e.bounds.Preemptions, Faults: e.bounds.Faults, Total: e.bounds.Total,
			Schedules: e.bounds.Schedules, Exhaustive: e.bounds.Exhaustive, Unmerged: e.bounds.Unmerged,
		},
		Worlds:  []search.World{e}, // one: it seeds sources of chance of the whole process
		Relearn: e.relearn,
	}
	if on := e.program.OnFound; on != nil {
		o.Found = func(f search.Found) { on(foundOf(f)) }
	}
	if on := e.program.OnProgress; on != nil {
		o.Progress = func(soFar search.Summary) { on(e.report(soFar)) }
	}

	// The first schedule has been played without both, as replays are: every step is seeded then,
	// and mutexes are looked for.
	e.chance.trust()
	e.mutexes = e.hadMutexes
	return search.Drive(ctx, o)
}

// afterFirst plays the first schedule, to learn which scripts clients send and whether the
// program does anything, and then calls run. Until run returns the
// random sources of the process are seeded, see chance, and look-ups of names fail.
func (e *explorer) afterFirst(run func() error) error {
	redisconn.QuietLogs() // the search breaks connections all the time
	defer e.chance.without()()
	defer withoutNames()()
	defer e.pools.watch()()
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	// In a bubble one goroutine hands over to the next; and runnable counts none that runs.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e.waiting, _ = waitForMutexes() // an earlier search may have left some

	w, _, err := e.schedule(search.First)
	if err != nil {
		return err
	}

	e.takeOver(w)
	if w.trial.Vacuous != nil {
		err = w.trial.Vacuous()
	}
	if err != nil {
		return err
	}
	e.hadMutexes = w.hadMutexes
	return run()
}

// takeOver notes the scripts that the first schedule has sent, and the servers to which it
// has connected. Faults of servers that there are not cannot happen.
func (e *explorer) takeOver(w *world) {
	e.scripts = w.scripts
	// Also without new scripts: with Masters there is now one server for each of addrs.
	e.redis = nil
	e.addrs = slices.Sorted(slices.Values(w.addrs)) // a client may have gone through a map of them
	e.program.LockServers = len(e.addrs)            // with Masters they were not known before

	servers := len(e.addrs)
	e.bounds.Kinds = slices.DeleteFunc(slices.Clone(e.bounds.Kinds), func(f Fault) bool {
		switch f {
		case Empty:
			return servers == 0
		case Behind:
			return servers != 1
		case ServerClock:
			return servers < 2
		}
		return false
	})
}

// Play implements search.World.
func (e *explorer) Play(choose search.Chooser) (search.Played, error) {
	w, harms, err := e.schedule(choose)
	return search.Played{Steps: w.steps, Harms: harms, Diagram: w.diagram}, err
}

// If nothing happens for patience, a client will never end. mostSteps bounds the choices of
// a schedule, and mostRepeats what is asked again without a choice.
const (
	patience    = time.Minute
	mostSteps   = 5000
	mostRepeats = 100_000
)

// goThrough makes choices until the clients have ended or died, or nothing
// happens any more.
func (e *explorer) goThrough(w *world, choose search.Chooser) error {
	for {
		// await sees that the schedule moves, and has made it negative if it waited too long
		if e.progress.Add(1) < 0 {
			return errors.New("the search has been given up meanwhile")
		}

		w.expire()
		options := e.options(w)
		if len(options) == 0 { // only time can bring something
			if w.hasEnded() || !w.wait(1) {
				return nil
			}
			continue
		}

		if len(w.steps) == mostSteps || w.repeats == mostRepeats {
			return fmt.Errorf("a schedule has not ended after %d steps: clients wait too often, "+
				"or for too long; the last are %q", len(w.steps)+w.repeats, w.pending())
		}
		if e.isRepeat(w, options) { // a client polls: no choice, or the search would not end
			e.repeat(w, w.next(options[0].N))
			continue
		}

		c, err := choose(search.ChoicePoint{
			Options: options, Pending: w.pending(),
			State: func() string { return e.state(w) },
		})
		if err != nil {
			return err
		}

		// Not before choose: its State has what had passed before this point.
		e.passes(w, options)
		w.do(c, e.take(w, c))
	}
}

// take returns the request that a choice delivers, and notes what it will use; nil: the
// choice delivers none.
func (e *explorer) take(w *world, c search.Choice) *request {
	r := w.request(c)
	if r == nil {
		return nil
	}

	if Fault(c.What) == Split {
		r = r.head(c.At % splitConn)
	}
	if c.What == search.Arrive {
		r.idle = e.comesToNothing(r)
	}
	if kinds[Fault(c.What)].executes {
		w.uses = e.keysOf(r)
	}
	return r
}
