package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// A kind is what choices of one kind have in common.
type kind struct {
	turn     bool   // its client is then the one that was chosen last
	change   bool   // a fault happens or ends
	executes bool   // a server executes the client's request,
	shows    string // and the diagram says so
	// What happens where no request is executed.
	happen func(w *world, c search.Choice, r *request)
}

// kinds are by Choice.What: a word for a fault, a letter for a choice that is none.
var kinds = map[Fault]kind{
	search.Deliver:  {turn: true, executes: true},
	search.Wake:     {turn: true, change: true, happen: (*world).wake},
	search.Arrive:   {change: true, executes: true, shows: "*comes late, and is executed*"},
	search.TimePass: {happen: (*world).letTimePass},
	search.CutShort: {turn: true, happen: (*world).lose},
	search.Later:    {change: true, happen: (*world).beginLater},

	Pause: {turn: true, change: true, happen: (*world).pause},
	Die:   {turn: true, change: true, executes: true, shows: "*executed, then the client dies*"},
	Lose:  {turn: true, change: true, executes: true, shows: "*executed, the reply is lost*"},
	Late:  {turn: true, change: true, happen: (*world).sendLate},
	Drop:  {turn: true, change: true, happen: (*world).lose},
	Split: {turn: true, change: true, executes: true, shows: "*only this part is executed so far*"},

	Clock:       {change: true, happen: (*world).stepClock},
	Empty:       {change: true, happen: (*world).empty},
	Behind:      {change: true, happen: (*world).fallBehind},
	ServerClock: {change: true, happen: (*world).stepServerClock},

	Cancel:    {turn: true, change: true, happen: (*world).cancelCalls},
	IdleBreak: {change: true, happen: (*world).breakIdle},
}

// request is what a choice delivers; nil: nothing.
func (w *world) request(c search.Choice) *request {
	switch Fault(c.What) {
	case search.Deliver, search.CutShort, Die, Lose, Late, Drop:
		return w.nexts(c.N)[c.At]
	case Split:
		return w.nexts(c.N)[c.At/splitConn]
	case search.Arrive:
		return w.delayed(c.N)[c.At]
	}
	return nil
}

