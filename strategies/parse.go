package strategies

import (
	"errors"
	"fmt"
	"strings"

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

// Parse reads a spec of the form strategy[:lock[+watchdog]][:key=value]... It returns ErrSpec, wrapped, for an unknown
// strategy, lock or parameter, a value out of range, a parameter given twice, a lock given to a strategy that takes
// none, and a lock and parameters that do not go together.
func (c Catalogue) Parse(text string) (Spec, error) {
	name, rest, further := strings.Cut(text, ":")
	strategy, ok := find(c.Strategies, strategyName, name)
	if !ok {
		return Spec{}, fmt.Errorf("%w %q: %s", ErrSpec, text, Unknown("strategy", name, names(c.Strategies, strategyName)))
	}
	spec := Spec{strategy: strategy, params: param.Values{}}
	var parts []string
	if further {
		parts = strings.Split(rest, ":")
	}
	lockName := strategy.Lock
	if len(parts) > 0 && !strings.Contains(parts[0], "=") {
		if lockName == "" {
			return Spec{}, fmt.Errorf("%w %q: %s takes no lock", ErrSpec, text, name)
		}
		lockName, parts = parts[0], parts[1:]
	}
	if strategy.Lock != "" {
		kind, err := c.lock(lockName)
		if err != nil {
			return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
		}
		spec.lock = &kind
	}
	for _, part := range parts {
		if err := spec.set(part); err != nil {
			return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
		}
	}
	for _, p := range spec.declared() {
		if spec.params[p.Name] == p.Default {
			delete(spec.params, p.Name)
		}
	}
	if spec.lock != nil && spec.lock.Check != nil {
		if err := spec.lock.Check(spec.params); err != nil {
			return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
		}
	}
	if strategy.Check != nil {
		if err := strategy.Check(spec, c); err != nil {
			return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
		}
	}
	return spec, nil
}

// lock finds a lock by its name, with "+watchdog" behind it for one that is renewed in the background.
func (c Catalogue) lock(text string) (lock.Kind, error) {
	name, modifier, modified := strings.Cut(text, "+")
	kind, ok := find(c.Locks, lockKindName, name)
	switch {
	case !ok:
		return lock.Kind{}, errors.New(Unknown("lock", name, names(c.Locks, lockKindName)))
	case !modified:
		return kind, nil
	case modifier != "watchdog":
		return lock.Kind{}, errors.New(Unknown("lock modifier", modifier, []string{"watchdog"}))
	}
	return lock.WithWatchdog(kind)
}

// set applies one key=value.
func (s *Spec) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%q is not of the form key=value", setting)
	}
	declared := s.declared()
	p, ok := find(declared, paramName, key)
	if !ok {
		return errors.New(Unknown("parameter", key, names(declared, paramName)))
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
