package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
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

	// Beyond ends the levels with more than one preemption and fault together, while the
	// context's deadline ends the others, too; zero: that ends all.
	Beyond time.Time

	// ChanceHint says what usually makes clients do something else after the same choices, and
	// what to try, at the end of ErrChance.
	ChanceHint string

	// Found is called once for each harm, when it is found, and Progress every 10 s, or every
	// ProgressEvery, with what is known by then. Both are called between two schedules, one
	// call at a time, and the search waits for them. They may be nil.
	Found         func(Found)
	Progress      func(Summary)
	ProgressEvery time.Duration
}

// progressEvery is how often Options.Progress is called, while schedules are short.
const progressEvery = 10 * time.Second

// Drive goes through the schedules of a program within bounds, or until the context ends.
// What it finds is no failure: see Summary. An error says why nothing can be concluded.
func Drive(ctx context.Context, o Options) (Summary, error) {
	d := &driver{Options: o, ctx: ctx, told: time.Now()}
	err := d.run()
	return d.result, err
}

// A driver raises the bounds, and has worlds play schedules side by side.
type driver struct {
	Options
	ctx context.Context

	mu     sync.Mutex // guards what follows while worlds play, see sideBySide
	result Summary    // so far
	walk   *walk
	stale  bool // what worlds offer has changed since the walk began
	busy   int
	free   *sync.Cond // signals that a world is no longer busy
	told   time.Time  // when Progress was called last, or the search began
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
		ended, err := d.preempt(faults)
		if ended || err != nil {
			return err
		}
	}

	// The search comes here if nothing has ended it early. A choice that was lost has left out
	// schedules, also one at a cost that the last level does not include: see count.
	all := d.walk.within(cost{math.MaxInt, math.MaxInt})
	d.result.Complete = !d.walk.bounded && all.chance.sum().lost == 0
	return nil
}

// preempt goes through the schedules with this many faults: it raises the bound on
// preemptions to the last one, or until no schedule is left. It reports whether the search
// ends here.
func (d *driver) preempt(faults int) (ended bool, err error) {
	for preemptions := 0; preemptions <= d.Bounds.Preemptions; preemptions++ {
		if d.Bounds.Total > 0 && preemptions > d.Bounds.Total-faults {
			break
		}

		err := d.pass(cost{faults, preemptions})
		if errors.Is(err, ErrChance) && len(d.result.Found) > 0 { // a harm that was seen stays true
			d.result.Stopped = err.Error()
		} else if err != nil {
			return true, err
		}
		if d.result.Stopped != "" || len(d.result.Found) > 0 && !d.Bounds.Exhaustive {
			return true, nil
		}
		// The next pass replaces a stale walk, so that it does not matter what this one has left.
		if !d.stale && d.walk.isEmpty(faults) {
			break
		}
	}
	return false, nil
}

