package explore

import (
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/search"
)

// options are the choices at this point: the first, if it can, is that the client
// that was chosen last goes on. The first is never a fault or a preemption: package search does
// not count what it costs, see walk.played there.
func (e *explorer) options(w *world) []search.Choice {
	overslept := w.wakes(2)
	if len(overslept) > 0 { // a pause lasts two leases at most
		return overslept
	}

	options, independent := e.deliveries(w)
	if len(options) > 0 { // somebody can go on
		if !independent {
			options = slices.Concat(options, w.wakes(1), e.arrivals(w, false))
			options = append(options, e.within(w, w.stayLate())...)
		}
		options = append(options, e.within(w, w.laterBegins())...)
		return slices.Concat(options, e.serverFaults(w), e.betweenRequests(w))
	}

	// Nobody can go on. Where something else may happen before a client's timer comes, to let time
	// pass is a choice; without any choice goThrough lets it pass.
	waitsForTimer := func(c *client) bool {
		return c.alive() && c.paused.IsZero()
	}
	timers := slices.ContainsFunc(w.clients, waitsForTimer)
	options = slices.Concat(w.wakes(1), e.arrivals(w, !timers))
	if (len(options) > 0 || w.anyDelayed()) && timers {
		options = append(options, search.Choice{What: search.TimePass})
	}
	return append(options, e.inQuiet(w, options)...)
}

// laterBegins are the choices that a client begins only when a lease has passed, as one does
// that comes by then: else time passes only when nobody can go on, and one that gives up at
// once would never meet what has expired. They come before all others, in the order of the
// clients, and one client at least begins at once.
func (w *world) laterBegins() (options []search.Choice) {
	isAnother := func(c search.Choice) bool { return c.What != search.Later }
	begun := slices.ContainsFunc(w.steps, isAnother)
	allButOne := len(w.steps)+1 >= len(w.clients) // begin later already
	if !w.program.BeginsLater || begun || allButOne {
		return nil
	}

	first := 0
	if n := len(w.steps); n > 0 {
		first = w.steps[n-1].N + 1
	}
	for i := first; i < len(w.clients); i++ {
		options = append(options, search.Choice{What: search.Later, N: i, Preempt: true})
	}
	return options
}

// betweenRequests are the faults that strike no request.
func (e *explorer) betweenRequests(w *world) []search.Choice {
	return append(e.cancels(w), e.idleBreaks(w)...)
}

// inQuiet are the faults that strike no request while nobody can go on. If nothing else is a
// choice then, that time passes comes first.
func (e *explorer) inQuiet(w *world, others []search.Choice) []search.Choice {
	faults := e.betweenRequests(w)
	isOver := !time.Now().Before(w.last.Add(patience))
	if len(faults) == 0 || isOver || !slices.ContainsFunc(w.clients, (*client).alive) {
		return nil
	}

	if len(others) == 0 {
		quiet := search.Choice{What: search.TimePass, At: search.Quiet}
		return append([]search.Choice{quiet}, faults...)
	}
	return faults
}

// deliveries are the choices to deliver a request, those of the client that was chosen
// last first, each with what else can happen to it. A request that is independent, since it
// conflicts with none that another client has been seen to make (see reduction), comes at once:
// only what can happen to it is a choice.
func (e *explorer) deliveries(w *world) (options []search.Choice, independent bool) {
	first := 0
	goesOn := w.running != nobody && w.next(w.running) != nil
	if goesOn {
		first = w.running
	}
	for after := range w.clients {
		i := (first + after) % len(w.clients)
		r := w.next(i)
		if r == nil {
			continue
		}

		alone := e.independent[r.id()] && !e.bounds.Unreduced
		if alone && !e.meetsOwnLate(w, r) {
			aside := search.Choice{What: search.Deliver, N: i, Aside: true}
			return e.withFaults(w, nil, r, aside), true
		}

		for at, next := range w.nexts(i) { // over another connection than the first: a preemption, too
			// One that conflicts with the client's own late request alone may come before it or after:
			// once that has come, it is delivered at once (above), before what the client asks over
			// other connections.
			if alone && at > 0 {
				break
			}
			preempts := goesOn && i != w.running || at > 0
			deliver := search.Choice{What: search.Deliver, N: i, At: at, Preempt: preempts}
			options = append(options, e.within(w, e.withFaults(w, nil, next, deliver))...)
		}
	}
	return options, false
}

