package judge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/program"
)

// A pool keeps worlds for the next program: to start theirs takes seconds. The zero value has
// none yet.
type pool struct {
	guardian *program.Guardian
	worlds   []*world
}

// withWorlds starts worlds, or takes those of o.pool, calls do with them, and ends them unless
// the pool keeps them. Worlds in which a clock is set are kept for no other program.
func (o Options) withWorlds(ctx context.Context, do func([]*world) error) (err error) {
	// A pool of its own is closed with it. Worlds of buyers need one: each has one market.
	p := o.pool
	if p == nil || setsClock(o.Program) || o.Purchase {
		p = &pool{}
		defer func() { err = errors.Join(err, p.close()) }()
	}

	if !p.fits(o) {
		if err := p.close(); err != nil {
			return err
		}
		if err := p.open(ctx, o); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	for _, w := range p.worlds {
		w.begin(o.Program)
	}
	if err := p.worlds[0].hidden(); err != nil {
		return err
	}
	return do(p.worlds)
}

// fits reports whether a pool has worlds whose locks have the lease that is asked for.
func (p *pool) fits(o Options) bool {
	return len(p.worlds) > 0 && (o.Lease == 0 || o.Lease == p.worlds[0].wantedLease)
}

// open starts worlds. What it has started before an error is for close to end.
func (p *pool) open(ctx context.Context, o Options) (err error) {
	p.guardian, err = program.NewGuardian()
	if err != nil {
		return err
	}
	first, err := newWorld(ctx, o, p.guardian, o.leases(), 0)
	if err != nil {
		return err
	}
	p.worlds = append(p.worlds, first)
	o.Bounds.Kinds, err = first.interview(o)
	if err != nil {
		return err
	}
	first.kinds = o.Bounds.Kinds

	// The others need not try other leases, nor find out that there is none.
	o.keeps = first.keeps
	others, err := o.startWorlds(ctx, p.guardian, first.wantedLease)
	p.worlds = append(p.worlds, others...)
	if err != nil {
		return err
	}
	shareFindings(p.worlds)
	return nil
}

// close ends all that the pool has.
func (p *pool) close() (err error) {
	for _, w := range p.worlds {
		err = errors.Join(err, w.close())
	}
	if p.guardian != nil {
		err = errors.Join(err, p.guardian.Close())
	}
	*p = pool{}
	return err
}

// leases are those that are tried: the one that was asked for, or all that are no shorter than
// the one that an earlier program had.
func (o Options) leases() []time.Duration {
	if o.Lease > 0 {
		return []time.Duration{o.Lease}
	}
	all := []time.Duration{ShortestLease, time.Second, longestAsked}
	return slices.DeleteFunc(all, func(lease time.Duration) bool {
		return lease < o.known
	})
}

// mostStarting is how many worlds start at a time: programs that wait too long for a processor
// lose their leases in rehearsal.
const mostStarting = 4

// errSlow ends the start of a world for which there is no time.
var errSlow = errors.New("this machine has no time to start more programs")

// startLimit is how long worlds may start: a part of the time of the program. 0: any time.
func (o Options) startLimit() time.Duration { return o.Within / 6 }

// startWorlds starts all worlds but the first, side by side. Those that take too long on a
// machine that is busy are left out: the others play their schedules. With an error it returns
// those that have started, too, for its caller to close.
func (o Options) startWorlds(
	ctx context.Context, guardian *program.Guardian, lease time.Duration,
) (worlds []*world, err error) {
	// The limit is of the starts alone: a world that has started lives as long as ctx.
	starts := ctx
	if o.startLimit() > 0 {
		var cancel context.CancelFunc
		starts, cancel = context.WithTimeoutCause(ctx, o.startLimit(), errSlow)
		defer cancel()
	}

	others := make([]*world, o.pairs()-1)
	var starting errgroup.Group
	starting.SetLimit(mostStarting)
	for n := range others {
		starting.Go(func() (err error) {
			w, err := newWorld(starts, o, guardian, []time.Duration{lease}, n+1)
			switch {
			case err != nil && errors.Is(context.Cause(starts), errSlow):
				return nil
			case err != nil:
				return err
			}
			w.ctx = ctx
			others[n] = w
			return nil
		})
	}
	err = starting.Wait()
	return slices.DeleteFunc(others, func(w *world) bool {
		return w == nil
	}), err
}

// With clocks that are set there are few schedules: more worlds would take longer to start than
// they save.
const mostWithClock = 4

// pairs is how many worlds there are.
func (o Options) pairs() int {
	pairs := cmp.Or(o.Pairs, 8)
	if setsClock(o.Program) {
		return min(pairs, mostWithClock)
	}
	return pairs
}

// shareFindings has all worlds go by the shortest lease that one has measured. The others
// were longer because the machine was slow. Renewals and opaque words are as the first has
// seen them. From now on a world can be asked to wait until another one has played alone.
func shareFindings(worlds []*world) {
	shortest := worlds[0].lease
	for _, w := range worlds {
		shortest = min(shortest, w.lease)
	}
	for _, w := range worlds {
		w.lease = shortest
		w.renewing = worlds[0].renewing
		w.opaque = worlds[0].opaque
		w.signed = worlds[0].signed
		w.rivals = worlds[0].rivals
		w.leastLease = min(shortest, w.wantedLease)
	}
}
