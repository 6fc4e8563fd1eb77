package explore

import (
	"slices"
	"time"
)

// options are the choices at this point: first, to go on with the client that was chosen last. None: the clients wait.
func (s *search) options(w *world) []Choice {
	overslept := w.wakes(2)
	if len(overslept) > 0 { // nobody sleeps for longer
		return overslept
	}
	options, alone := s.deliveries(w)
	if len(options) > 0 { // somebody can go on
		if !alone {
			options = slices.Concat(options, w.wakes(1), w.arrivals())
			if w.preemptions < s.Bounds.Preemptions {
				options = append(options, w.stayLate()...)
			}
		}
		return append(options, s.serverFaults(w)...)
	}
	options = slices.Concat(w.wakes(1), w.arrivals())
	works := func(c *client) bool { return c.alive() && c.paused.IsZero() } // it waits for a timer
	if len(options) > 0 && slices.ContainsFunc(w.clients, works) {
		options = append(options, Choice{What: TimePass})
	}
	return options
}

// deliveries are the choices to deliver a request, of the client that was chosen last first, each with what else can
// happen to it. A request that conflicts with none is alone: nothing is chosen among but what can happen to that one.
func (s *search) deliveries(w *world) (options []Choice, alone bool) {
	first := max(0, w.running)
	goesOn := w.running != nobody && w.next(w.running) != nil
	for after := range w.clients {
		i := (first + after) % len(w.clients)
		r := w.next(i)
		if r == nil {
			continue
		}
		conflictsWithNone := s.alone[asked{i, r.String()}]
		if conflictsWithNone && !s.Bounds.Unreduced {
			return s.with(w, nil, r, Choice{What: Deliver, N: i, Aside: true}), true
		}
		preempts := goesOn && i != w.running
		if !preempts || w.preemptions < s.Bounds.Preemptions {
			options = s.with(w, options, r, Choice{What: Deliver, N: i, Preempt: preempts})
		}
		if !preempts && w.preemptions < s.Bounds.Preemptions {
			for at := range w.nexts(i)[1:] { // which is no other client, and counts as if it were
				options = append(options, Choice{What: Deliver, N: i, At: 1 + at, Preempt: true})
			}
		}
	}
	return options, false
}

// serverFaults are what may happen to servers of the locks that have executed something, and to clocks that were read.
func (s *search) serverFaults(w *world) (options []Choice) {
	for i, c := range w.clients {
		if c.alive() && c.readsClock && s.happens(w, Clock) {
			options = append(options, Choice{What: Clock, N: i, At: 1}, Choice{What: Clock, N: i, At: 2})
		}
	}
	for n := range w.program.LockServers {
		executed := len(w.locks(n).log)
		for _, c := range []Choice{{What: Empty, N: n}, {What: ServerClock, N: n}, {What: Behind}, {What: Behind, N: 1}} {
			needs := 1
			if c.What == Behind {
				needs = c.N + 1
			}
			if executed >= needs && s.happens(w, c.What) {
				options = append(options, c)
			}
		}
	}
	return options
}

// happens reports whether one more fault may happen, of a kind.
func (s *search) happens(w *world, fault Fault) bool {
	again := s.Bounds.Once && slices.ContainsFunc(w.steps, func(c Choice) bool { return c.What == fault })
	return w.faults < s.Bounds.Faults && slices.Contains(s.Bounds.Kinds, fault) && !again
}

// with appends a choice, and what else can happen to the request that it delivers, also where it is delivered at once:
// time conflicts with every request. A pause that takes a preemption is left out: it could have begun before, without.
func (s *search) with(w *world, options []Choice, r *request, c Choice) []Choice {
	options = append(options, c)
	if r.rest {
		cut := c
		cut.What = CutShort
		options = append(options, cut)
	}
	for _, c.What = range []Fault{Pause, Die, Lose, Late, Drop} {
		leftOut := c.What == Pause && c.Preempt && !s.Bounds.Unreduced
		if s.happens(w, c.What) && !leftOut {
			options = append(options, c)
		}
	}
	if s.happens(w, Split) {
		c.What = Split
		for _, c.At = range r.splits() {
			options = append(options, c)
		}
	}
	return options
}

// wakes are the choices to wake those who have slept for so many leases.
func (w *world) wakes(leases time.Duration) (options []Choice) {
	since := time.Now().Add(-leases * w.program.Lease)
	for i, c := range w.clients {
		if !c.paused.IsZero() && !c.paused.After(since) {
			options = append(options, Choice{What: Wake, N: i})
		}
	}
	return options
}

// arrivals are the choices to let a late request come: those of different connections in any order.
func (w *world) arrivals() (options []Choice) {
	for i := range w.clients {
		for at := range w.delayed(i) {
			options = append(options, Choice{What: Arrive, N: i, At: at})
		}
	}
	return options
}

// stayLate are the choices that all who could go on wait for the client of a late request to give up and send more.
func (w *world) stayLate() (options []Choice) {
	for i, c := range w.clients {
		mine := func(r *request) bool { return r.client == i }
		if c.alive() && w.next(i) == nil && slices.ContainsFunc(w.late, mine) {
			options = append(options, Choice{What: TimePass, N: i, At: 1, Preempt: true})
		}
	}
	return options
}
