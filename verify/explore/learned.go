package explore

import (
	"regexp"
	"strings"
)

// learned is what schedules so far have shown of the clients, by which later ones leave out choices that change
// nothing: a request that conflicts with none that another client has been seen to make is delivered at once. Keys are
// those of commands as they were executed, inside scripts and transactions too. What is left out is fixed during a
// pass; where what was seen meanwhile shows it to be wrong, the pass is run again.
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

const everything = "*" // the key of what conflicts with each other request

// of are the keys of a request that have been seen so far.
func (l *learned) of(r *request) keys {
	is := asked{r.client, r.String()}
	if l.uses[is] == nil {
		l.uses[is] = keys{}
	}
	return l.uses[is]
}

// add notes a key, unless it is of nobody's request.
func (k keys) add(key string, writes bool) {
	if k != nil {
		key = anonymous(key)
		k[key] = k[key] || writes
	}
}

// sum finds out which requests are delivered at once from now on,
// and reports whether one was that should not have been.
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

// String is the request as one line, with what is random in it replaced, by which it is known again in other schedules.
func (r *request) String() string {
	if r.line == "" {
		var b strings.Builder
		for _, command := range r.commands {
			for i, arg := range command {
				if i != 1 || !strings.HasPrefix(command[0], "evalsha") {
					arg = anonymous(arg)
				}
				b.WriteString(arg + " ")
			}
		}
		r.line = r.server.named(b.String())
	}
	return r.line
}

var token = regexp.MustCompile(`[0-9A-Za-z+/=_-]{20,}`) // what looks like one

// anonymous is a text with ~ in place of each token.
func anonymous(text string) string {
	if len(text) < 20 {
		return text
	}
	return token.ReplaceAllLiteralString(text, "~")
}
