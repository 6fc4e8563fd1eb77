package explore

import (
	"context"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
)

// A Session is what a client works with in one schedule.
type Session struct {
	world  *world
	client int
}

// Resends is what the program says of marketsim's own client: whether it sends a command
// again whose reply did not come.
func (s *Session) Resends() bool { return s.world.program.Resends }

// ReplyTimeout is for how long marketsim's own client waits for a reply.
func (s *Session) ReplyTimeout() time.Duration { return s.world.program.Reply }

// Number is that of the client among those of the program, from 0.
func (s *Session) Number() int { return s.client }

// LockServers are the addresses of the servers that the locks have of their
// own: see Connect.
func (s *Session) LockServers() []string {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.learns(s.client, "knows %q", s.world.addrs)
	return slices.Clone(s.world.addrs)
}

// Connect is a dialer for any client library: to the server of the locks at an address of
// LockServers, or the market's. It needs no network.
func (s *Session) Connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.isOver() {
		select {} // or its tries would keep the bubble from ending
	}

	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	server := s.world.serverAt(addr)
	client := s.world.clients[s.client]
	refused := ctx.Err() != nil || client.died
	s.world.learns(s.client, "dials %q, refused: %t", addr, refused)
	if refused {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}

	c := server.accept(s.client)
	client.conns = append(client.conns, c)
	return c, nil
}

// isOver reports whether the schedule has ended although a client goes on.
func (s *Session) isOver() bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.over
}

// Now is the client's own clock, which a fault may set.
func (s *Session) Now() time.Time {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	c := s.world.clients[s.client]
	c.readsClock = true
	s.world.learns(s.client, "reads a clock that is %d ahead", c.clock)
	return time.Now().Add(c.clock)
}

// Pauses is how often the client has paused so far.
func (s *Session) Pauses() int {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	pauses := s.world.clients[s.client].pauses
	s.world.learns(s.client, "has paused %d times", pauses)
	return pauses
}

// Died reports whether the search has killed the client: nobody hears what its code
// learns from then on.
func (s *Session) Died() bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.clients[s.client].died
}

// Goroutines counts by their stacks those that the client has, and those that they have started.
// It stops the whole process for a moment: do not call it in each schedule.
func (s *Session) Goroutines() map[string]int {
	return s.world.goroutines(s.world.trial.Clients[s.client].Name)
}

// Seen is what the servers of the locks have seen of a client so far, in a
// program that is Observed.
type Seen struct {
	Changes int // of its requests, those that changed what is stored, or when it expires
	// When what it has written expires, on most servers; zero: it has written
	// nothing that does.
	Expires time.Time
	Faults  int       // how many have happened so far, to any client or server
	Calm    time.Time // since when no fault is under way; zero: one is

	// Since the last call of Waits:
	Gap      time.Duration // the longest time between two of its requests
	Sent     time.Time     // when its last request was executed, or that call itself
	Changed  time.Time     // when it first changed something; zero: it has not
	Listened bool          // it has subscribed, or has waited in a server
}

// Seen tells what has been seen of the client.
func (s *Session) Seen() Seen {
	s.world.seeing.Lock()
	defer s.world.seeing.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.seen(s.client)
}

// Waits is called when the client begins to wait: it resets Gap and what
// follows it in Seen.
func (s *Session) Waits() {
	s.world.seeing.Lock()
	defer s.world.seeing.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	o := &s.world.clients[s.client].observed
	o.Seen = Seen{Changes: o.Changes, Sent: time.Now()}
}

// An observation is what Seen is made of.
type observation struct {
	Seen                      // without what is not of this client alone
	expires map[int]time.Time // by server: when what it has written there expires
}

// Its contents are what a server holds in all databases, and when that expires.
type contents struct {
	data    string
	expires map[place]time.Time
}

// A place is where a value is.
type place struct {
	database int
	key      string
}

func (s *Server) contents() contents {
	now := time.Now()
	used := s.used()
	all := contents{data: backend.Dump(s.redis, used), expires: map[place]time.Time{}}
	for _, n := range used {
		db := s.redis.DB(n)
		for _, key := range db.Keys() {
			if ttl := db.TTL(key); ttl > 0 {
				all.expires[place{database: n, key: key}] = now.Add(ttl)
			}
		}
	}
	return all
}

// isMarketApart reports whether the server is the market's, and the locks have their own.
func (s *Server) isMarketApart() bool { return s.number == 0 && s.world.program.LockServers > 0 }

// observe has a request's server execute it, and notes what that does at a
// server of the locks.
func (w *world) observe(r *request) {
	if !w.program.Observed || r.client == nobody || r.idle || r.server.isMarketApart() {
		r.server.deliver(r)
		return
	}

	w.seeing.Lock() // or its client could have the reply, and look, before what it did is noted
	defer w.seeing.Unlock()
	before := r.server.contents()
	r.server.deliver(r)
	after := r.server.contents()

	w.mu.Lock() // only now: each reply locks it, see replier
	defer w.mu.Unlock()

	o := &w.clients[r.client].observed
	o.sent()
	waits := func(p *parked) bool { return p.request == r }
	o.Listened = o.Listened || r.subscribed || slices.ContainsFunc(r.server.parked, waits)
	expires, changed := before.changesTo(after)
	if changed {
		o.changed()
	}
	if !expires.IsZero() {
		o.expires[r.server.number] = expires
	}
}

// changesTo reports whether they differ from what is there afterwards, and when the last
// of the keys expires whose expiry does; zero: there is none.
func (c contents) changesTo(after contents) (expires time.Time, changed bool) {
	changed = c.data != after.data
	for where, at := range after.expires {
		// Of a key that is new c has the zero time, which is long ago.
		if at.Sub(c.expires[where]).Abs() <= time.Millisecond {
			continue
		}
		changed = true
		if at.After(expires) {
			expires = at
		}
	}
	return expires, changed
}

// sent notes that a request of the client was executed now.
func (o *observation) sent() {
	now := time.Now()
	o.Gap = max(o.Gap, now.Sub(o.Sent))
	o.Sent = now
}

// changed notes that a request has changed something now.
func (o *observation) changed() {
	o.Changes++
	if o.Changed.IsZero() {
		o.Changed = time.Now()
	}
}

// seen is what Session.Seen tells. A state has all that it goes by, but for the number of
// faults: see sayClient. The world is locked.
func (w *world) seen(i int) Seen {
	o := w.clients[i].observed
	seen := o.Seen
	seen.Faults = w.faults
	seen.Calm = w.last
	isPaused := func(c *client) bool { return !c.paused.IsZero() }
	if len(w.late) > 0 || slices.ContainsFunc(w.clients, isPaused) {
		seen.Calm = time.Time{}
	}

	// A majority of n servers has it until it expires on all but n/2 of them.
	lastFirst := func(a, b time.Time) int { return b.Compare(a) }
	times := slices.SortedFunc(maps.Values(o.expires), lastFirst)
	if most := w.program.LockServers / 2; most < len(times) {
		seen.Expires = times[most]
	}
	return seen
}
