package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/marketsim/marketsim/verify"
)

// A World plays schedules of a program, one after the other: in virtual time,
// or with real processes.
type World interface {
	// Play plays one from its start, and has choose say at each point what happens next.
	// An error says why nothing can be concluded.
	Play(choose Chooser) (Played, error)
}

// A Chooser says which option happens next. Its options, and what each client wants to
// send, tell a point from others.
type Chooser func(options []Choice, pending []string) (Choice, error)

// A Played is a schedule that was played.
type Played struct {
	Steps []Choice
	Harms []verify.Violation
	// Stalled says that the machine stood still meanwhile. If the schedule went another
	// way, this may be the reason.
	Stalled bool
	// Diagram draws it, with the harms that it is to show.
	Diagram func(shown []verify.Violation) verify.Diagram
}

// find is the schedule as it is reported.
func (p Played) find(program Program, v verify.Violation) Found {
	f := Found{Violation: v, Token: written(program, p.Steps), Diagram: p.Diagram([]verify.Violation{v})}
	for _, c := range p.Steps {
		if c.Preempt {
			f.Preemptions++
		}
		if c.IsFault() {
			f.Struck = append(f.Struck, c.What)
		}
	}
	f.Faults = len(f.Struck)
	return f
}

// A driver raises the bounds, and has worlds play schedules side by side.
type driver struct {
	*Report
	ctx    context.Context
	worlds []World
	// relearn says whether worlds have left out choices wrongly, and whether they offer
	// others from now on; nil: neither.
	relearn func() (wrong, changed bool)

	mu    sync.Mutex // guards the report and what follows
	walk  *walk
	stale bool // what worlds offer has changed since the walk began
	busy  int
	free  *sync.Cond // signals that a world is no longer busy
	err   error
}

// Drive has worlds, which are of the same program, play its schedules within bounds. What
// it finds is no failure: see Report. An error says why nothing can be concluded.
func Drive(ctx context.Context, p Program, b Bounds, worlds ...World) (*Report, error) {
	d := &driver{Report: &Report{Program: p, Bounds: b}, ctx: ctx, worlds: worlds}
	return d.Report, d.run()
}

// run raises the bounds to the last ones, or, unless the search is exhaustive,
// until a harm is found.
func (d *driver) run() error {
	b := d.Bounds
	if min(b.Preemptions, b.Faults, b.Schedules) < 0 {
		return fmt.Errorf("of %d preemptions, %d faults and %d schedules none can be below 0",
			b.Preemptions, b.Faults, b.Schedules)
	}
	d.walk, d.free = newWalk(b), sync.NewCond(&d.mu)
	for faults := range b.Faults + 1 {
		for preemptions := range b.Preemptions + 1 {
			if b.Total > 0 && preemptions+faults > b.Total {
				continue
			}
			err := d.pass(cost{faults, preemptions})
			if errors.Is(err, ErrChance) && len(d.Found) > 0 { // a harm that was seen stays true
				d.Stopped = err.Error()
			} else if err != nil {
				return err
			}
			if d.Stopped != "" || len(d.Found) > 0 && !b.Exhaustive {
				return nil
			}
		}
	}
	return nil
}

// pass goes through the schedules up to those of some cost. If what worlds offer has
// changed, the next pass plays all again; if it was wrong, this one does.
func (d *driver) pass(level cost) error {
	d.Preemptions, d.Faults = level.preemptions, level.faults
	for wrong := true; wrong && d.Stopped == ""; {
		if d.stale {
			d.walk = newWalk(d.Bounds)
		}
		var others sync.WaitGroup
		for _, w := range d.worlds[1:] {
			others.Go(func() { d.work(w, level) })
		}
		d.work(d.worlds[0], level)
		others.Wait()
		sum := d.walk.within(level)
		d.Schedules, d.Harmful = sum.schedules, sum.harmful
		all := sum.chance.sum()
		d.Points, d.Lost = all.points, all.lost
		if d.err == nil {
			d.err = sum.chance.enough()
		}
		if d.err != nil {
			return d.err
		}
		wrong = false
		if d.relearn != nil {
			wrong, d.stale = d.relearn()
		}
	}
	return nil
}

