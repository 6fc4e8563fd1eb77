package strategies

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// A Spec is a strategy with its lock and parameters: what "fine:setnx:poll=2ms" stands for. Make one with
// Catalogue.Parse.
type Spec struct {
	strategy Strategy
	lock     *lock.Kind // nil for a strategy that takes no lock
	params   param.Values
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

// Promises is what the spec's lock claims with the spec's parameters; nothing for a strategy that takes none.
func (s Spec) Promises() lock.Promises {
	switch {
	case s.lock == nil:
		return lock.Promises{}
	case s.lock.PromisesWith == nil:
		return s.lock.Promises
	}
	return s.lock.PromisesWith(s.params)
}

// declared lists the parameters that may be given.
func (s Spec) declared() []param.Param {
	all := append([]param.Param(nil), s.strategy.Params...)
	if s.lock != nil {
		all = append(all, s.lock.Params...)
	}
	return all
}

// Open makes a Purchaser for one worker. Env.Locker and Env.Params are filled in from the spec. Close the closer
// when the worker ends; it is never nil.
func (s Spec) Open(env Env) (market.Purchaser, io.Closer, error) {
	env.Params = s.params
	var closers closers
	if s.lock != nil {
		rdb, dial := env.Redis, env.Dial
		if env.LockRedis != nil {
			rdb, dial = env.LockRedis, env.LockDial
		}
		locker, err := s.lock.New(lock.Env{
			Redis: rdb, Dial: dial, Key: env.Keys.Lock, Params: s.params, Steps: env.Steps,
			Now: env.Now, Servers: env.Servers, Process: env.Process,
		})
		if err != nil {
			return nil, nil, fmt.Errorf("open lock %s: %w", s.lock.Name, err)
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

// Param returns the value of a parameter of the spec's strategy or lock, in normal form.
func (s Spec) Param(p param.Param) string { return s.params.Text(p) }

// LockKeys enumerates the keys of locks and fences that a run with this spec may have left in a market.
func (s Spec) LockKeys(keys market.Keys, m market.Made) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s.lock == nil || s.strategy.Locks.all == nil {
			return
		}
		fenced := registers(s.params)
		for name := range s.strategy.Locks.all(m.Accounts, m.Items) {
			if fenced && !yield(keys.Fence(name)) {
				return
			}
			for _, key := range s.lock.AllKeys(keys.Lock(name)) {
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
