package explore

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/verify"
)

// tick is how long a request or a fault takes, so that no two timers of different clients end at the same instant.
// patience is how long nothing may happen before a client is taken for one that never ends, and mostSteps how much
// may, and mostAgain how often clients may ask again. nobody is no client.
const tick, patience, mostSteps, mostAgain, nobody = time.Microsecond, time.Minute, 5000, 100_000, -1

// A world is one schedule, in a bubble of package synctest. One goroutine chooses and does, while all others wait.
type world struct {
	program    Program
	trial      *Trial
	scripts    []string // that were seen so far, in the first schedule too
	remembered *embedded.Scripts
	begin      time.Time
	servers    []*Server // the market's, and then those of the locks, if they have any
	addrs      []string  // of the latter
	clients    []*client
	late       []*request // delayed, in the order in which they were sent
	running    int        // the client that was chosen last; nobody: there was none
	last       time.Time  // when a fault happened, or ended

	steps               []choice // so far, with so many
	preemptions, faults int
	events              []noted // what has happened
	accepted            int     // connections
	asks                asks
	uses                keys   // of the request that is executed
	lacks               string // a command that the servers do not know

	seeing  sync.Mutex    // held while a request is executed and what it does is noted
	mu      sync.Mutex    // guards what goroutines of clients see, too
	after   []func()      // is called, the last first, when the schedule has ended
	arrived chan struct{} // holds one value when a request came, or a client ended
}

// A client is one of the program's in one schedule.
type client struct {
	conns       []*conn
	cancel      context.CancelFunc
	told        string
	ended, died bool
	paused      time.Time // since when; zero: it is not
	pauses      int       // so far
	readsClock  bool
	clock       time.Duration // that its clock is ahead; below 0: behind
	observed    observation
}

// alive reports whether a client has neither ended nor died.
func (c *client) alive() bool { return !c.ended && !c.died }

// newWorld makes servers of what was started, and starts the clients,
// one after the other. Each waits at its first request.
func newWorld(s *search) *world {
	w := &world{
		program:    s.Program,
		scripts:    slices.Clone(s.scripts),
		remembered: &s.remembered,
		addrs:      slices.Clone(s.addrs),
		begin:      time.Now(),
		running:    nobody,
		arrived:    make(chan struct{}, 1),
	}
	for n, redis := range s.redis {
		w.servers = append(w.servers, newServer(w, redis, n))
	}
	w.trial = w.program.Begin(w.servers[0])
	for i, c := range w.trial.Clients {
		ctx, cancel := context.WithCancel(context.Background())
		w.clients = append(w.clients, &client{cancel: cancel})
		go pprof.Do(ctx, pprof.Labels(belongs, w.label(c.Name)), func(ctx context.Context) {
			told := c.Do(ctx, &Session{world: w, client: i})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.clients[i].told, w.clients[i].ended = told, true
			wire.Signal(w.arrived)
		})
		w.settle()
	}
	w.last = time.Now()
	return w
}

// cleanup has f called when the schedule has ended.
func (w *world) cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = append(w.after, f)
}

// at is the server at an address: the market's, unless it is of one of the locks'. The world is locked.
func (w *world) at(addr string) *Server {
	n := 1 + slices.Index(w.addrs, addr)
	if n == 0 && w.program.Masters && addr != "" {
		w.addrs = append(w.addrs, addr)
		w.program.LockServers = len(w.addrs)
		n = len(w.servers)
		w.servers = append(w.servers, newServer(w, embedded.Memory(w.scripts...), n))
	}
	return w.servers[n]
}

// locks is a server of the locks, from 0: the market's, unless they have their own.
func (w *world) locks(n int) *Server { return w.servers[min(1+n, len(w.servers)-1)] }

// settle lets a tick pass, in which every client comes to a request of its own, a timer, or its end.
func (w *world) settle() { w.rest(func() { time.Sleep(tick) }) }

// rest waits for something, and then until every client waits. Only then the world looks at what is theirs.
func (w *world) rest(wait func()) {
	w.mu.Lock()
	//lint:ignore SA2001 what the world has looked at so far was before what they do now
	w.mu.Unlock()
	wait()
	synctest.Wait()
}

// nexts are the next requests of a client that the server may get, one of each of its connections: they have no order.
// What follows a late request on its connection waits behind it.
func (w *world) nexts(i int) (all []*request) {
	if c := w.clients[i]; c.paused.IsZero() && !c.died {
		for _, conn := range c.conns {
			if len(conn.waiting) > 0 && !conn.held {
				all = append(all, conn.waiting[0])
			}
		}
	}
	return all
}

// next is the first of them, over the connection that was opened first; nil: there is none.
func (w *world) next(i int) *request {
	if all := w.nexts(i); len(all) > 0 {
		return all[0]
	}
	return nil
}

