package fault

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// TTL is how long leases last in scenarios: short, because scenarios often wait for a lease to end, and long compared
// with the delays of a busy machine.
const TTL = time.Second

// Purchasing is what a child needs of a scheme.
type Purchasing interface {
	// String names it; a child finds it by this name.
	String() string
	// Open makes a Purchaser for one worker; the closer is never nil.
	Open(strategies.Env) (market.Purchaser, io.Closer, error)
}

// A Scheme is what a scenario is run with: a way to keep clients out of each other's way.
type Scheme struct {
	Purchasing
	Name string // as shown
	// Lock is its lock; nil for one that takes none.
	Lock     *lock.Kind
	Promises lock.Promises // of its lock
	// Expires says that its lock gives itself back after TTL.
	Expires bool
	// Steps says that it tells its observer where it is. A client of a scheme that does not is held at its connection.
	Steps bool

	withLease func(ttl time.Duration) Purchasing // the same with leases of ttl; nil: cannot be changed
	neighbour func() (Scheme, error)             // what it is mixed with; nil: not known
}

// Of makes a scheme of a lock, such as "set-px" or "fenced:fencing=on", under the strategy fine, or of a strategy that
// takes none ("watch") or names its own ("coarse:set-px"). Where the lock has a TTL that was not given, it is TTL. The
// error wraps strategies.ErrSpec.
func Of(c strategies.Catalogue, name string) (Scheme, error) {
	spec, err := parse(c, name)
	if err != nil {
		return Scheme{}, err
	}
	if err := checkFree(spec); err != nil {
		return Scheme{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, err)
	}
	s := Scheme{Purchasing: spec, Name: name, Promises: spec.Promises(), Steps: true}
	s.neighbour = func() (Scheme, error) { return besides(c, spec) }
	kind, ok := spec.Lock()
	if !ok {
		return s, nil
	}
	s.Lock = &kind
	s.Expires = slices.ContainsFunc(ttlParams, s.hasParam)
	polls := strings.Contains(name, ":"+lock.PollParam.Name+"=")
	if _, err := withTTL(c, spec, TTL, polls); err != nil {
		return Scheme{}, err
	}
	s.withLease = func(d time.Duration) Purchasing {
		long, err := withTTL(c, spec, d, polls)
		if err != nil { // cannot be: a parameter that goes with TTL goes with longer leases
			return spec
		}
		return long
	}
	return s, nil
}

// Outside makes a scheme of a Purchaser that is not of this module. Its clients are held at their connections.
func Outside(p Purchasing) Scheme { return Scheme{Purchasing: p, Name: p.String()} }

