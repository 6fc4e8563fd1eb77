package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// TTL is how long leases last in scenarios, which often wait for one: long only beside the delays of a busy machine.
const TTL = time.Second

// A Scheme is what a scenario is run with: a strategy with its lock.
type Scheme struct {
	strategies.Spec
	Name string     // as shown
	Lock *lock.Kind // nil for one that takes none

	catalogue strategies.Catalogue
}

// Of makes a scheme of a lock, such as "set-px" or "fenced:fencing=on", under the strategy fine, or of a strategy that
// takes none ("watch") or names its own ("coarse:set-px"). The error wraps strategies.ErrSpec.
func Of(c strategies.Catalogue, name string) (Scheme, error) {
	spec, err := parse(c, name)
	if err != nil {
		return Scheme{}, err
	}
	if err := checkFree(spec); err != nil {
		return Scheme{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, err)
	}
	s := Scheme{Spec: spec, Name: name, catalogue: c}
	if kind, ok := spec.Lock(); ok {
		s.Lock = &kind
	}
	_, err = s.lasting(TTL)
	return s, err
}

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

const locksUnder = "fine" // the strategy under which a lock is run that is named without one

// Names are the schemes that scenarios are run with when nobody chooses, in the order in which they are shown: every
// other strategy, every lock that needs no newer server than marketsim, and the variants that they declare.
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
	var known []string
	for _, s := range c.Strategies {
		known = append(known, s.Name)
	}
	for _, k := range c.Locks {
		known = append(known, k.Name)
	}
	head := regexp.MustCompile(`^[^:+]*`).FindString(name)
	switch at := slices.Index(known, head); {
	case at < 0:
		return strategies.Spec{}, fmt.Errorf("%w %q: %s", strategies.ErrSpec, name,
			strategies.UnknownName("lock or strategy", head, known))
	case at >= len(c.Strategies):
		name = locksUnder + ":" + name
	}
	return c.Parse(name)
}

// checkFree returns an error for a lease or a time-out, by whose lengths scenarios tell what they see, other than TTL.
func checkFree(spec strategies.Spec) error {
	for _, p := range spec.Params() {
		value, _ := spec.Value(p.Name)
		given := value != p.Default
		if given && (p.Role == param.Lease || p.Role == param.Timeout) {
			return fmt.Errorf("the scenarios set %s themselves (leases of %s, time-outs of two): leave it out", p.Name, TTL)
		}
	}
	if lease, given := spec.Value("lease"); given && lease != "none" && lease != TTL.String() {
		return fmt.Errorf("the scenarios use leases of %s: give lease=%[1]s", TTL)
	}
	return nil
}

// pollEvery is how often clients look for a lock: at once compared with a lease, and many can wait at the same time.
const pollEvery = 5 * time.Millisecond

// lasting is the scheme with leases of d, time-outs of two, and polls each pollEvery unless its name says otherwise.
func (s Scheme) lasting(d time.Duration) (Scheme, error) {
	if s.Lock == nil {
		return s, nil
	}
	text := strings.Replace(s.String(), ":lease="+TTL.String(), ":lease="+d.String(), 1)
	for _, p := range s.Lock.Params {
		set := ":" + p.Name + "="
		switch p.Role {
		case param.Lease:
			text += set + d.String()
		case param.Timeout:
			text += set + (2 * d).String()
		case param.Poll:
			if !strings.Contains(s.Name, set) {
				text += set + pollEvery.String()
			}
		}
	}
	var err error
	s.Spec, err = s.catalogue.Parse(text)
	return s, err
}

func (s Scheme) expires() bool {
	isLease := func(p param.Param) bool { return p.Role == param.Lease }
	return s.Lock != nil && slices.ContainsFunc(s.Lock.Params, isLease)
}

func (s Scheme) need() lock.Need {
	if s.Lock == nil {
		return lock.NeedsNothing
	}
	return s.Lock.Needs
}

// fences reports whether the market refuses the writes of the scheme's former holders.
func (s Scheme) fences() bool {
	fencing := s.value("fencing")
	return fencing == "on" || fencing == "token"
}

func (s Scheme) value(name string) string {
	value, _ := s.Value(name)
	return value
}

// neighbour is the scheme that this one is mixed with. One that fences meets the same without fences; a lock meets the
// book's lock without an expiry, and that one the book's with an expiry; what takes no lock meets the book's lock too.
func (s Scheme) neighbour() (Scheme, error) {
	name, under := "setnx", ""
	if outer := s.Strategy().Name; s.Lock != nil && outer != locksUnder {
		under = outer + ":"
	}
	switch {
	case s.Lock != nil && s.fences():
		name = s.Lock.Name
	case s.Lock != nil && s.Lock.Name == name:
		name = "setnx-expire"
	}
	return Of(s.catalogue, under+name)
}