// pending is what each client wants to send.
func (w *world) pending() []string {
	all := make([]string, len(w.clients))
	for i := range all {
		if r := w.next(i); r != nil {
			all[i] = r.String()
		}
	}
	return all
}

// delayed are the late requests of a client that has given up waiting for the reply, each on a connection of its own.
func (w *world) delayed(i int) (all []*request) {
	for _, r := range w.late {
		if r.client == i && !r.gaveUp.IsZero() {
			all = append(all, r)
		}
	}
	return all
}

// ages notes who has given up waiting for a late request, and loses those that are too old to come.
func (w *world) ages() {
	now := time.Now()
	for _, s := range w.servers {
		s.expire()
	}
	w.late = slices.DeleteFunc(w.late, func(r *request) bool {
		if r.gaveUp.IsZero() && r.Broken() {
			r.gaveUp = now
		}
		lost := !r.gaveUp.IsZero() && !now.Before(w.lostAt(r))
		if lost {
			w.draw(verify.Event{Client: r.client, Does: "*" + w.short(r.commands[0]) + "... is lost*"}, nil)
		}
		return lost
	})
}

// lostAt is when a late request is lost whose client has given up.
func (w *world) lostAt(r *request) time.Time {
	return r.gaveUp.Add(2 * max(w.program.Lease, w.program.Reply))
}

// wait lets time go on until a client sends something or ends, or until one has been paused for so many leases. It
// reports false where nothing has happened for so long that nothing will.
func (w *world) wait(leases time.Duration) bool {
	forGood := w.last.Add(patience)
	until := forGood
	for _, c := range w.clients {
		if wakes := c.paused.Add(leases * w.program.Lease); !c.paused.IsZero() && wakes.Before(until) {
			until = wakes
		}
	}
	for _, r := range w.late {
		if lost := w.lostAt(r); !r.gaveUp.IsZero() && lost.Before(until) {
			until = lost
		}
	}
	for _, s := range w.servers {
		for _, p := range s.parked {
			if !p.until.IsZero() && p.until.Before(until) {
				until = p.until
			}
		}
	}
	select {
	case <-w.arrived: // which has been looked at already
	default:
	}
	w.rest(func() {
		select {
		case <-w.arrived:
		case <-time.After(time.Until(until)):
		}
	})
	return time.Now().Before(forGood)
}

// request is what a choice delivers; nil: nothing.
func (w *world) request(c choice) *request {
	switch c.what {
	case deliver:
		return w.nexts(c.n)[c.at]
	case Die, Lose, Late, Drop, Split, cutShort:
		return w.next(c.n)
	case arrive:
		return w.delayed(c.n)[c.at]
	}
	return nil
}

// do makes a choice happen, whose request is taken from where it waits.
func (w *world) do(c choice, r *request) {
	w.steps = append(w.steps, c)
	if c.preempt {
		w.preemptions++
	}
	if c.isFault() {
		w.faults++
	}
	now := time.Now()
	if !c.aside && !slices.Contains([]Fault{Empty, Behind, Clock, ServerClock, timePass, arrive}, c.what) {
		w.running = c.n
	}
	if c.isFault() || c.what == wake || c.what == arrive {
		w.last = now
	}
	if c.what != deliver {
		w.asks.changed()
	}
	if c.what == arrive {
		r.held = false
		w.late = slices.DeleteFunc(w.late, func(late *request) bool { return late == r })
	} else if r != nil {
		r.waiting = r.waiting[1:]
	}
	switch c.what {
	case Pause:
		w.draw(verify.Event{Client: c.n, Does: "*pauses*"}, nil)
		w.clients[c.n].paused = now
		w.clients[c.n].pauses++
	case wake:
		slept := now.Sub(w.clients[c.n].paused).Round(time.Millisecond)
		w.draw(verify.Event{Client: c.n, Does: fmt.Sprintf("*wakes after %s*", slept)}, nil)
		w.clients[c.n].paused = time.Time{}
	case Late:
		w.sendLate(r)
	case Drop, cutShort:
		w.lose(r)
	case Clock:
		w.stepClock(c)
	case Empty:
		w.restart(w.locks(c.n), 0)
	case Behind:
		w.restart(w.locks(0), c.n+1)
	case ServerClock:
		server := w.locks(c.n)
		w.drawServer(server, "*its clock steps ahead by %s*", 2*w.program.Lease)
		server.redis.FastForward(2 * w.program.Lease)
	case timePass:
		w.draw(verify.Event{Client: nobody, Reply: verify.TimeGoesOn}, nil)
		for again := w.wait(2); again && c.preempt && w.next(c.n) == nil && w.clients[c.n].alive(); {
			again = w.wait(2)
		}
		if c.preempt {
			w.running = c.n
		}
		return
	default:
		w.execute(r, c.what)
	}
	w.settle()
}