// Schemes returns the schemes of these names, each once, in the order given. The error wraps strategies.ErrSpec.
func Schemes(c strategies.Catalogue, names ...string) ([]Scheme, error) {
	var chosen []Scheme
	for i, name := range names {
		s, err := Of(c, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names[:i], name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// locksUnder is the strategy under which a lock is run that is named without one.
const locksUnder = "fine"

// Names are the schemes that scenarios are run with when nobody chooses, in the order in which they are shown: every
// other strategy, with its default lock, then every lock, and then the variants that locks and strategies declare. Locks
// that need a newer server than marketsim does are run where somebody asks for them.
func Names(c strategies.Catalogue) []string {
	var all, locks, variants []string
	for _, k := range c.Locks {
		if len(k.NewerCommands(nil)) > 0 {
			continue
		}
		locks = append(locks, k.Name)
		for _, v := range k.Variants {
			variants = append(variants, k.Name+v)
		}
	}
	for _, s := range c.Strategies {
		if s.Name != locksUnder {
			all = append(all, s.Name)
		}
		if s.Variants != nil {
			variants = append(variants, s.Variants(c)...)
		}
	}
	return slices.Concat(all, locks, variants)
}

// parse reads a scheme's name: a strategy, or a lock to be put under the strategy fine.
func parse(c strategies.Catalogue, name string) (strategies.Spec, error) {
	head := name
	if end := strings.IndexAny(name, ":+"); end >= 0 {
		head = name[:end]
	}
	var known []string
	for _, s := range c.Strategies {
		if s.Name == head {
			return c.Parse(name)
		}
		known = append(known, s.Name)
	}
	for _, k := range c.Locks {
		if k.Name == head {
			return c.Parse(locksUnder + ":" + name)
		}
		known = append(known, k.Name)
	}
	return strategies.Spec{}, fmt.Errorf("%w %q: %s", strategies.ErrSpec, name,
		strategies.Unknown("lock or strategy", head, known))
}

// ttlParams are the names of the parameters by which locks are told how long they last.
var ttlParams = []string{"ttl", "read-ttl", "write-ttl", "bar"}

// ownParams are the names of the parameters that scenarios set themselves.
var ownParams = append([]string{"timeout", "list-timeout"}, ttlParams...)

// SetByScenarios reports whether scenarios set a parameter themselves, so that a scheme cannot give it.
func SetByScenarios(name string) bool { return slices.Contains(ownParams, name) }

// checkFree returns an error for a parameter that scenarios set themselves: a scenario could not tell what it sees if
// leases were longer or shorter, or if somebody gave up waiting. A lease that is an alternative to a watchdog may be
// asked for, as long as it is TTL.
func checkFree(spec strategies.Spec) error {
	for _, name := range ownParams {
		if _, given := spec.Value(name); given && strings.Contains(":"+spec.String()+":", ":"+name+"=") {
			return fmt.Errorf("the scenarios set %s themselves (leases of %s): leave it out", name, TTL)
		}
	}
	if lease, given := spec.Value("lease"); given && lease != "none" && lease != TTL.String() {
		return fmt.Errorf("the scenarios use leases of %s: give lease=%[1]s", TTL)
	}
	return nil
}

// pollEvery is how often clients of a scenario look whether a lock is free: seldom enough that many can wait at the same
// time for a lease to end, and at once compared with a lease.
const pollEvery = 5 * time.Millisecond

// withTTL gives a lock leases of d. One that polls does so every pollEvery, unless polls says that its spec has its own.
func withTTL(c strategies.Catalogue, spec strategies.Spec, d time.Duration, polls bool) (strategies.Spec, error) {
	kind, _ := spec.Lock()
	text := strings.Replace(spec.String(), ":lease="+TTL.String(), ":lease="+d.String(), 1)
	for _, p := range kind.Params {
		if slices.Contains(ttlParams, p.Name) {
			text += ":" + p.Name + "=" + d.String()
		}
		if p.Name == lock.PollParam.Name && !polls {
			text += ":" + p.Name + "=" + pollEvery.String()
		}
	}
	return c.Parse(text)
}

// lasting is the scheme with leases of d.
func (s Scheme) lasting(d time.Duration) Scheme {
	if s.withLease != nil {
		s.Purchasing = s.withLease(d)
	}
	return s
}

// hasParam reports whether the scheme's lock takes a parameter.
func (s Scheme) hasParam(name string) bool {
	return s.Lock != nil && slices.ContainsFunc(s.Lock.Params, func(p param.Param) bool { return p.Name == name })
}

// replicas is how many replicas the scheme's lock waits for.
func (s Scheme) replicas() int {
	spec, ok := s.Purchasing.(strategies.Spec)
	if !ok {
		return 0
	}
	wait, _ := spec.Value("wait")
	n, _ := strconv.Atoi(wait) // it is "" where the lock has no such parameter
	return n
}

// need is what the scheme's lock needs besides Redis.
func (s Scheme) need() lock.Need {
	if s.Lock == nil {
		return lock.NeedsNothing
	}
	return s.Lock.Needs
}

// holdsNothing reports whether the scheme is known to hold nothing that a dead client could leave behind.
func (s Scheme) holdsNothing() bool { return s.Lock == nil && s.Steps }
