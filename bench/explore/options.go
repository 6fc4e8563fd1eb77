package explore

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// options are the choices at this point; none: the clients have to be waited for. The first is to go on with the client that
// was chosen last, if that is possible.
func (s *search) options(w *world) (options []choice) {
	faults := s.Faults - w.faults // that are left
	asleep := w.sleepUntil(2)
	if !asleep.IsZero() && !time.Now().Before(asleep) { // nobody sleeps for longer
		return w.wakes(2)
	}
	n, first := len(w.clients), max(0, w.running)
	goesOn := w.running != nobody && w.next(w.running) != nil
	for i := range n {
		i = (first + i) % n
		r := w.next(i)
		if r == nil {
			continue
		}
		if s.learned.alone[asked{i, r.String()}] && !s.Bounds.Unreduced {
			return s.with(nil, choice{what: deliver, n: i, aside: true}, faults)
		}
		if preempts := goesOn && i != w.running; !preempts || s.Preemptions > w.preemptions {
			options = s.with(options, choice{what: deliver, n: i, preempt: preempts}, faults)
		}
	}
	waits, works := len(options) > 0, false
	options = append(options, w.wakes(1)...)
	for i, c := range w.clients {
		works = works || !c.ended && !c.died && c.paused.IsZero()
		if w.delayed(i) != nil {
			options = append(options, choice{what: arrive, n: i})
		}
	}
	if works && !waits && len(options) > 0 && !asleep.IsZero() {
		options = append(options, choice{what: timePass})
	}
	if written := len(w.servers[0].Locks().log); faults > 0 && waits {
		for _, c := range []choice{{what: Empty}, {what: Behind}, {what: Behind, n: 1}} {
			if c.n < written && slices.Contains(s.Bounds.Of, c.what) {
				options = append(options, c)
			}
		}
	}
	return options
}

// with appends a choice, and what else can happen to the request that it delivers. A client does not pause where that would
// take a preemption: it could have paused before, without. Nor before a request that is delivered at once.
func (s *search) with(options []choice, c choice, faults int) []choice {
	options = append(options, c)
	for _, c.what = range []Fault{Pause, Die, Lose, Delay} {
		useless := c.what == Pause && (c.preempt || c.aside)
		if faults > 0 && !useless && slices.Contains(s.Bounds.Of, c.what) {
			options = append(options, c)
		}
	}
	return options
}

// wakes are the choices to wake those who have slept for so many leases.
func (w *world) wakes(leases time.Duration) (options []choice) {
	since := time.Now().Add(-leases * Lease)
	for i, c := range w.clients {
		if !c.paused.IsZero() && !c.paused.After(since) {
			options = append(options, choice{what: wake, n: i})
		}
	}
	return options
}

// learned is what schedules so far have shown of the clients, by which later ones leave out choices that change nothing: a
// request that conflicts with none that another client has been seen to make is delivered at once. Keys are those of commands
// as they were executed, inside scripts and transactions too. What is left out is fixed during a pass; where what was seen
// meanwhile shows it to be wrong, the pass is run again.
type learned struct {
	scripts []string       // that were sent whole in the first schedule
	uses    map[asked]keys // the keys of each request
	alone   map[asked]bool // what is delivered at once
}

// asked is a request in all schedules.
type asked struct {
	client int
	line   string // see request.String
}

// keys are those that a request uses: true if it writes.
type keys map[string]bool

// everything is the key of what conflicts with each other request.
const everything = "*"

// observe has the server tell the keys of a request that it is about to execute.
func (l *learned) observe(r *request) {
	is := asked{r.client, r.String()}
	if l.uses[is] == nil {
		l.uses[is] = keys{}
	}
	used := l.uses[is]
	r.server.uses = func(key string, writes bool) { used[anonymous(key)] = used[anonymous(key)] || writes }
}

// sum finds out which requests are delivered at once from now on. It reports true if one was so far that should not have
// been.
func (l *learned) sum() (wrong bool) {
	before := l.alone
	l.alone = map[asked]bool{}
	for is, used := range l.uses {
		alone := true
		for other, theirs := range l.uses {
			alone = alone && (other.client == is.client || !used.conflict(theirs))
		}
		l.alone[is] = alone
		wrong = wrong || before[is] && !alone
	}
	return wrong
}

// conflict reports whether one of two requests writes what the other uses.
func (k keys) conflict(other keys) bool {
	for key, writes := range k {
		if wrote, both := other[key]; both && (writes || wrote) {
			return true
		}
	}
	_, one := k[everything]
	_, two := other[everything]
	return one && len(other) > 0 || two && len(k) > 0
}

// String is the request as one line, with what is random in it replaced, by which it is known again in other schedules.
func (r *request) String() string {
	if r.line == "" {
		var b strings.Builder
		for _, command := range r.commands {
			for i, arg := range command {
				if i != 1 || !strings.EqualFold(command[0], "evalsha") {
					arg = anonymous(arg)
				}
				b.WriteString(arg + " ")
			}
		}
		r.line = b.String()
	}
	return r.line
}

// token is what looks like one.
var token = regexp.MustCompile(`[0-9A-Za-z+/=_-]{20,}`)

// anonymous is a text with ~ in place of each token.
func anonymous(text string) string {
	if len(text) < 20 {
		return text
	}
	return token.ReplaceAllLiteralString(text, "~")
}