// do makes a choice happen. It removes the choice's request from where it waits: r is what take
// made of it; nil: it delivers none. What is noted here comes before anything happens: clients see
// faults and last by Session.Seen, and settle asks for running. All clients wait, so that what
// waits is changed without w.mu.
func (w *world) do(c search.Choice, r *request) {
	kind := kinds[Fault(c.What)]
	w.note(c)
	w.begins(c, kind)

	if kind.turn && !c.Aside {
		w.running = c.N
	}
	switch {
	// A late request that comes to nothing: that fault had ended when its client gave up.
	case r != nil && r.idle:
		w.last = latest(w.last, r.gaveUp)
	case kind.change: // a fault happens or ends now
		w.last = time.Now()
	}
	if c.What != search.Deliver && !c.IsQuiet() {
		w.polling = polling{} // what was asked before may now have another answer
	}

	// A request that is not late is the first that waits on its connection: see nexts and head.
	switch {
	case c.What == search.Arrive:
		r.held = false
		w.late = slices.DeleteFunc(w.late, func(late *request) bool {
			return late == r
		})
	case r != nil:
		r.waiting = r.waiting[1:]
	}

	if kind.executes {
		w.execute(r, Fault(c.What))
	} else {
		kind.happen(w, c, r)
	}
	if c.What != search.TimePass { // which ends when all wait
		w.settle()
		w.noteDraws()
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// begins has what is drawn in the step that a choice makes follow from it.
func (w *world) begins(c search.Choice, k kind) {
	of := ofServer
	count := int(time.Since(w.begin))
	if k.turn || c.What == search.Arrive {
		of = ofClient
		count = w.clients[c.N].learned()
	}
	w.beginStep(of, c.N, count, c.What != search.Deliver)
}

// note adds a choice to the steps, and counts it.
func (w *world) note(c search.Choice) {
	w.steps = append(w.steps, c)
	if c.Preempt {
		w.preemptions++
	}
	if c.IsFault() {
		w.faults++
	}
}

// execute has its server execute a request. Unless it is delivered, whole or in part, the client
// hears nothing over its connection from then on: deaf is set before the reply is written.
func (w *world) execute(r *request, how Fault) {
	w.mu.Lock()
	r.deaf = how != search.Deliver && how != Split
	r.answer = nil
	w.mu.Unlock()

	r.server.executeLogged(r)
	w.uses = nil // what the search itself asks later is not this request's
	if how == search.Deliver {
		w.polling.hear(r)
	}
	w.draw(verify.Event{Reply: kinds[how].shows}, r)

	switch how {
	case Lose:
		r.cut()
	case Die:
		w.kill(r.client)
	}
}

// kill ends a client: its connections break, and nobody hears its answer from now on.
func (w *world) kill(i int) {
	w.mu.Lock()
	w.clients[i].died = true
	w.learns(i, "dies")
	conns := w.clients[i].conns // it may open another when one breaks
	w.mu.Unlock()

	w.clients[i].cancel()
	for _, c := range conns {
		c.cut()
	}
}

func (w *world) pause(c search.Choice, _ *request) {
	w.draw(verify.Event{Client: c.N, Does: "*pauses*"}, nil)
	w.clients[c.N].paused = time.Now()
	w.clients[c.N].pauses++
}

// beginLater has a client begin as if it had been paused since its start.
func (w *world) beginLater(c search.Choice, _ *request) {
	w.clients[c.N].later = true
	w.clients[c.N].paused = time.Now()
}

func (w *world) wake(c search.Choice, _ *request) {
	woken := w.clients[c.N]
	does := "*wakes after %s*"
	if woken.later {
		does = "*begins only now, after %s*"
	}
	slept := time.Since(woken.paused).Round(time.Millisecond)
	w.draw(verify.Event{Client: c.N, Does: fmt.Sprintf(does, slept)}, nil)

	woken.paused = time.Time{}
	woken.later = false
}

// letTimePass waits until a client sends something or, where all others wait for one, until
// that one does.
func (w *world) letTimePass(c search.Choice, _ *request) {
	if c.IsQuiet() { // as in goThrough, where there is no choice
		w.wait(1)
		return
	}

	w.draw(verify.Event{Client: nobody, Reply: verify.TimeGoesOn}, nil)
	more := w.wait(2) // with 1 no time would pass while a client could wake
	if !c.Preempt {
		return
	}

	waits := func() bool {
		return w.next(c.N) == nil && w.clients[c.N].alive() && w.due(2).After(time.Now())
	}
	for more && waits() {
		more = w.wait(2)
	}
	w.running = c.N
}

// sendLate has a request be on its way until its client has given up.
func (w *world) sendLate(_ search.Choice, r *request) {
	w.draw(verify.Event{Reply: "*on its way for long*"}, r)
	w.mu.Lock()
	r.deaf = true
	r.held = true
	w.mu.Unlock()
	w.late = append(w.late, r)
}

func (w *world) lose(_ search.Choice, r *request) {
	w.draw(verify.Event{Reply: "*is lost, the connection breaks*"}, r)
	r.cut()
}

func (w *world) breakIdle(c search.Choice, _ *request) {
	conn := w.clients[c.N].conns[c.At]
	what := "*an idle connection breaks*"
	if conn.subscribed {
		what = "*the connection breaks over which it listens*"
	}
	w.draw(verify.Event{Client: c.N, Does: what}, nil)
	conn.cut()
}

// Which way the clock of a client steps, in Choice.At.
const (
	ahead = 1
	back  = 2
)

func (w *world) stepClock(c search.Choice, _ *request) {
	by := 2 * w.program.Lease
	where := "ahead"
	if c.At == back {
		by = -by
		where = "back"
	}
	w.clients[c.N].clock += by
	does := fmt.Sprintf("*its clock steps %s by %s*", where, by.Abs())
	w.draw(verify.Event{Client: c.N, Does: does}, nil)
}

func (w *world) stepServerClock(c search.Choice, _ *request) {
	server := w.lockServer(c.N)
	w.drawServer(server, "*its clock steps ahead by %s*", 2*w.program.Lease)
	server.redis.FastForward(2 * w.program.Lease)
}

func (w *world) empty(c search.Choice, _ *request) { w.restart(w.lockServer(c.N), 0) }

func (w *world) fallBehind(c search.Choice, _ *request) { w.restart(w.lockServer(0), c.N+1) }

// restart replaces a server of the locks by an empty one, or by a replica that lacks
// the last writes. Connections lead to the new one, because client libraries replace
// idle ones that have broken before they use them. Those with a WATCH or a
// subscription, which is gone, break.
func (w *world) restart(old *Server, lacks int) {
	fresh := newServer(w, backend.Memory(w.scripts...), old.number)
	if lacks == 0 {
		w.drawServer(old, "*starts anew, empty*")
	} else {
		fresh.log = old.lag(fresh.redis, lacks)
		w.drawServer(old, "*is replaced by a replica that lacks the last %d writes*", lacks)
	}

	// A replica is told what scripts do, and not the scripts. They go only after lag, which
	// executes EVALSHA.
	fresh.Do("SCRIPT", "FLUSH")
	fresh.forgot = true
	fresh.scripts = map[string]bool{}
	fresh.databases = old.databases
	fresh.opaque = old.opaque
	w.servers[old.number] = fresh
	w.late = slices.DeleteFunc(w.late, func(r *request) bool {
		return r.server == old
	})

	for _, c := range w.conns() {
		switch {
		case c.server != old:
		case len(c.watch.keys) > 0 || c.subscribed:
			c.cut()
		default:
			fresh.adopt(c)
		}
	}
}

// adopt serves a connection of a server that this one replaces. What was queued is lost,
// and not which database the connection has selected.
func (s *Server) adopt(c *conn) {
	was := c.peer
	s.serve(c)
	c.peer.Resp3 = was.Resp3

	if n := backend.Selected(was); !c.queues {
		c.peer.Ctx = was.Ctx
	} else if n != 0 {
		backend.Select(s.redis, c.peer, n)
	}
}

// lag makes a server a replica that lacks the last writes, and returns its log.
func (s *Server) lag(replica *miniredis.Miniredis, lacks int) []executed {
	var all []backend.Executed
	for _, entry := range s.log {
		all = append(all, entry.Executed)
	}
	left := backend.Lag(replica, s.used(), all, lacks)
	return slices.Clone(s.log[:len(left)])
}

// knowScript notes a script. Every later schedule begins with those that the first one has sent.
func (s *Server) knowScript(script string) {
	s.scripts[script] = true
	w := s.world
	if !slices.Contains(w.scripts, script) {
		w.scripts = append(w.scripts, script)
	}
}
