package explore

import (
	"fmt"
	"regexp"
	"strings"
)

// learned is what schedules so far have shown of the clients. It lets later ones leave
// out choices that change nothing: a request that conflicts with none that another client
// has been seen to make is delivered at once. Which requests these are is fixed during a
// pass, which is run again if what was seen meanwhile shows it to be wrong.
type learned struct {
	scripts []string // that were sent whole in the first schedule
	// The keys of each request as it was executed, inside scripts and transactions too.
	uses  map[asked]keys
	alone map[asked]bool // what is delivered at once
}

// asked identifies a request in all schedules.
type asked struct {
	client int
	line   string // see request.String
}

// keys are those that a request uses: true if it writes.
type keys map[string]bool

// everything is the key of requests that conflict with all others, theTime that of
// those that read a clock or a TTL.
const everything, theTime = "*", "the time"

// of are the keys of a request that have been seen so far.
func (l *learned) of(r *request) keys {
	is := asked{r.client, r.String()}
	if l.uses[is] == nil {
		l.uses[is] = keys{}
	}
	return l.uses[is]
}

// add notes a key, unless k is nil: the request is not a client's.
func (k keys) add(key string, writes bool) {
	if k != nil {
		key = Anonymous(key)
		k[key] = k[key] || writes
	}
}

// sum finds out which requests are delivered at once from now on. It reports
// changed if they are not the same as before, and wrong if one was delivered at
// once that should not have been.
func (l *learned) sum() (wrong, changed bool) {
	before := l.alone
	l.alone = map[asked]bool{}
	for is, used := range l.uses {
		alone := true
		for other, theirs := range l.uses {
			alone = alone && (other.client == is.client || !used.conflict(theirs))
		}
		l.alone[is] = alone
		wrong, changed = wrong || before[is] && !alone, changed || before[is] != alone
	}
	return wrong, changed
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
// is random in it is replaced.
func (r *request) String() string {
	if r.line == "" {
		var b strings.Builder
		for _, command := range r.commands {
			for i, arg := range command {
				if i != 1 || !strings.HasPrefix(command[0], "evalsha") {
					arg = Anonymous(arg)
				}
				b.WriteString(arg + " ")
			}
		}
		r.line = r.server.named(b.String())
	}
	return r.line
}

var token = regexp.MustCompile(`[0-9A-Za-z+/=_-]{20,}`) // what looks like one

// Anonymous is a text with ~ in place of each token.
func Anonymous(text string) string {
	if len(text) < 20 {
		return text
	}
	return token.ReplaceAllLiteralString(text, "~")
}

// asks are what clients have asked since something changed. Clients that wait for a lock
// ask the same again and again. The first two times are choices. Later ones are not:
// nothing can come between that could not have come before.
type asks struct {
	replies map[asked]string
	points  map[string]bool // at which a client was about to ask again
}

// asksAgain reports whether a client is about to ask what it has asked before, at a point
// that has come before: with the same choices, requests and data at its server. Data may
// expire at another time: a renewal without end would else make new points without end.
// Faults strike only the first two renewals.
func (s *search) asksAgain(w *world, options []Choice) bool {
	r := w.next(options[0].N)
	if options[0].What != Deliver || r == nil || r.rest {
		return false
	}
	is := asked{r.client, r.String()}
	if _, before := w.asks.replies[is]; !before || s.uses[is][theTime] {
		return false
	}
	r.server.Do("TIME") // what has expired goes
	point := fmt.Sprint(options, w.pending()) + r.server.redis.Dump()
	if w.asks.points[point] {
		return true
	}
	w.asks.points[point] = true
	return false
}

// heard notes a reply. If it differs from the last one, what was asked before is forgotten.
func (a *asks) heard(r *request) {
	is, reply := asked{r.client, r.String()}, string(r.answer)
	before, known := a.replies[is]
	if known && before == reply {
		return
	}
	if known || a.replies == nil {
		a.replies = map[asked]string{}
	}
	a.replies[is], a.points = reply, map[string]bool{}
}
