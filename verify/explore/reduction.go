package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
)

// A reduction leaves out schedules that differ in nothing: two requests that use other
// keys, or only read, do the same in either order. A request that conflicts with none that
// another client has been seen to make is independent, and is delivered at once: whatever
// could come before it may come after it as well.
//
// What clients will send is not known beforehand, so that this proves something only in
// the end. Which requests are independent is fixed while a bound is searched, and the keys
// of all requests are noted. If some request turns out to conflict with one that was
// delivered at once, schedules are missing, and the bound is searched again. What is
// reported was searched with a choice of independent requests that nothing has disproved.
type reduction struct {
	// The keys of each request as it was executed, inside scripts and transactions too.
	uses        map[requestID]keys
	independent map[requestID]bool
}

// A requestID identifies a request in all schedules.
type requestID struct {
	client int
	line   string // see request.String
}

func (r *request) id() requestID { return requestID{r.client, r.String()} }

// keys are those that a request uses: true if it writes.
type keys map[string]bool

const (
	everything = "*"        // the key of requests that conflict with all others
	theTime    = "the time" // that of requests that read a clock or a TTL
)

// keysOf are the keys of a request that have been seen so far.
func (d *reduction) keysOf(r *request) keys {
	id := r.id()
	if d.uses[id] == nil {
		d.uses[id] = keys{}
	}
	return d.uses[id]
}

// add notes a key, unless k is nil: the request is not a client's.
func (k keys) add(key string, writes bool) {
	if k != nil {
		key = search.Anonymous(key)
		k[key] = k[key] || writes
	}
}

// relearn finds out which requests are independent by what has been seen. It reports
// changed if they are not the same as before, and wrong if one was delivered at
// once that should not have been.
func (d *reduction) relearn() (wrong, changed bool) {
	before := d.independent
	d.independent = map[requestID]bool{}
	for id := range d.uses {
		d.independent[id] = d.conflictsWithNone(id)
		wrong = wrong || before[id] && !d.independent[id]
		changed = changed || before[id] != d.independent[id]
	}
	return wrong, changed
}

func (d *reduction) conflictsWithNone(id requestID) bool {
	for other, theirs := range d.uses {
		if other.client != id.client && d.uses[id].conflict(theirs) {
			return false
		}
	}
	return true
}

// conflict reports whether one of two requests writes what the other uses.
func (k keys) conflict(other keys) bool {
	for mine, writes := range k {
		for theirs, wrote := range other {
			meet := mine == theirs || mine == everything || theirs == everything
			if meet && (writes || wrote) {
				return true
			}
		}
	}
	return false
}

// String is the request as one line, by which it is recognised in other schedules: what
// is random in it is replaced. In another database the same words are another request.
func (r *request) String() string {
	if r.line != "" {
		return r.line
	}

	var b strings.Builder
	if n := backend.Selected(r.peer); n != 0 {
		fmt.Fprintf(&b, "database %d: ", n)
	}
	for _, command := range r.commands {
		for i, arg := range command {
			// It tells which script is executed, and is the same in all schedules.
			isHash := i == 1 && strings.HasPrefix(command[0], "evalsha")
			if !isHash {
				arg = search.Anonymous(arg)
			}
			b.WriteString(arg + " ")
		}
	}
	r.line = r.server.named(b.String())
	return r.line
}

// polling is what clients have asked since something changed. Clients that wait for a lock
// ask the same again and again. The first two times are choices. Later ones are not:
// nothing can come between that could not have come before.
type polling struct {
	replies map[requestID]string
	points  map[string]bool // at which a client was about to ask again
}

// hear notes a reply. If it differs from the last one, what was asked before is forgotten.
func (p *polling) hear(r *request) {
	id := r.id()
	reply := string(r.answer)
	before, known := p.replies[id]
	if known && before == reply {
		return
	}

	if known || p.replies == nil {
		p.replies = map[requestID]string{}
	}
	p.replies[id] = reply
	p.points = map[string]bool{}
}

// isRepeat reports whether a client is about to ask what it has asked before, at a point
// that has come before: with the same choices, requests and data at its server. Data may
// expire at another time: a renewal without end would else make new points without end.
// Faults strike only the first two renewals.
func (e *explorer) isRepeat(w *world, options []search.Choice) bool {
	r := w.next(options[0].N)
	if options[0].What != search.Deliver || r == nil || r.rest || e.everyPoll {
		return false
	}
	id := r.id()
	// The reply to one that reads the time may differ though nothing has changed.
	if _, before := w.polling.replies[id]; !before || e.uses[id][theTime] {
		return false
	}

	// How many faults and preemptions are left is no part of the point.
	free := slices.DeleteFunc(slices.Clone(options), func(c search.Choice) bool {
		return c.Preempt || c.IsFault()
	})
	r.server.Do("TIME") // what has expired goes
	point := fmt.Sprint(free, w.pending()) + backend.Dump(r.server.redis, r.server.used())
	if w.polling.points[point] {
		return true
	}
	w.polling.points[point] = true
	return false
}

// repeat has a server execute what a client asks again: it is no choice, and
// not in the diagram.
func (e *explorer) repeat(w *world, r *request) {
	w.repeats++
	w.beginStep(ofClient, r.client, w.clients[r.client].learned(), false)
	r.waiting = r.waiting[1:]
	r.answer = nil
	w.observe(r)
	w.polling.hear(r)
	if e.onRepeat != nil {
		e.onRepeat(w, r)
	}
	w.settle()
	w.noteDraws()
}
