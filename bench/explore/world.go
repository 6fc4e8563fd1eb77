package explore

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	// tick is how long the server takes for a request, and a fault to happen, so that no two timers of different clients end
	// at the same instant.
	tick = time.Microsecond

	// patience is how long nothing may happen before a client is taken for one that never ends, and mostSteps how much may.
	patience, mostSteps = time.Minute, 5000
)

// A world is one schedule: servers, clients, and what has happened. It lives in a bubble of package synctest. One goroutine
// chooses and does, while all others wait.
type world struct {
	program Program
	trial   *Trial
	scripts []string // that were seen so far, in earlier schedules too
	begin   time.Time
	servers []*Server // the last one holds the locks
	clients []*client
	late    []*request // delayed, in the order in which they were sent
	running int        // the client that was chosen last; nobody: there was none
	last    time.Time  // when a fault happened, or ended

	steps               []choice // so far, with so many
	preemptions, faults int

	mu      sync.Mutex    // guards what goroutines of clients see, too
	arrived chan struct{} // holds one value when a request came, or a client ended

	events []event
	drawn  *conn // whose request is executed
	answer []byte
}

// A client is one of the program's in one schedule.
type client struct {
	conns  []*conn
	cancel context.CancelFunc
	told   string
	ended  bool
	died   bool
	paused time.Time // since when; zero: it is not
	pauses int       // so far
}

// newWorld makes the servers and starts the clients, one after the other. Each waits at its first request.
func newWorld(t *testing.T, p Program, scripts []string) *world {
	w := &world{program: p, scripts: slices.Clone(scripts), begin: time.Now(), arrived: make(chan struct{}, 1), running: nobody}
	if w.servers = []*Server{newServer(t, w)}; p.Apart {
		w.servers = append(w.servers, newServer(t, w))
	}
	w.trial = p.Begin(w.servers[0])
	for _, s := range w.servers {
		for _, script := range scripts {
			s.Do("SCRIPT", "LOAD", script)
		}
	}
	for i, c := range w.trial.Clients {
		ctx, cancel := context.WithCancel(context.Background())
		w.clients = append(w.clients, &client{cancel: cancel})
		go func() {
			told := c.Do(ctx, &Session{T: t, world: w, client: i})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.clients[i].told, w.clients[i].ended = told, true
			signal(w.arrived)
		}()
		w.settle()
	}
	w.last = time.Now()
	return w
}

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

