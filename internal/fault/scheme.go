package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// TTL is how long leases last in scenarios, which often wait for one to end: long beside
// the delays of a busy machine.
const TTL = time.Second

// A Scheme is what a scenario is run with: a strategy with its lock.
type Scheme struct {
	strategies.Spec
	Name string    // as shown
	Lock lock.Kind // the zero value for one that takes none

	catalogue strategies.Catalogue
}

// SchemeOf makes a scheme of a lock, such as "set-px" or "fenced:fencing=on", under the
// strategy fine, or of a strategy that takes none ("watch") or names its own
// ("coarse:set-px"). The error wraps strategies.ErrSpec.
func SchemeOf(c strategies.Catalogue, name string) (Scheme, error) {
	spec, err := parseScheme(c, name)
	if err != nil {
		return Scheme{}, err
	}
	if err := checkFree(spec); err != nil {
		return Scheme{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, err)
	}
	s := Scheme{Spec: spec, Name: name, catalogue: c}
	s.Lock, _ = spec.Lock()
	_, err = s.withLease(TTL) // only to see that it can be done: prepare does it in each run
	return s, err
}

// Schemes returns the schemes of these names, each once, in the order given. The
// error wraps strategies.ErrSpec.
func Schemes(c strategies.Catalogue, names ...string) ([]Scheme, error) {
	return each(names, func(name string) (Scheme, error) {
		return SchemeOf(c, name)
	})
}

const locksUnder = "fine" // the strategy of a lock that is named without one

// SchemeNames are the schemes that scenarios are run with when nobody chooses, in the order in
// which they are shown: every strategy but fine; every lock, under fine, that needs no newer
// server than marketsim; and the variants that these declare.
func SchemeNames(c strategies.Catalogue) []string {
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

// parseScheme reads a scheme's name: a strategy, or a lock to be put under the strategy fine.
func parseScheme(c strategies.Catalogue, name string) (strategies.Spec, error) {
	if slices.Contains(c.StrategyNames(), name) { // which may have a colon
		return c.Parse(name)
	}

	known := slices.Concat(c.StrategyNames(), c.LockNames())
	head, _, _ := strings.Cut(strings.ReplaceAll(name, "+", ":"), ":")
	switch at := slices.Index(known, head); {
	case at < 0:
		unknown := &strategies.UnknownError{What: "lock or strategy", Name: head, Known: known}
		return strategies.Spec{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, unknown)
	case at >= len(c.Strategies): // a lock: known has the strategies first
		name = locksUnder + ":" + name
	}
	return c.Parse(name)
}

// checkFree refuses leases and time-outs of a user's own: scenarios tell what they
// see by the lengths of theirs.
func checkFree(spec strategies.Spec) error {
	for _, p := range spec.Params() {
		value, _ := spec.Value(p.Name)
		given := value != p.Default
		if given && (p.Role == param.Lease || p.Role == param.Timeout) {
			return fmt.Errorf("the scenarios set %s themselves (leases of %s, time-outs of two): "+
				"leave it out", p.Name, TTL)
		}
	}
	if lease, given := spec.Value("lease"); given && lease != "none" && lease != TTL.String() {
		return fmt.Errorf("the scenarios use leases of %s: give lease=%[1]s", TTL)
	}
	return nil
}

// pollEvery is how often clients look for a lock: a small part of a lease, and not
// too often for many that wait.
const pollEvery = 5 * time.Millisecond

// withLease is the scheme with leases of d, time-outs of twice d, and polls each pollEvery,
// unless its name has a poll of its own. It is for a scheme as SchemeOf returns it: in the
// text of one that has its leases, each parameter would be given twice, which Parse refuses.
func (s Scheme) withLease(d time.Duration) (Scheme, error) {
	if !s.TakesLock() {
		return s, nil
	}

	// The only lease that a name may give is one of TTL (checkFree). Its parameter has no role,
	// because it chooses another lock, so that the loop below does not set it again.
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

// TakesLock reports whether the scheme has a lock.
func (s Scheme) TakesLock() bool { return s.Lock.Name != "" }

func (s Scheme) expires() bool {
	return slices.ContainsFunc(s.Lock.Params, func(p param.Param) bool {
		return p.Role == param.Lease
	})
}

// fences reports whether the market refuses the writes of the scheme's former holders.
func (s Scheme) fences() bool {
	return s.value("fencing") == "on" || s.value("fencing") == "token"
}

func (s Scheme) value(name string) string {
	value, _ := s.Value(name)
	return value
}

// neighbour is the scheme that this one is mixed with: a scheme that fences meets the
// same without fences, setnx (the book's lock without an expiry) meets setnx-expire (its
// lock with one), and all others meet setnx.
func (s Scheme) neighbour() (Scheme, error) {
	name := "setnx"
	under := ""
	if outer := s.Strategy().Name; s.TakesLock() && outer != locksUnder {
		under = outer + ":"
	}

	switch {
	case s.TakesLock() && s.fences():
		name = s.Lock.Name
	case s.Lock.Name == name:
		name = "setnx-expire"
	}
	return SchemeOf(s.catalogue, under+name)
}
