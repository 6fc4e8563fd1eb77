package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrSpec is returned, wrapped, for a spec that cannot be parsed. The message names what is known.
var ErrSpec = errors.New("invalid strategy")

// ErrLayout is returned, wrapped, by Open for a strategy that is made for markets in another layout.
var ErrLayout = errors.New("the strategy is for markets whose keys are laid out otherwise: some are made for keys that " +
	"share a slot, others for keys that share none")

// A Catalogue is the strategies and locks that specs may name.
type Catalogue struct {
	Strategies []Strategy
	Locks      []lock.Kind
	Spread     []Strategy // for markets whose keys share no slot
}

// Builtin returns the catalogue of this module's light strategies and locks.
func Builtin() Catalogue { return Catalogue{Strategies: All(), Locks: lock.All(), Spread: Spread()} }

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
	strategy, err := find("strategy", name, slices.Concat(c.Strategies, c.Spread), func(s Strategy) string { return s.Name })
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

// A Spec is a strategy with its lock and parameters: what "fine:setnx:poll=2ms" stands for. Make one with
// Catalogue.Parse.
type Spec struct {
	strategy Strategy
	lock     *lock.Kind // nil for a strategy that takes no lock
	params   param.Values
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

// declared lists the parameters that may be given.
func (s Spec) declared() []param.Param {
	if s.lock == nil {
		return s.strategy.Params
	}
	return slices.Concat(s.strategy.Params, s.lock.Params)
}

// String returns the canonical form: defaults are left out, parameters come in the order in which they are
// declared. Parsing it gives an equal Spec.
func (s Spec) String() string {
	parts := []string{s.strategy.Name}
	if s.lock != nil && s.lock.Name != s.strategy.Lock {
		parts = append(parts, s.lock.Name)
	}
	for _, p := range s.declared() {
		if value, ok := s.params[p.Name]; ok {
			parts = append(parts, p.Name+"="+value)
		}
	}
	return strings.Join(parts, ":")
}

// Strategy returns the strategy that the spec names.
func (s Spec) Strategy() Strategy { return s.strategy }

// Lock returns the lock that the spec names; false for a strategy that takes none.
func (s Spec) Lock() (lock.Kind, bool) {
	if s.lock == nil {
		return lock.Kind{}, false
	}
	return *s.lock, true
}

// SeveralLocks reports whether some of the spec's operations take more than one lock.
func (s Spec) SeveralLocks() bool { return s.strategy.Locks.several }

// FusesLock reports whether the spec takes and releases its lock by the commands that read and write.
func (s Spec) FusesLock() bool { return s.lock != nil && s.params.Text(writeParam) == writeFused }

// Value returns the value of the parameter called name, its default if the spec does not give it, in normal form; false
// for one that neither the strategy nor the lock declares.
func (s Spec) Value(name string) (string, bool) {
	for _, p := range s.declared() {
		if p.Name == name {
			return s.params.Text(p), true
		}
	}
	return "", false
}

// Promises is what the spec's lock claims with the spec's parameters. A strategy that takes no lock claims nothing.
func (s Spec) Promises() lock.Promises {
	switch {
	case s.lock == nil:
		return lock.Promises{}
	case s.lock.PromisesWith == nil:
		return s.lock.Promises
	}
	return s.lock.PromisesWith(s.params)
}

// Expiry is when the spec's lock becomes free by itself, with the spec's parameters. It is zero for a strategy that
// takes no lock.
func (s Spec) Expiry() lock.Expiry {
	if s.lock == nil {
		return lock.Expiry{}
	}
	return s.lock.Expiry(s.params)
}

// CheckServer tries the commands that the spec sends and that not every server has, where they do nothing. It returns
// backend.ErrUnavailable, wrapped, if the server lacks one.
func (s Spec) CheckServer(ctx context.Context, rdb *redis.Client, keys market.Keys) error {
	if s.lock == nil {
		return nil
	}
	for _, c := range s.lock.NewerCommands(s.params) {
		if err := c.Check(ctx, rdb, keys.Lock("preflight")); err != nil {
			return err
		}
	}
	return nil
}

// Open makes a Purchaser for one worker. Env.Locker and Env.Params are filled in from the spec. Close the closer
// when the worker ends; it is never nil.
func (s Spec) Open(env Env) (market.Purchaser, io.Closer, error) {
	env.Params = s.params
	if s.strategy.Spread != (env.Slots != nil) {
		return nil, nil, fmt.Errorf("open strategy %s: %w", s, ErrLayout)
	}
	var closers closers
	if s.lock != nil {
		locker, err := s.OpenLock(env)
		if err != nil {
			return nil, nil, err
		}
		env.Locker = locker
		if c, ok := locker.(io.Closer); ok {
			closers = append(closers, c)
		}
	}
	purchaser, closer, err := s.strategy.New(env)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open strategy %s: %w", s, err), closers.Close())
	}
	if closer != nil {
		closers = append(closers, closer)
	}
	return purchaser, closers, nil
}

