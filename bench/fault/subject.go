package fault

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// TTL is how long leases last in scenarios: short, for the many waits, and long against the hiccups of a busy machine.
const TTL = time.Second

// Purchasing is what a child needs of a subject.
type Purchasing interface {
	// String names it; a child finds it by this name.
	String() string
	// Open makes a Purchaser for one worker; the closer is never nil.
	Open(strategies.Env) (market.Purchaser, io.Closer, error)
}

// A Subject is what a scenario is played with.
type Subject struct {
	Purchasing
	Name string // as shown
	// Lock is its lock; nil for one that takes none.
	Lock     *lock.Kind
	Promises lock.Promises // of its lock
	// Expires says that its lock gives itself back after TTL.
	Expires bool
	// Steps says that it tells its observer where it is. A subject that does not is held at its connection.
	Steps bool

	last func(ttl time.Duration) Purchasing // the same with leases of ttl; nil: cannot be changed
}

// Of makes a subject of a lock, such as "set-px" or "fenced:fencing=on", under the strategy fine, or of a strategy that
// takes none ("watch") or names its own ("coarse:set-px"). Where the lock has a TTL that was not given, it is TTL. The
// error wraps strategies.ErrSpec.
func Of(c strategies.Catalogue, name string) (Subject, error) {
	spec, err := parse(c, name)
	if err != nil {
		return Subject{}, err
	}
	if err := ours(spec); err != nil {
		return Subject{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, err)
	}
	kind, ok := spec.Lock()
	if !ok {
		return Subject{Purchasing: spec, Name: name, Steps: true}, nil
	}
	s := Subject{Purchasing: spec, Name: name, Lock: &kind, Promises: spec.Promises(), Steps: true}
	for _, ttl := range ttlParams {
		s.Expires = s.Expires || hasParam(s, ttl)
	}
	if _, err := withTTL(c, spec, TTL); err != nil {
		return Subject{}, err
	}
	s.last = func(d time.Duration) Purchasing {
		long, err := withTTL(c, spec, d)
		if err != nil { // cannot be: a parameter that goes with TTL goes with longer leases
			return spec
		}
		return long
	}
	return s, nil
}

// ttlParams are the names under which locks know how long they last.
var ttlParams = []string{"ttl", "read-ttl", "write-ttl", "bar"}

// ours returns an error for what a scenario sets itself: it could not tell what it sees if leases were longer or shorter,
// or if somebody gave up waiting. A lease that is an alternative to a watchdog may be asked for, as long as it is TTL.
func ours(spec strategies.Spec) error {
	for _, name := range append([]string{"timeout", "list-timeout"}, ttlParams...) {
		if _, given := spec.Value(name); given && strings.Contains(":"+spec.String()+":", ":"+name+"=") {
			return fmt.Errorf("the scenarios set %s themselves (leases of %s): leave it out", name, TTL)
		}
	}
	if lease, given := spec.Value("lease"); given && lease != "none" && lease != TTL.String() {
		return fmt.Errorf("the scenarios play leases of %s: give lease=%[1]s", TTL)
	}
	return nil
}

// withTTL gives a lock leases of d.
func withTTL(c strategies.Catalogue, spec strategies.Spec, d time.Duration) (strategies.Spec, error) {
	kind, _ := spec.Lock()
	text := strings.Replace(spec.String(), ":lease="+TTL.String(), ":lease="+d.String(), 1)
	for _, p := range kind.Params {
		if slices.Contains(ttlParams, p.Name) {
			text += ":" + p.Name + "=" + d.String()
		}
	}
	return c.Parse(text)
}

// lasting is the subject with leases of d.
func (s Subject) lasting(d time.Duration) Subject {
	if s.last != nil {
		s.Purchasing = s.last(d)
	}
	return s
}

// hasParam reports whether the subject's lock takes a parameter.
func hasParam(s Subject, name string) bool {
	return s.Lock != nil && slices.ContainsFunc(s.Lock.Params, func(p param.Param) bool { return p.Name == name })
}

// Outside makes a subject of a Purchaser that is not of this module. It is held at its connection.
func Outside(p Purchasing) Subject { return Subject{Purchasing: p, Name: p.String()} }