// struck are the faults that have happened so far.
func (w *world) struck() (faults []Fault) {
	for _, c := range w.steps {
		if c.isFault() {
			faults = append(faults, c.what)
		}
	}
	return faults
}

// sendLate has a request be on its way until its client has given up.
func (w *world) sendLate(r *request) {
	w.draw(verify.Event{Reply: "*on its way for long*"}, r)
	w.mu.Lock()
	r.deaf, r.held = true, true
	w.mu.Unlock()
	w.late = append(w.late, r)
}

// lose loses a request that is not executed, with its connection.
func (w *world) lose(r *request) {
	w.draw(verify.Event{Reply: "*is lost, the connection breaks*"}, r)
	r.cut()
}

// stepClock has a client's clock step, ahead or back.
func (w *world) stepClock(c choice) {
	by, does := 2*w.program.Lease, "*its clock steps ahead by %s*"
	if c.at == 2 {
		does = "*its clock steps back by %s*"
		w.clients[c.n].clock -= by
	} else {
		w.clients[c.n].clock += by
	}
	w.draw(verify.Event{Client: c.n, Does: fmt.Sprintf(does, by)}, nil)
}

// execute has the server execute a request.
func (w *world) execute(r *request, how Fault) {
	w.mu.Lock()
	r.deaf, r.answer = how != deliver && how != Split, nil
	w.mu.Unlock()
	w.observe(r, func() { r.server.execute(r) })
	w.uses = nil
	if how == deliver {
		w.asks.heard(r)
	}
	then := map[Fault]string{
		Lose:   "*executed, the reply is lost*",
		Die:    "*executed, then the client dies*",
		arrive: "*comes late, and is executed*",
		Split:  "*only this part is executed so far*",
	}
	w.draw(verify.Event{Reply: then[how]}, r)
	switch how {
	case Lose:
		r.cut()
	case Die:
		w.kill(r.client)
	}
}

// askAgain has a server execute what a client asks again, which nobody chooses, and which few want to see.
func (w *world) askAgain(r *request, drawn bool) {
	w.asks.again++
	r.waiting = r.waiting[1:]
	r.answer = nil
	w.observe(r, func() { r.server.execute(r) })
	w.asks.heard(r)
	if drawn {
		w.draw(verify.Event{}, r)
	}
	w.settle()
}

// kill ends a client: its connections break, and what it is told from now on nobody hears.
func (w *world) kill(i int) {
	w.mu.Lock()
	w.clients[i].died = true
	conns := w.clients[i].conns // it may make another where one breaks
	w.mu.Unlock()
	w.clients[i].cancel()
	for _, c := range conns {
		c.cut()
	}
}

// know notes a script. Those that the first schedule sends every later one begins with.
func (w *world) know(script string) {
	if !slices.Contains(w.scripts, script) {
		w.scripts = append(w.scripts, script)
	}
}

// restart replaces a server of the locks by an empty one, or by a replica that lacks the last writes. What a client has
// not sent yet goes to the new one, because clients look whether an idle connection is still open; one of which the
// server knew something, a WATCH or a subscription, breaks.
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
	var conns []*conn
	w.mu.Lock()
	for _, c := range w.clients {
		conns = append(conns, c.conns...)
	}
	w.mu.Unlock()
	for _, c := range conns {
		switch {
		case c.server != old:
		case len(c.watched) > 0 || c.subscribed:
			c.cut()
		default:
			resp3 := c.peer.Resp3
			fresh.serve(c)
			c.peer.Resp3 = resp3
			if c.selects != nil {
				w.mu.Lock()
				wasDeaf := c.deaf
				c.deaf = true // the client has not asked
				w.mu.Unlock()
				w.remembered.Dispatch(fresh.redis.Server(), c.peer, c.selects, false)
				c.peer.Flush()
				c.deaf = wasDeaf
			}
		}
	}
}

// finish ends the clients that are left, the dead ones too:
// no goroutine may stay in the bubble. Then it has the end judged.
func (w *world) finish() (found []verify.Violation) {
	for i, c := range w.clients {
		if c.alive() {
			text := w.trial.Clients[i].Name + " does not end within " + patience.String()
			found = append(found, verify.Violation{Harm: verify.DoesNotEnd, Text: text})
		}
	}
	for i, c := range w.clients {
		w.kill(i)
		for w.settle(); !c.ended; {
			w.rest(func() { <-w.arrived })
		}
	}
	found = append(found, w.trial.Judge(w.servers[0])...)
	for _, f := range slices.Backward(w.after) {
		f()
	}
	time.Sleep(3 * time.Second) // in which go-redis sees that a client was closed to which it redials
	return found
}