// OpenLock makes a Locker of the spec's lock for one worker; it is an error if the spec names none. If the Locker
// implements io.Closer, close it when the worker ends.
func (s Spec) OpenLock(env Env) (lock.Locker, error) {
	if s.lock == nil {
		return nil, fmt.Errorf("open a lock: %s takes none", s)
	}
	switch {
	case s.strategy.Spread:
		return newSlotLocker(s, env), nil
	case env.LockRedis != nil:
		return s.newLocker(env, env.LockRedis, env.LockDial)
	}
	return s.newLocker(env, env.Redis, env.Dial)
}

// newLocker makes a Locker that takes locks over a connection.
func (s Spec) newLocker(env Env, rdb *redis.Client, dial func(context.Context) (*redis.Client, error)) (lock.Locker, error) {
	locker, err := s.lock.New(lock.Env{
		Redis: rdb, Dial: dial, Key: s.lockKey(env.Keys), Params: s.params, Steps: env.Steps,
		Now: env.Now, Servers: env.Servers, Traffic: env.Traffic, Process: env.Process,
	})
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", s.lock.Name, err)
	}
	return locker, nil
}

// lockKey is how the key of a lock is spelled.
func (s Spec) lockKey(keys market.Keys) func(name string) string {
	if s.strategy.Spread {
		return keys.SlotLock
	}
	return keys.Lock
}

// LockKeys enumerates the keys of locks, fences, versions and outcomes that a run with this spec may have left in a
// market.
func (s Spec) LockKeys(keys market.Keys, m market.Made) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s.strategy.Keys != nil {
			for key := range s.strategy.Keys(keys, m) {
				if !yield(key) {
					return
				}
			}
		}
		if idempotent(s.params) && !yield(keys.Outcomes()) {
			return
		}
		s.keysOf(m, func(name string) []string {
			all := s.lock.AllKeys(s.lockKey(keys)(name))
			if registers(s.params) {
				all = append([]string{keys.Fence(name)}, all...)
			}
			return all
		})(yield)
	}
}

// HolderKeys enumerates those of LockKeys that may say who holds a lock: without fences, outcomes and counters of holders.
func (s Spec) HolderKeys(keys market.Keys, m market.Made) iter.Seq[string] {
	return s.keysOf(m, func(name string) []string { return s.lock.HolderKeys(s.lockKey(keys)(name)) })
}

// keysOf enumerates the keys of each lock that a market may have.
func (s Spec) keysOf(m market.Made, of func(name string) []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s.lock == nil || s.strategy.Locks.all == nil {
			return
		}
		for name := range s.strategy.Locks.all(m.Accounts, m.Items) {
			for _, key := range of(name) {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// closers closes the last opened first.
type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for i := len(c) - 1; i >= 0; i-- {
		errs = append(errs, c[i].Close())
	}
	return errors.Join(errs...)
}
