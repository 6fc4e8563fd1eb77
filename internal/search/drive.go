package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Options say what Drive goes through.
type Options struct {
	Program Program
	Bounds  Bounds
	Worlds  []World // of the same program: they play schedules side by side
	// Relearn is for worlds that leave out choices by what they have seen of the clients.
	// It is called when all schedules of a bound were played, and says whether some were
	// left out wrongly, and whether other choices are left out from now on. It may be nil.
	Relearn func() (wrong, changed bool)
}

// Drive goes through the schedules of a program within bounds, or until the context ends.
// What it finds is no failure: see Result. An error says why nothing can be concluded.
func Drive(ctx context.Context, o Options) (Result, error) {
	d := &driver{Options: o, ctx: ctx}
	err := d.run()
	return d.result, err
}

// A driver raises the bounds, and has worlds play schedules side by side.
type driver struct {
	Options
	ctx context.Context

	mu     sync.Mutex // guards what follows
	result Result     // so far
	walk   *walk
	stale  bool // what worlds offer has changed since the walk began
	busy   int
	free   *sync.Cond // signals that a world is no longer busy
	err    error
}

// run raises the bounds to the last ones, or, unless the search is exhaustive,
// until a harm is found.
func (d *driver) run() error {
	b := d.Bounds
	if min(b.Preemptions, b.Faults, b.Schedules) < 0 {
		return fmt.Errorf("of %d preemptions, %d faults and %d schedules none can be below 0",
			b.Preemptions, b.Faults, b.Schedules)
	}

	d.walk = newWalk(b)
	d.free = sync.NewCond(&d.mu)
	for faults := range b.Faults + 1 {
		for preemptions := range b.Preemptions + 1 {
			if b.Total > 0 && preemptions+faults > b.Total {
				continue
			}
			err := d.pass(cost{faults, preemptions})
			if errors.Is(err, ErrChance) && len(d.result.Found) > 0 { // a harm that was seen stays true
				d.result.Stopped = err.Error()
			} else if err != nil {
				return err
			}
			if d.result.Stopped != "" || len(d.result.Found) > 0 && !b.Exhaustive {
				return nil
			}
		}
	}
	return nil
}

// pass goes through the schedules up to those of some cost. If what worlds offer has
// changed, the next pass plays all again; if it was wrong, this one does.
func (d *driver) pass(level cost) error {
	d.result.Preemptions = level.preemptions
	d.result.Faults = level.faults
	for wrong := true; wrong && d.result.Stopped == ""; {
		if d.stale {
			d.walk = newWalk(d.Bounds)
		}
		d.sideBySide(level)

		tooMuchChance := d.count(level)
		if d.err == nil {
			d.err = tooMuchChance
		}
		if d.err != nil {
			return d.err
		}

		wrong = false
		if d.Relearn != nil {
			wrong, d.stale = d.Relearn()
		}
	}
	return nil
}

// sideBySide has all worlds play schedules up to those of some cost. The first of them
// plays in this goroutine.
func (d *driver) sideBySide(level cost) {
	var others sync.WaitGroup
	for _, w := range d.Worlds[1:] {
		others.Go(func() { d.work(w, level) })
	}
	d.work(d.Worlds[0], level)
	others.Wait()
}

// count notes how many schedules of some cost were played. An error says that too many
// were lost to chance.
func (d *driver) count(level cost) error {
	sum := d.walk.within(level)
	d.result.Schedules = sum.schedules
	d.result.Harmful = sum.harmful

	all := sum.chance.sum()
	d.result.Points = all.points
	d.result.Lost = all.lost
	return sum.chance.tooOften()
}