// next is the next request of a client that the server may get; nil: there is none.
func (w *world) next(i int) *request {
	if c := w.clients[i]; c.paused.IsZero() && !c.died {
		for _, conn := range c.conns {
			if len(conn.waiting) > 0 {
				return conn.waiting[0]
			}
		}
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

// delayed is the first late request of a client, if it has given up waiting for the reply; nil: there is none.
func (w *world) delayed(i int) *request {
	for _, r := range w.late {
		if r.client == i && r.broken {
			return r
		}
	}
	return nil
}

// finished reports whether every client has ended or died, and no request is on its way.
func (w *world) finished() bool {
	return len(w.late) == 0 && !slices.ContainsFunc(w.clients, func(c *client) bool { return !c.ended && !c.died })
}

// sleepUntil is when the first of the paused clients has been so for a number of leases; zero: none is paused.
func (w *world) sleepUntil(leases time.Duration) (first time.Time) {
	for _, c := range w.clients {
		if until := c.paused.Add(leases * Lease); !c.paused.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// wait lets time go on until a client sends something or ends, or until a time; zero: there is none. It reports false where
// nothing has happened for so long that nothing will.
func (w *world) wait(until time.Time) bool {
	forGood := w.last.Add(patience)
	if until.IsZero() || until.After(forGood) {
		until = forGood
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	w.rest(func() {
		select {
		case <-w.arrived:
		case <-timer.C:
		}
	})
	return time.Now().Before(forGood)
}

// request is what a choice delivers; nil: nothing.
func (w *world) request(c choice) *request {
	switch c.what {
	case deliver, Die, Lose, Delay:
		return w.next(c.n)
	case arrive:
		return w.delayed(c.n)
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
	if !c.aside && !slices.Contains([]Fault{Empty, Behind, timePass, arrive}, c.what) {
		w.running = c.n
	}
	if c.isFault() || c.what == wake || c.what == arrive {
		w.last = now
	}
	if c.what == arrive {
		w.late = slices.DeleteFunc(w.late, func(late *request) bool { return late == r })
	} else if r != nil {
		r.waiting = r.waiting[1:]
	}
	switch c.what {
	case Pause:
		w.draw(c.n, "*pauses*", "")
		w.clients[c.n].paused = now
		w.clients[c.n].pauses++
	case wake:
		w.draw(c.n, "*wakes after "+now.Sub(w.clients[c.n].paused).Round(time.Millisecond).String()+"*", "")
		w.clients[c.n].paused = time.Time{}
	case Delay:
		w.drawRequest(r, "*on its way for long*")
		r.deaf = true
		w.late = append(w.late, r)
	case Empty, Behind:
		w.restart(c)
	case timePass:
		w.draw(nobody, "", "*time goes on*")
		w.wait(w.sleepUntil(2))
		return
	default:
		w.execute(r, c.what)
	}
	w.settle()
}

// execute has the server execute a request.
func (w *world) execute(r *request, how Fault) {
	w.answer, w.drawn = w.answer[:0], r.conn
	r.deaf = how != deliver
	r.server.execute(r)
	w.mu.Lock()
	w.drawn = nil
	w.mu.Unlock()
	switch how {
	case Lose:
		w.drawRequest(r, "*executed, the reply is lost*")
		r.cut()
	case Die:
		w.drawRequest(r, "*executed, then the client dies*")
		w.kill(r.client)
	case arrive:
		w.drawRequest(r, "*comes late, and is executed*")
	default:
		w.drawRequest(r, "")
	}
}

// kill ends a client: its connections break, and what it is told from now on nobody hears.
func (w *world) kill(i int) {
	w.mu.Lock()
	w.clients[i].died = true
	w.mu.Unlock()
	w.clients[i].cancel()
	w.cut(func(c *conn) bool { return c.client == i })
}

// cut breaks the connections that are meant.
func (w *world) cut(meant func(*conn) bool) {
	for _, client := range w.clients {
		w.mu.Lock()
		conns := client.conns // it may make another where one breaks
		w.mu.Unlock()
		for _, c := range conns {
			if meant(c) {
				c.cut()
			}
		}
	}
}

// restart replaces the server of the locks by one that is empty, or lacks the last writes. What a client has not sent yet goes
// to the new one, because clients look whether an idle connection is still open; where the server knew something of a
// connection, a WATCH or a subscription, it breaks.
func (w *world) restart(c choice) {
	last := len(w.servers) - 1
	old, fresh := w.servers[last], newServer(w.servers[last].T, w)
	what := "*starts anew, empty*"
	if c.what == Behind {
		fresh.catchUp(old.log, c.n+1, w.scripts)
		what = fmt.Sprintf("*is replaced by a replica that lacks the last %d writes*", c.n+1)
	}
	w.draw(nobody, "", what)
	w.servers[last] = fresh
	w.late = slices.DeleteFunc(w.late, func(r *request) bool { return r.server == old })
	w.cut(func(c *conn) bool {
		if c.server == old && len(c.watched) == 0 && !c.subscribed {
			resp3 := c.peer.Resp3
			fresh.serve(c)
			c.peer.Resp3 = resp3
		}
		return c.server == old
	})
	old.redis.Close()
}

// finish ends the clients that are left and has the end judged. Dead clients have to end, too: no goroutine may stay in the
// bubble.
func (w *world) finish() (harms []Harm) {
	for i, c := range w.clients {
		if !c.ended && !c.died {
			harms = append(harms, Harm{"does not end", fmt.Sprintf("%s does not end: nothing has happened for %s",
				w.trial.Clients[i].Name, patience)})
		}
		w.clients[i].paused = time.Time{}
	}
	for i, c := range w.clients {
		w.kill(i)
		for w.settle(); !c.ended; {
			w.rest(func() { <-w.arrived })
		}
	}
	harms = append(harms, w.trial.Judge(w.servers[0])...)
	time.Sleep(3 * time.Second) // in which go-redis sees that a client was closed to which it redials
	for _, s := range w.servers {
		s.redis.Close()
	}
	return harms
}

// A Session is what a client works with in one schedule.
type Session struct {
	T      *testing.T // its cleanups run when the schedule has ended
	world  *world
	client int
}

// Dial opens one more connection of the client to the server, on which every request waits until the search lets it come.
func (s *Session) Dial(ctx context.Context) (*backend.Conn, error) {
	return backend.DialOver(ctx, func(ctx context.Context) (net.Conn, error) { return s.connect(ctx, 0) })
}

// ConnectLocks is a connection as Dial opens, for any client library, to the server of the locks: the same one, unless the
// program has one of their own.
func (s *Session) ConnectLocks(ctx context.Context) (net.Conn, error) {
	return s.connect(ctx, len(s.world.servers)-1)
}

func (s *Session) connect(ctx context.Context, server int) (net.Conn, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	client := s.world.clients[s.client]
	if ctx.Err() != nil || client.died {
		return nil, errCut
	}
	c := s.world.servers[server].accept(s.client)
	client.conns = append(client.conns, c)
	return c, nil
}

// Pauses is how often the client has paused so far.
func (s *Session) Pauses() int { return s.now().pauses }

// Died reports whether the search has killed the client: what its code is told from then on was told to nobody.
func (s *Session) Died() bool { return s.now().died }

func (s *Session) now() client {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return *s.world.clients[s.client]
}
