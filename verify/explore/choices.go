package explore

import (
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/search"
)

// options are the choices at this point: the first, if it can, is that the client
// that was chosen last goes on.
func (e *explorer) options(w *world) []search.Choice {
	overslept := w.wakes(2)
	if len(overslept) > 0 { // a pause lasts two leases at most
		return overslept
	}

	options, independent := e.deliveries(w)
	if len(options) > 0 { // somebody can go on
		if !independent {
			options = slices.Concat(options, w.wakes(1), w.arrivals())
			if w.preemptions < e.bounds.Preemptions {
				options = append(options, w.stayLate()...)
			}
		}
		return append(options, e.serverFaults(w)...)
	}

	options = slices.Concat(w.wakes(1), w.arrivals())
	waitsForTimer := func(c *client) bool { return c.alive() && c.paused.IsZero() }
	if len(options) > 0 && slices.ContainsFunc(w.clients, waitsForTimer) {
		options = append(options, search.Choice{What: search.TimePass})
	}
	return options
}

// deliveries are the choices to deliver a request, those of the client that was chosen
// last first, each with what else can happen to it. A request that is independent comes at
// once, if there is one: only what can happen to it is a choice.
func (e *explorer) deliveries(w *world) (options []search.Choice, independent bool) {
	first := max(0, w.running)
	goesOn := w.running != nobody && w.next(w.running) != nil
	for after := range w.clients {
		i := (first + after) % len(w.clients)
		r := w.next(i)
		if r == nil {
			continue
		}
		if e.independent[r.id()] && !e.bounds.Unreduced {
			aside := search.Choice{What: search.Deliver, N: i, Aside: true}
			return e.withFaults(w, nil, r, aside), true
		}

		preempts := goesOn && i != w.running
		mayPreempt := w.preemptions < e.bounds.Preemptions
		if !preempts || mayPreempt {
			deliver := search.Choice{What: search.Deliver, N: i, Preempt: preempts}
			options = e.withFaults(w, options, r, deliver)
		}
		if !preempts && mayPreempt {
			for at := range w.nexts(i)[1:] { // over another connection: a preemption, too
				options = append(options, search.Choice{What: search.Deliver, N: i, At: 1 + at, Preempt: true})
			}
		}
	}
	return options, false
}

// withFaults appends a choice to deliver a request, and what else can happen to it, even if
// it conflicts with no other one: faults and time may still matter. A pause that takes a
// preemption is left out: it could begin earlier without one.
func (e *explorer) withFaults(
	w *world, options []search.Choice, r *request, deliver search.Choice) []search.Choice {

	options = append(options, deliver)
	instead := func(what string, at int) {
		other := deliver
		other.What = what
		other.At = at
		options = append(options, other)
	}
	if r.rest {
		instead(search.CutShort, 0)
	}
	for _, fault := range []Fault{Pause, Die, Lose, Late, Drop} {
		leftOut := fault == Pause && deliver.Preempt && !e.bounds.Unreduced
		if e.mayStrike(w, fault) && !leftOut {
			instead(string(fault), 0)
		}
	}
	if e.mayStrike(w, Split) {
		for _, at := range r.splits() {
			instead(string(Split), at)
		}
	}
	return options
}

// serverFaults are what may happen to servers of the locks that have executed something,
// and to clocks that were read.
func (e *explorer) serverFaults(w *world) (options []search.Choice) {
	for i, c := range w.clients {
		if c.alive() && c.readsClock && e.mayStrike(w, Clock) {
			options = append(options,
				search.Choice{What: string(Clock), N: i, At: ahead},
				search.Choice{What: string(Clock), N: i, At: back})
		}
	}

	for n := range w.program.LockServers {
		executed := len(w.lockServer(n).log)
		add := func(fault Fault, n, needs int) {
			if executed >= needs && e.mayStrike(w, fault) {
				options = append(options, search.Choice{What: string(fault), N: n})
			}
		}
		add(Empty, n, 1)
		add(ServerClock, n, 1)
		add(Behind, 0, 1) // N says how many writes it lacks, from 0
		add(Behind, 1, 2)
	}
	return options
}

// mayStrike reports whether one more fault of a kind may happen.
func (e *explorer) mayStrike(w *world, fault Fault) bool {
	if w.faults >= e.bounds.Faults || !slices.Contains(e.bounds.Kinds, fault) {
		return false
	}
	struck := func(c search.Choice) bool { return c.What == string(fault) }
	return !e.bounds.Once || !slices.ContainsFunc(w.steps, struck)
}

// wakes are the choices to wake a client that has been paused for this many leases.
func (w *world) wakes(leases time.Duration) (options []search.Choice) {
	since := time.Now().Add(-leases * w.program.Lease)
	for i, c := range w.clients {
		if !c.paused.IsZero() && !c.paused.After(since) {
			options = append(options, search.Choice{What: search.Wake, N: i})
		}
	}
	return options
}

// arrivals are the choices to let a late request arrive: those of different
// connections arrive in any order.
func (w *world) arrivals() (options []search.Choice) {
	for i := range w.clients {
		for at := range w.delayed(i) {
			options = append(options, search.Choice{What: search.Arrive, N: i, At: at})
		}
	}
	return options
}

// stayLate are the choices that all other clients wait until the client of a late
// request gives up and sends more.
func (w *world) stayLate() (options []search.Choice) {
	for i, c := range w.clients {
		mine := func(r *request) bool { return r.client == i }
		if c.alive() && w.next(i) == nil && slices.ContainsFunc(w.late, mine) {
			options = append(options, search.Choice{What: search.TimePass, N: i, At: 1, Preempt: true})
		}
	}
	return options
}