// work has a world play schedules up to those of some cost, until none is left.
func (d *driver) work(w World, level cost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.err == nil && d.Stopped == "" {
		b, more := d.walk.next(level)
		if !more && d.busy == 0 {
			break
		}
		if !more { // what is played now may have branches
			d.free.Wait()
			continue
		}
		d.busy++
		err := d.comesThere(w, b)
		d.busy--
		d.free.Broadcast()
		switch {
		case err != nil:
			d.err = err
		case d.walk.within(level).schedules == d.Bounds.Schedules:
			d.Stopped = fmt.Sprintf("the limit of %d schedules", d.Bounds.Schedules)
		case errors.Is(d.ctx.Err(), context.DeadlineExceeded):
			d.Stopped = "the time that it was given"
		case d.ctx.Err() != nil:
			d.Stopped = "an interruption"
		}
	}
	d.free.Broadcast()
}

// comesThere has a branch played, again if it does not come to the point at which it
// leaves the other schedule: up to three times, not counting when the machine stood
// still. Harms of all count. The driver is locked except in Play.
func (d *driver) comesThere(w World, b branch) error {
	r := &run{driver: d, branch: b, path: slices.Clone(b.nodes)}
	if len(b.nodes) > 0 {
		r.path[len(b.nodes)-1].at = b.last
	}
	for missed, slow := 0, 0; missed < tries; {
		r.depth, r.differs = 0, ""
		played, err := d.unlocked(func() (Played, error) { return w.Play(r.choose) })
		if errors.Is(err, errHeldUp) && len(b.nodes) > 0 {
			return d.walk.lose(b, err.Error())
		}
		if err != nil {
			return err
		}
		for _, v := range played.Harms {
			if !slices.ContainsFunc(d.Found, func(f Found) bool { return f.Harm == v.Harm }) {
				d.Found = append(d.Found, played.find(d.Program, v))
			}
		}
		if r.depth < len(r.path) && r.differs == "" {
			r.differs = "the clients ended before that"
		}
		if r.differs == "" {
			tally := d.walk.of(b.cost)
			tally.schedules++
			tally.harmful += min(1, len(played.Harms))
			d.walk.played(b, r.path)
			return nil
		}
		if played.Stalled && slow < mostSlow {
			slow++
		} else {
			missed++
		}
	}
	return d.walk.lose(b, r.differs)
}

// unlocked lets others go on while a schedule is played, which may end this goroutine.
func (d *driver) unlocked(play func() (Played, error)) (Played, error) {
	d.mu.Unlock()
	defer d.mu.Lock()
	return play()
}

type run struct {
	*driver
	branch  branch
	path    []node // so far
	depth   int
	differs string // how the schedule differs from the path; empty: it does not
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
		r.path = append(r.path, node{point: r.walk.meets(options, pending)})
		r.walk.of(r.branch.cost).chance.at(depth).points++
	}
	n := r.path[depth]
	if !slices.Equal(n.options, options) || !slices.EqualFunc(n.pending, pending, sameButNumbers) {
		r.differs = fmt.Sprintf("at step %d clients sent %q and the choices were %v, and now %q and %v",
			depth+1, n.pending, n.options, pending, options)
		return options[0], nil
	}
	return n.options[n.at], nil
}

// Follows has a world play the steps of a token. The harm that it returns is
// empty if they do none.
func Follows(p Program, w World, steps []string) (f Found, err error) {
	played, err := w.Play(Follow(steps))
	if err != nil {
		return f, err
	}
	if n := len(played.Steps); n < len(steps) {
		err = fmt.Errorf("step %d of the token did not come: the clients had ended", n+1)
	}
	if len(played.Harms) > 0 {
		f = played.find(p, verify.Worst(played.Harms))
	}
	f.Diagram = played.Diagram(played.Harms)
	return f, err
}

// Words are steps as a token has them.
func Words(steps []Choice) (words []string) {
	for _, c := range steps {
		words = append(words, c.String())
	}
	return words
}

// Follow is the Chooser that chooses the steps of a token.
func Follow(steps []string) Chooser {
	n := -1
	return func(options []Choice, _ []string) (Choice, error) {
		n++
		i := slices.IndexFunc(options, func(c Choice) bool { return n < len(steps) && c.String() == steps[n] })
		if i < 0 {
			return Choice{}, fmt.Errorf("step %d of the token cannot be chosen: there is %v", n+1, options)
		}
		return options[i], nil
	}
}
