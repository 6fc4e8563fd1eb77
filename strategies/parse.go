package strategies

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrSpec is returned, wrapped, for a spec that cannot be parsed. The message names what is known.
var ErrSpec = errors.New("invalid strategy")

// A Catalogue is the strategies and locks that specs may name.
type Catalogue struct {
	Strategies []Strategy
	Locks      []lock.Kind
}

// Builtin returns the catalogue of this module's light strategies and locks.
func Builtin() Catalogue { return Catalogue{Strategies: All(), Locks: lock.All()} }

// Parse reads a spec of the form strategy[:lock[+watchdog][+local]][:key=value]... It returns ErrSpec, wrapped, for an unknown
// strategy, lock or parameter, a value out of range, a parameter given twice, a lock given to a strategy that takes
// none, and a lock and parameters that do not go together.
func (c Catalogue) Parse(text string) (Spec, error) {
	spec, err := c.parse(text)
	if err != nil {
		return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
	}
	return spec, nil
}

func (c Catalogue) parse(text string) (Spec, error) {
	name, rest, further := strings.Cut(text, ":")
	strategy, err := find("strategy", name, c.Strategies, func(s Strategy) string { return s.Name })
	if err != nil {
		return Spec{}, c.orLock(name, err)
	}
	spec := Spec{strategy: strategy, params: param.Values{}}
	var parts []string
	if further {
		parts = strings.Split(rest, ":")
	}
	lockName := strategy.Lock
	if len(parts) > 0 && !strings.Contains(parts[0], "=") {
		if lockName == "" {
			return Spec{}, fmt.Errorf("%s takes no lock", name)
		}
		lockName, parts = parts[0], parts[1:]
	}
	if strategy.Lock != "" {
		kind, err := c.lock(lockName)
		if err != nil {
			return Spec{}, err
		}
		spec.lock = &kind
	}
	for _, part := range parts {
		if err := spec.set(part); err != nil {
			return Spec{}, err
		}
	}
	for _, p := range spec.declared() {
		if spec.params[p.Name] == p.Default {
			delete(spec.params, p.Name)
		}
	}
	return spec, spec.check(c)
}

// orLock adds to an error about an unknown strategy how a lock is written whose name was given instead.
func (c Catalogue) orLock(name string, err error) error {
	var strategies, locks []string
	under := ""
	for _, s := range c.Strategies {
		strategies = append(strategies, s.Name)
		if s.Lock != "" && under == "" {
			under = s.Name
		}
	}
	for _, k := range c.Locks {
		locks = append(locks, k.Name)
	}
	near := nearest(name, locks)
	if near == "" || under == "" || nearest(name, strategies) != "" {
		return err
	}
	return fmt.Errorf("%w; %s is a lock, written %s:%s", err, near, under, near)
}

// lock finds a lock by its name, which modifiers may follow in any order, each once: see lock.Modifiers.
func (c Catalogue) lock(text string) (lock.Kind, error) {
	parts := strings.Split(text, "+")
	name, modifiers := parts[0], parts[1:]
	kind, err := find("lock", name, c.Locks, func(k lock.Kind) string { return k.Name })
	if err != nil {
		return kind, err
	}
	for i, m := range modifiers {
		switch {
		case !slices.Contains(lock.Modifiers(), m):
			return lock.Kind{}, errors.New(Unknown("lock modifier", m, lock.Modifiers()))
		case slices.Contains(modifiers[:i], m):
			return lock.Kind{}, fmt.Errorf("lock modifier %s is given twice", m)
		}
	}
	return lock.WithModifiers(kind, modifiers...)
}

// find returns the element with a name. Its error lists the names that there are.
func find[T any](what, wanted string, all []T, name func(T) string) (T, error) {
	var known []string
	for _, x := range all {
		if name(x) == wanted {
			return x, nil
		}
		known = append(known, name(x))
	}
	var none T
	return none, errors.New(Unknown(what, wanted, known))
}

// Unknown is the message for a name that is not known: it lists the known names and suggests the nearest.
func Unknown(what, name string, known []string) string {
	if len(known) == 0 {
		return fmt.Sprintf("unknown %s %q: there are none here", what, name)
	}
	message := fmt.Sprintf("unknown %s %q; known: %s", what, name, strings.Join(known, ", "))
	if best := nearest(name, known); best != "" {
		message += fmt.Sprintf("; did you mean %q?", best)
	}
	return message
}

// nearest is the name that takes the fewest edits, or "" if they are more than half as many as the name's letters. A
// letter that is wrong counts nearly as one that is left out and one that is added, so that setpx means set-px and not
// setnx.
func nearest(name string, known []string) string {
	costs := levenshtein.NewParams().InsCost(2).DelCost(2).SubCost(3)
	best, fewest := "", 2+3*(len(name)/2)
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(name), k, costs); d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// set applies one key=value.
func (s *Spec) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%q is not of the form key=value", setting)
	}
	p, err := find("parameter", key, s.declared(), func(p param.Param) string { return p.Name })
	if err != nil {
		return err
	}
	if _, twice := s.params[key]; twice {
		return fmt.Errorf("parameter %s is given twice", key)
	}
	normal, err := p.Normalize(value)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", key, err)
	}
	s.params[key] = normal
	return nil
}

// check refuses a lock and parameters that are each valid but do not go together.
func (s Spec) check(c Catalogue) error {
	if s.lock != nil && s.lock.Check != nil {
		if err := s.lock.Check(s.params); err != nil {
			return err
		}
	}
	if s.strategy.Check == nil {
		return nil
	}
	return s.strategy.Check(s, c)
}