// within leaves out preemptions where there may be no more, and notes that it has.
func (e *explorer) within(w *world, options []search.Choice) []search.Choice {
	if w.preemptions < e.bounds.Preemptions {
		return options
	}
	kept := slices.DeleteFunc(options, func(c search.Choice) bool {
		return c.Preempt
	})
	e.withheld = e.withheld || len(kept) < len(options)
	return kept
}

// withFaults appends a choice to deliver a request, and what else can happen to it, even if
// it conflicts with no other one: faults and time may still matter. A pause that takes a
// preemption is left out: it could begin earlier without one. One pause is of all
// connections.
func (e *explorer) withFaults(
	w *world, options []search.Choice, r *request, deliver search.Choice) []search.Choice {

	// A fault takes the place of the delivery: it costs the same preemption, if any.
	options = append(options, deliver)
	instead := func(what string, at int) {
		other := deliver
		other.What = what
		other.At = at
		options = append(options, other)
	}

	if r.rest { // of a request that was split: it may never come
		instead(search.CutShort, deliver.At)
	}
	// All but Pause take the request from where it waits: world.request has to name them, too.
	for _, fault := range []Fault{Pause, Die, Lose, Late, Drop} {
		leftOut := fault == Pause && (deliver.Preempt && !e.bounds.Unreduced || deliver.At > 0)
		if e.mayStrike(w, fault) && !leftOut {
			instead(string(fault), deliver.At)
		}
	}
	if e.mayStrike(w, Split) {
		for _, commands := range r.splits() {
			instead(string(Split), deliver.At*splitConn+commands)
		}
	}
	return options
}

// splitConn is what Choice.At of a Split counts connections by: the rest is after how many
// commands the request is divided. One that is longer is not divided further back.
const splitConn = 1000

// serverFaults are the faults that strike no request: of the clocks that clients have read,
// and of servers of the locks, once they have executed something.
func (e *explorer) serverFaults(w *world) (options []search.Choice) {
	for i, c := range w.clients {
		if c.alive() && c.readsClock && e.mayStrike(w, Clock) {
			options = append(options,
				search.Choice{What: string(Clock), N: i, At: ahead},
				search.Choice{What: string(Clock), N: i, At: back})
		}
	}

	for n := range w.program.LockServers {
		executed := len(w.lockServer(n).log) // a state counts them up to 2, see sayLog
		add := func(fault Fault, number, needs int) {
			if executed >= needs && e.mayStrike(w, fault) {
				options = append(options, search.Choice{What: string(fault), N: number})
			}
		}
		add(Empty, n, 1)
		add(ServerClock, n, 1)
		// Behind strikes where there is one server alone (see takeOver): its N says how many
		// writes the server then lacks, less one.
		add(Behind, 0, 1)
		add(Behind, 1, 2)
	}
	return options
}

// idleBreaks are the choices to break a connection over which nothing is asked.
func (e *explorer) idleBreaks(w *world) (options []search.Choice) {
	if !e.mayStrike(w, IdleBreak) {
		return nil
	}

	for i, c := range w.clients {
		if !c.alive() || !c.paused.IsZero() {
			continue
		}
		for at, conn := range c.conns {
			if conn.isIdle() {
				options = append(options, search.Choice{What: string(IdleBreak), N: i, At: at})
			}
		}
	}
	return options
}

// isIdle reports whether nothing is asked over the connection.
func (c *conn) isIdle() bool {
	isAsked := func(p *parked) bool {
		return p.conn == c
	}
	return !c.Broken() && len(c.waiting) == 0 && !c.held && !c.deaf &&
		!slices.ContainsFunc(c.server.parked, isAsked)
}

// mayStrike reports whether one more fault of a kind may happen.
func (e *explorer) mayStrike(w *world, fault Fault) bool {
	if w.faults >= e.bounds.Faults || !slices.Contains(e.bounds.Kinds, fault) {
		return false
	}
	struck := func(c search.Choice) bool {
		return c.What == string(fault)
	}
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

// stayLate are the choices that all other clients wait until the client of a late request
// gives up and sends more. What it sends after that takes no time any more: else others could
// wait for any number of its polls.
func (w *world) stayLate() (options []search.Choice) {
	for i, c := range w.clients {
		isAwaited := func(r *request) bool {
			return r.client == i && r.gaveUp.IsZero()
		}
		if c.alive() && w.next(i) == nil && slices.ContainsFunc(w.late, isAwaited) {
			options = append(options, search.Choice{What: search.TimePass, N: i, At: 1, Preempt: true})
		}
	}
	return options
}
