package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/backend/embedded"
	"github.com/marketsim/marketsim/verify"
)

// options are the choices at this point: the first, if it can, is that the client
// that was chosen last goes on.
func (s *search) options(w *world) []Choice {
	overslept := w.wakes(2)
	if len(overslept) > 0 { // a pause lasts two leases at most
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

// deliveries are the choices to deliver a request, those of the client that was chosen
// last first, each with what else can happen to it. If a request conflicts with none, it
// is alone: only what can happen to it is a choice.
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
			for at := range w.nexts(i)[1:] { // over another connection: this counts as a preemption, too
				options = append(options, Choice{What: Deliver, N: i, At: 1 + at, Preempt: true})
			}
		}
	}
	return options, false
}

// serverFaults are what may happen to servers of the locks that have executed something,
// and to clocks that were read.
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

// happens reports whether one more fault of a kind may happen.
func (s *search) happens(w *world, fault Fault) bool {
	again := s.Bounds.Once && slices.ContainsFunc(w.steps, func(c Choice) bool { return c.What == fault })
	return w.faults < s.Bounds.Faults && slices.Contains(s.Bounds.Kinds, fault) && !again
}

// with appends a choice to deliver a request, and what else can happen to it, even if it
// conflicts with no other one: faults and time may still matter. A pause that takes a
// preemption is left out: it could begin earlier without one.
func (s *search) with(w *world, options []Choice, r *request, c Choice) []Choice {
	options = append(options, c)
	if r.rest {
		c.What = CutShort
		options = append(options, c)
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

// wakes are the choices to wake a client that has been paused for this many leases.
func (w *world) wakes(leases time.Duration) (options []Choice) {
	since := time.Now().Add(-leases * w.program.Lease)
	for i, c := range w.clients {
		if !c.paused.IsZero() && !c.paused.After(since) {
			options = append(options, Choice{What: Wake, N: i})
		}
	}
	return options
}

// arrivals are the choices to let a late request arrive: those of different
// connections arrive in any order.
func (w *world) arrivals() (options []Choice) {
	for i := range w.clients {
		for at := range w.delayed(i) {
			options = append(options, Choice{What: Arrive, N: i, At: at})
		}
	}
	return options
}

// stayLate are the choices that all other clients wait until the client of a late
// request gives up and sends more.
func (w *world) stayLate() (options []Choice) {
	for i, c := range w.clients {
		mine := func(r *request) bool { return r.client == i }
		if c.alive() && w.next(i) == nil && slices.ContainsFunc(w.late, mine) {
			options = append(options, Choice{What: TimePass, N: i, At: 1, Preempt: true})
		}
	}
	return options
}

// request is what a choice delivers; nil: nothing.
func (w *world) request(c Choice) *request {
	switch c.What {
	case Deliver:
		return w.nexts(c.N)[c.At]
	case Die, Lose, Late, Drop, Split, CutShort:
		return w.next(c.N)
	case Arrive:
		return w.delayed(c.N)[c.At]
	}
	return nil
}

// do makes a choice happen. It removes the choice's request from where it waits.
func (w *world) do(c Choice, r *request) {
	w.steps = append(w.steps, c)
	w.cost = w.cost.with(c)
	now := time.Now()
	if !c.Aside && !slices.Contains([]Fault{Empty, Behind, Clock, ServerClock, TimePass, Arrive}, c.What) {
		w.running = c.N
	}
	if c.IsFault() || c.What == Wake || c.What == Arrive {
		w.last = now
	}
	if c.What != Deliver {
		w.asks = asks{} // what was asked before may now have another answer
	}
	if c.What == Arrive {
		r.held = false
		w.late = slices.DeleteFunc(w.late, func(late *request) bool { return late == r })
	} else if r != nil {
		r.waiting = r.waiting[1:]
	}
	switch c.What {
	case Pause:
		w.draw(verify.Event{Client: c.N, Does: "*pauses*"}, nil)
		w.clients[c.N].paused = now
		w.clients[c.N].pauses++
	case Wake:
		slept := now.Sub(w.clients[c.N].paused).Round(time.Millisecond)
		w.draw(verify.Event{Client: c.N, Does: fmt.Sprintf("*wakes after %s*", slept)}, nil)
		w.clients[c.N].paused = time.Time{}
	case Late:
		w.sendLate(r)
	case Drop, CutShort:
		w.lose(r)
	case Clock:
		w.stepClock(c)
	case Empty:
		w.restart(w.locks(c.N), 0)
	case Behind:
		w.restart(w.locks(0), c.N+1)
	case ServerClock:
		server := w.locks(c.N)
		w.drawServer(server, "*its clock steps ahead by %s*", 2*w.program.Lease)
		server.redis.FastForward(2 * w.program.Lease)
	case TimePass:
		w.draw(verify.Event{Client: nobody, Reply: verify.TimeGoesOn}, nil)
		waits := func() bool { return w.next(c.N) == nil && w.clients[c.N].alive() && w.due(2).After(time.Now()) }
		for more := w.wait(2); more && c.Preempt && waits(); {
			more = w.wait(2)
		}
		if c.Preempt {
			w.running = c.N
		}
		return
	default:
		w.execute(r, c.What)
	}
	w.settle()
}

// sendLate has a request be on its way until its client has given up.
func (w *world) sendLate(r *request) {
	w.draw(verify.Event{Reply: "*on its way for long*"}, r)
	w.mu.Lock()
	r.deaf, r.held = true, true
	w.mu.Unlock()
	w.late = append(w.late, r)
}

func (w *world) lose(r *request) {
	w.draw(verify.Event{Reply: "*is lost, the connection breaks*"}, r)
	r.cut()
}

func (w *world) stepClock(c Choice) {
	by, where := 2*w.program.Lease, "ahead"
	if c.At == 2 {
		by, where = -by, "back"
	}
	w.clients[c.N].clock += by
	w.draw(verify.Event{Client: c.N, Does: fmt.Sprintf("*its clock steps %s by %s*", where, by.Abs())}, nil)
}

func (w *world) execute(r *request, how Fault) {
	w.mu.Lock()
	r.deaf, r.answer = how != Deliver && how != Split, nil
	w.mu.Unlock()
	w.observe(r)
	w.uses = nil
	if how == Deliver {
		w.asks.heard(r)
	}
	then := map[Fault]string{
		Lose: "*executed, the reply is lost*", Die: "*executed, then the client dies*",
		Arrive: "*comes late, and is executed*", Split: "*only this part is executed so far*",
	}
	w.draw(verify.Event{Reply: then[how]}, r)
	switch how {
	case Lose:
		r.cut()
	case Die:
		w.kill(r.client)
	}
}

// askAgain has a server execute what a client asks again: it is no choice, and
// not in the diagram.
func (s *search) askAgain(w *world, r *request) {
	w.again++
	r.waiting = r.waiting[1:]
	r.answer = nil
	w.observe(r)
	w.asks.heard(r)
	if s.again != nil {
		s.again(w, r)
	}
	w.settle()
}

// kill ends a client: its connections break, and nobody hears what it is told from now on.
func (w *world) kill(i int) {
	w.mu.Lock()
	w.clients[i].died = true
	conns := w.clients[i].conns // it may open another when one breaks
	w.mu.Unlock()
	w.clients[i].cancel()
	for _, c := range conns {
		c.cut()
	}
}

// know notes a script. Every later schedule begins with those that the first one has sent.
func (w *world) know(script string) {
	if !slices.Contains(w.scripts, script) {
		w.scripts = append(w.scripts, script)
	}
}

// restart replaces a server of the locks by an empty one, or by a replica that lacks
// the last writes. Connections lead to the new one, because client libraries replace
// idle ones that have broken before they use them. Those with a WATCH or a
// subscription, which is gone, break.
func (w *world) restart(old *Server, lacks int) {
	fresh := newServer(w, embedded.Memory(w.scripts...), old.number)
	if lacks == 0 {
		w.drawServer(old, "*starts anew, empty*")
	} else {
		fresh.log = embedded.Lag(fresh.redis, old.log, lacks)
		w.drawServer(old, "*is replaced by a replica that lacks the last %d writes*", lacks)
	}
	fresh.Do("SCRIPT", "FLUSH") // a replica is told what scripts do, and not the scripts
	w.servers[old.number] = fresh
	w.late = slices.DeleteFunc(w.late, func(r *request) bool { return r.server == old })
	for _, c := range w.conns() {
		switch {
		case c.server != old:
		case len(c.watched) > 0 || c.subscribed:
			c.cut()
		default:
			was := c.peer
			fresh.serve(c)
			c.peer.Resp3 = was.Resp3
			if !c.queues {
				c.peer.Ctx = was.Ctx // the database that it has selected
			}
		}
	}
}