// pass goes through the schedules up to those of some cost. If what worlds offer has
// changed, the next pass plays all again; if it was wrong, this one does. Relearn never reports
// wrong without changed: so what is played again has a new walk.
func (d *driver) pass(level cost) error {
	d.result.Preemptions = level.preemptions
	d.result.Faults = level.faults
	for wrong := true; wrong && d.result.Stopped == ""; {
		if d.stale {
			d.walk = newWalk(d.Bounds)
		}
		d.sideBySide(level)

		// After an error, too: the summary that is returned with it has these numbers.
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
	d.result.Merged = sum.merged
	d.result.Harmful = sum.harmful
	d.result.Left = len(d.walk.open)

	// Bounds with a fault come after those with more preemptions and none, and do not include
	// them: so a harm counts in all that was played. It counts once at least: it may have been
	// seen on a way that was given up.
	played := d.walk.within(cost{math.MaxInt, math.MaxInt})
	d.result.Played = played.schedules
	for i, f := range d.result.Found {
		d.result.Found[i].Harmful = max(1, played.byHarm[f.Harm])
	}

	// Of this level alone, like Schedules: what was lost with more preemptions and fewer faults is
	// not in it.
	all := sum.chance.sum()
	d.result.Points = all.points
	d.result.Lost = all.lost
	return sum.chance.tooOften(d.ChanceHint)
}

// tell calls Progress if that is due.
func (d *driver) tell(level cost) {
	if d.Progress == nil || time.Since(d.told) < cmp.Or(d.ProgressEvery, progressEvery) {
		return
	}
	d.told = time.Now()
	_ = d.count(level) // whether chance is too much is asked when the bound is reached
	d.Progress(d.result)
}

// stopped says why the search ends before its bounds; empty: it does not. A
// Bounds.Schedules of 0 is any number. Their count may pass the bound: a level takes in those
// of lower cost all at once.
func (d *driver) stopped(level cost) string {
	ended := d.ctx.Err()
	switch {
	case d.Bounds.Schedules > 0 && d.walk.within(level).schedules >= d.Bounds.Schedules:
		return fmt.Sprintf("the limit of %d schedules", d.Bounds.Schedules)
	case d.isBeyond(level):
		return OutOfTime
	case ended == nil:
		return ""
	case !errors.Is(ended, context.DeadlineExceeded):
		return "an interruption"
	}

	cause := context.Cause(d.ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return OutOfTime
	}
	// Whoever has set the deadline says what it is. Package suite knows its own by this text.
	return cause.Error()
}

// isBeyond reports whether the time of Options.Beyond is over, which concerns a level.
func (d *driver) isBeyond(level cost) bool {
	return level.faults+level.preemptions > 1 && !d.Beyond.IsZero() && time.Now().After(d.Beyond)
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

		// A world that ends this goroutine (see unlocked) leaves d.busy as it is. It has to be
		// the only one, as that of package explore is: others would wait for good.
		d.busy++
		err := d.play(w, b)
		d.busy--
		d.free.Broadcast()

		if err != nil {
			d.err = err
			break
		}
		d.result.Stopped = cmp.Or(d.result.Stopped, d.stopped(level))
		d.tell(level)
	}
	d.free.Broadcast()
}

// play has a branch played until it comes to the point at which it leaves the other
// schedule, or gives it up. The driver is locked except while the world plays.
func (d *driver) play(w World, b branch) error {
	var tries retries
	for {
		r := newRun(d, b)
		played, err := d.playOnce(w, r)
		if err == nil && r.twinMismatch != "" {
			err = fmt.Errorf("%w: two schedules came to the same state after %s and after %s, and then %s",
				ErrChance, choicesOf(r.twinWay), choicesOf(r.path), r.twinMismatch)
		}

		// What does not return is played again: with what the world has learned meanwhile, or
		// since only chance, or a slow machine, may have kept it from its point.
		// A run that ErrHeldUp or ErrAgain has ended takes back the states of its new points. One
		// that has missed its point has noted none, see choose.
		switch {
		case errors.Is(err, ErrHeldUp) && len(b.nodes) > 0:
			d.walk.states.forget(&r.record, len(b.nodes), b.cost)
			return d.walk.lose(b, err.Error(), d.ChanceHint)
		case errors.Is(err, ErrAgain):
			d.walk.takeBack(b, &r.record)
		case err != nil:
			return err
		case r.mismatch == "":
			d.walk.played(b, &r.record)
			return nil
		case !tries.again(played.Stalled):
			return d.walk.lose(b, r.mismatch, d.ChanceHint)
		}
	}
}

// playOnce plays a run, and notes its harms: a harm is one, whichever way led to it. A run that
// ErrMerged has ended was played, and is no error.
func (d *driver) playOnce(w World, r *run) (Played, error) {
	played, err := d.unlocked(func() (Played, error) {
		return w.Play(r.choose)
	})
	merged := errors.Is(err, ErrMerged)
	if err != nil && !merged {
		return played, err
	}

	r.harms = harmsOf(played.Harms)
	if t := r.twin; t != nil && r.twinMismatch == "" && !merged {
		r.twinMismatch = r.endMismatch(t)
	}

	// Even of a run that has missed its point: it was played, and its token shows the harm.
	for _, v := range played.Harms {
		isKnown := func(f Found) bool { return f.Harm == v.Harm }
		if slices.ContainsFunc(d.result.Found, isKnown) {
			continue
		}

		first := found(d.Program, played, v)
		d.result.Found = append(d.result.Found, first)
		if d.Found != nil {
			d.Found(first)
		}
	}

	if r.depth < len(r.path) && r.mismatch == "" {
		r.mismatch = "the clients ended before that"
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
