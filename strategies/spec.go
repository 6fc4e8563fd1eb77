package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

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
	rdb, dial := env.Redis, env.Dial
	if env.LockRedis != nil {
		rdb, dial = env.LockRedis, env.LockDial
	}
	locker, err := s.lock.New(lock.Env{
		Redis: rdb, Dial: dial, Key: env.Keys.Lock, Params: s.params, Steps: env.Steps,
		Now: env.Now, Servers: env.Servers, Traffic: env.Traffic, Process: env.Process,
	})
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", s.lock.Name, err)
	}
	return locker, nil
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
		if s.lock == nil || s.strategy.Locks.all == nil {
			return
		}
		for name := range s.strategy.Locks.all(m.Accounts, m.Items) {
			all := s.lock.AllKeys(keys.Lock(name))
			if registers(s.params) {
				all = append([]string{keys.Fence(name)}, all...)
			}
			for _, key := range all {
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
