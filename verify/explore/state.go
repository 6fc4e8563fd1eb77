package explore

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// state is the state of a schedule at a point, as a digest. Package search plays a schedule
// no further that has come to a state in which an earlier one has been at no higher cost.
//
// Why that is sound. What happens from a point on follows from three things: the choices to
// come, what the clients will do, and what the servers and the network will do. Choices are
// the search's own: of two schedules in one state, the one with the lower cost has all
// choices of the other. What a client will do follows from its history, since it has nothing
// else to go by: what it received and when, what its clock told it, what it drew. What a
// server will do follows from what it holds, until when, and from what its connections are in
// the middle of. All of that is in the state, with times exact to the nanosecond. Nothing is
// left out because it seldom matters: where something cannot be seen, the state has in its
// place all that has led to it. Such a state is too fine, and makes the search longer; one
// that is too coarse would make it wrong.
//
// Time does not stand in the way. It stands still while requests are delivered, and passes to
// the next timer when nobody can go on: so that many orders of the same requests end at the
// same instant, and with the same answers in the same state.
//
// What it takes for granted:
//
//   - Clients share nothing but the servers, and what Trial.State tells. A Program without
//     one is searched to the end of each schedule.
//   - Clients draw from crypto/rand and math/rand, which are seeded at each step. What is
//     drawn from math/rand/v2, or follows from the order of a map or of a client's own
//     goroutines, is not seen, unless it shows in a request.
//   - Miniredis is a function of the commands that it has executed, and when.
//   - A digest of 256 bits has no collisions.
//
// One state in a hundred is played on all the same, and compared with its twin: see package
// search.
//
// It must change nothing that a schedule goes by: the search does not ask for states on the way
// to a branch, nor in a replay.
func (e *explorer) state(w *world) string {
	if w.trial.State == nil || w.blurred {
		return ""
	}
	shared := w.trial.State()
	for _, s := range w.servers { // not locked: each reply locks the world
		s.Do("TIME") // what has expired goes
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	h := sha256.New()
	say := func(part, format string, args ...any) {
		if part != e.leftOut {
			fmt.Fprintf(h, part+" "+format+"\n", args...)
		}
	}
	say(partTime, "%d %d", w.since(time.Now()), w.since(w.last))
	say(partTurn, "%d %t", w.turn(), w.blocked)
	say(partShared, "%q %q", shared, w.addrs)

	for i, c := range w.clients {
		w.sayClient(say, i, c)
	}
	for _, r := range w.late {
		say(partConns, "late %d %q %q %d %t", r.client, r.name, r.commands, w.since(r.gaveUp), r.passed)
		r.watch.say(say) // of a connection that may have broken since
	}
	for _, s := range w.servers {
		s.say(say)
		e.sayLog(say, w, s)
	}
	w.polling.say(say)
	if e.bounds.Once {
		say(partStruck, "%q", w.struck())
	}
	return string(h.Sum(nil))
}

// The parts of a state. Without any one of them a test finds that states were taken for
// equal that are not.
const (
	partTime    = "time"    // since the schedule began, and until when clients are waited for
	partTurn    = "turn"    // who was chosen last
	partShared  = "shared"  // what clients share outside the servers
	partHistory = "history" // what a client has learned
	partLife    = "life"    // whether it has ended, died or paused, and what its clock says
	partSeen    = "seen"    // what Session.Seen will tell it
	partConns   = "conns"   // its connections, what waits on them, and what is late
	partWatch   = "watch"   // whether its EXEC will fail
	partData    = "data"    // what a server holds, for how long, and which scripts it knows
	partParked  = "parked"  // who waits in it
	partLog     = "log"     // what a replica would execute
	partPolls   = "polls"   // what was asked since something changed
	partStruck  = "struck"  // the kinds of faults that have happened
)

// turn is the client that was chosen last, if it and another one can go on: else it decides
// nothing, and is nobody.
func (w *world) turn() int {
	canGoOn := 0
	for i := range w.clients {
		if w.next(i) != nil {
			canGoOn++
		}
	}
	if canGoOn < 2 || w.running == nobody || w.next(w.running) == nil {
		return nobody
	}
	return w.running
}

// sayer writes a line of a part of a state.
type sayer = func(part, format string, args ...any)

// sayClient writes what is known of a client, and of its connections. What a connection has
// selected, subscribed to or queued follows from its client's history. Seen.Faults is left out:
// where a fault has left no trace, Trial.State says what a judge needs to know of it, as in
// package suite.
func (w *world) sayClient(say sayer, i int, c *client) {
	say(partHistory, "%d %x", i, c.history.digest)
	say(partLife, "%d %t %t %d %d", i, c.ended, c.died, w.since(c.paused), c.pauses)
	say(partLife, "clock %d %t", c.clock, c.readsClock)
	if o := c.observed; w.program.Observed {
		say(partSeen, "%d %d %d %d %d %t", o.Changes, w.since(o.Expires),
			o.Gap, w.since(o.Sent), w.since(o.Changed), o.Listened)
		for _, n := range slices.Sorted(maps.Keys(o.expires)) {
			say(partSeen, "%d %d", n, w.since(o.expires[n]))
		}
	}

	for _, conn := range c.conns {
		if conn.Broken() { // its history says so, and nothing comes over it any more but what is late
			continue
		}
		say(partConns, "%q %d %t %t %t %t", conn.name, conn.server.number,
			conn.deaf, conn.held, conn.subscribed, conn.queues)
		for _, r := range conn.waiting {
			say(partConns, "%q %t", r.commands, r.rest)
		}
		conn.watch.say(say)
	}
}

// struck are the kinds of faults that have happened.
func (w *world) struck() (kinds []string) {
	for _, c := range w.steps {
		if c.IsFault() {
			kinds = append(kinds, c.What)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// say writes what was asked since something changed.
func (p *polling) say(say sayer) {
	byID := func(a, b requestID) int {
		if a.client != b.client {
			return a.client - b.client
		}
		return strings.Compare(a.line, b.line)
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.replies), byID) {
		say(partPolls, "%d %q %q", id.client, id.line, p.replies[id])
	}
	for _, point := range slices.Sorted(maps.Keys(p.points)) {
		say(partPolls, "at %q", point)
	}
}

// say writes what a server holds, who waits in it, and which scripts it knows.
func (s *Server) say(say sayer) {
	say(partData, "%d scripts %t %q", s.number, s.forgot, slices.Sorted(maps.Keys(s.scripts)))
	say(partData, "%d %s", s.number, s.held())

	s.parking.Lock()
	defer s.parking.Unlock()
	for _, p := range s.parked {
		say(partParked, "%q %q %q %d", p.name, p.command, p.after, s.world.since(p.until))
	}
}

// sayLog writes what a replica that lags would execute, or how much, where a server may
// strike that has executed something. What cannot be read from a server is in its log.
func (e *explorer) sayLog(say sayer, w *world, s *Server) {
	strikes := func(kind Fault) bool { return s.number > 0 && e.mayStrike(w, kind) }
	if strikes(Empty) || strikes(Behind) || strikes(ServerClock) {
		say(partLog, "%d %d", s.number, min(len(s.log), 2)) // serverFaults needs 2 at most
	}
	for _, entry := range s.log {
		if s.opaque || strikes(Behind) && entry.changes {
			say(partLog, "%q %d %q %d",
				entry.from.name, entry.Database, entry.Commands, s.world.since(entry.At))
		}
	}
}

// held is all that the server holds. To have selected a database changes nothing.
func (s *Server) held() string {
	var all strings.Builder
	for _, n := range s.used() {
		if db := s.redis.DB(n); len(db.Keys()) > 0 {
			fmt.Fprintf(&all, "database %d\n", n)
			writeContents(&all, db)
		}
	}
	return all.String()
}

// writeContents writes what a database holds, and for how long from now.
func writeContents(b *strings.Builder, db *miniredis.RedisDB) {
	for _, key := range db.Keys() {
		fmt.Fprintf(b, "%q %d ", key, db.TTL(key))
		writeValue(b, db, key)
		b.WriteByte('\n')
	}
}

// writeValue writes what a key holds, in one order: miniredis sorts all but the members of a
// sorted set. Other kinds are left out: see opaque.
func writeValue(b *strings.Builder, db *miniredis.RedisDB, key string) {
	switch db.Type(key) {
	case "string":
		value, _ := db.Get(key) // it is there, and is a string
		fmt.Fprintf(b, "%q", value)

	case "hash":
		fields, _ := db.HKeys(key)
		for _, field := range fields {
			fmt.Fprintf(b, "%q %q %d ", field, db.HGet(key, field), db.HTTL(key, field))
		}

	case "list":
		values, _ := db.List(key)
		fmt.Fprintf(b, "%q", values)
	case "set":
		members, _ := db.Members(key)
		fmt.Fprintf(b, "%q", members)

	case "zset":
		scores, _ := db.SortedSet(key)
		for _, member := range slices.Sorted(maps.Keys(scores)) {
			fmt.Fprintf(b, "%q %s ", member, strconv.FormatFloat(scores[member], 'g', -1, 64))
		}

	case "stream":
		entries, _ := db.Stream(key)
		fmt.Fprintf(b, "%q", entries)
	}
}

// opaque are the commands after which a server has more than can be read from it: consumer
// groups and last IDs of streams, counts of distinct things, what it will draw next, how often
// a key has changed that has come from another database.
var opaque = []string{
	"XADD", "XGROUP", "XREADGROUP", "XACK", "XCLAIM", "XAUTOCLAIM", "XDEL", "XTRIM", "PFADD", "PFMERGE",
	"SPOP", "SRANDMEMBER", "RANDOMKEY", "HRANDFIELD", "ZRANDMEMBER", "MOVE", "SWAPDB", "COPY",
}