// work has a world play schedules up to those of some cost, until none is left.
func (d *driver) work(w World, level cost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.err == nil && d.result.Stopped == "" {
		b, more := d.walk.next(level)
		if !more && d.busy == 0 {
			break
		}
		if !more { // what is played now may have branches
			d.free.Wait()
			continue
		}

		d.busy++
		err := d.play(w, b)
		d.busy--
		d.free.Broadcast()

		switch {
		case err != nil:
			d.err = err
		case d.walk.within(level).schedules == d.Bounds.Schedules:
			d.result.Stopped = fmt.Sprintf("the limit of %d schedules", d.Bounds.Schedules)
		case errors.Is(d.ctx.Err(), context.DeadlineExceeded):
			d.result.Stopped = "the time that it was given"
		case d.ctx.Err() != nil:
			d.result.Stopped = "an interruption"
		}
	}
	d.free.Broadcast()
}

// play has a branch played until it comes to the point at which it leaves the other
// schedule, or gives it up. The driver is locked except while the world plays.
func (d *driver) play(w World, b branch) error {
	var tries retries
	for {
		r := newRun(d, b)
		played, err := d.once(w, r)
		switch {
		case errors.Is(err, ErrHeldUp) && len(b.nodes) > 0:
			return d.walk.lose(b, err.Error())
		case err != nil:
			return err
		case r.differs == "":
			d.walk.played(b, r.path, len(played.Harms) > 0)
			return nil
		case !tries.again(played.Stalled):
			return d.walk.lose(b, r.differs)
		}
	}
}

// once plays a run, and notes its harms: a harm is one, whichever way led to it.
func (d *driver) once(w World, r *run) (Played, error) {
	played, err := d.unlocked(func() (Played, error) { return w.Play(r.choose) })
	if err != nil {
		return played, err
	}

	for _, v := range played.Harms {
		isKnown := func(f Found) bool { return f.Harm == v.Harm }
		if !slices.ContainsFunc(d.result.Found, isKnown) {
			d.result.Found = append(d.result.Found, found(d.Program, played, v))
		}
	}
	if r.depth < len(r.path) && r.differs == "" {
		r.differs = "the clients ended before that"
	}
	return played, nil
}

// unlocked lets others go on while a schedule is played, which may end this goroutine.
func (d *driver) unlocked(play func() (Played, error)) (Played, error) {
	d.mu.Unlock()
	defer d.mu.Lock()
	return play()
}

// mostMissed is how often a schedule may miss the point that it has to come to, before its
// choice is given up, and mostSlow how often besides, because the machine stood still.
const (
	mostMissed = 3
	mostSlow   = 10
)

// retries count how often a schedule has missed its point.
type retries struct{ missed, slow int }

// again counts one more miss, and reports whether the schedule is played again.
func (r *retries) again(stalled bool) bool {
	if stalled && r.slow < mostSlow {
		r.slow++
		return true
	}
	r.missed++
	return r.missed < mostMissed
}

// A run is a branch while it is played.
type run struct {
	*driver
	branch  branch
	path    []node // of the branch, and then of what came after it
	depth   int    // how many points it has come to
	differs string // how the schedule differs from the path; empty: it does not
}

func newRun(d *driver, b branch) *run {
	r := &run{driver: d, branch: b, path: slices.Clone(b.nodes)}
	if len(b.nodes) > 0 {
		r.path[len(b.nodes)-1].at = b.last
	}
	return r
}

// choose is the next Choice: that of the path, and after its end the first. At each point
// of the path the options and the requests must be the same as before, at whatever time;
// if they are not, only first choices follow.
func (r *run) choose(options []Choice, pending []string) (Choice, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	depth := r.depth
	r.depth++
	if r.differs != "" {
		return options[0], nil
	}

	if depth == len(r.path) {
		r.path = append(r.path, node{point: r.walk.pointOf(options, pending)})
		r.walk.tally(r.branch.cost).chance.at(depth).points++
	}
	n := r.path[depth]
	if !slices.Equal(n.options, options) || !slices.EqualFunc(n.pending, pending, sameButNumbers) {
		r.differs = fmt.Sprintf("at step %d clients sent %q and the choices were %v, and now %q and %v",
			depth+1, n.pending, n.options, pending, options)
		return options[0], nil
	}
	return n.options[n.at], nil
}
