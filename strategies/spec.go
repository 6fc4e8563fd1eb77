package strategies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// ErrSpec is returned, wrapped, for a spec that cannot be parsed. The message
// names what is known.
var ErrSpec = errors.New("invalid strategy")

// A Catalogue is the strategies and locks that specs may name.
type Catalogue struct {
	Strategies []Strategy
	Locks      []lock.Kind
}

// Builtin returns the catalogue of this module's light strategies and locks.
func Builtin() Catalogue { return Catalogue{Strategies: All(), Locks: lock.All()} }

// FencedLocks names the locks that number their holders.
func (c Catalogue) FencedLocks() (fenced []string) {
	for _, k := range c.Locks {
		if k.Promises.Fenced {
			fenced = append(fenced, k.Name)
		}
	}
	return fenced
}

// A Spec is a strategy with its lock and parameters: what "fine:setnx:poll=2ms" stands
// for. Catalogue.Parse makes one.
type Spec struct {
	strategy Strategy
	lock     lock.Kind // the zero value for a strategy that takes no lock
	params   param.Values
}

// Parse reads a spec of the form strategy[:lock[+watchdog]][:key=value]... Its
// errors are ErrSpec, wrapped.
func (c Catalogue) Parse(text string) (Spec, error) {
	spec, err := c.parse(text)
	if err != nil {
		return Spec{}, fmt.Errorf("%w %q: %w", ErrSpec, text, err)
	}
	return spec, nil
}

func (c Catalogue) parse(text string) (Spec, error) {
	parts := strings.Split(text, ":")
	if slices.Contains(c.StrategyNames(), text) { // which may have a colon, as script:NAME
		parts = []string{text}
	}
	i, err := find("strategy", parts[0], c.StrategyNames())
	if err != nil {
		return Spec{}, c.unknownStrategy(text, parts[0], err)
	}
	spec := Spec{strategy: c.Strategies[i], params: param.Values{}}

	lockName := spec.strategy.Lock
	settings := parts[1:]
	if len(settings) > 0 && !strings.Contains(settings[0], "=") {
		if lockName == "" {
			return spec, fmt.Errorf("%s takes no lock", parts[0])
		}
		lockName = settings[0]
		settings = settings[1:]
	}
	if spec.strategy.Lock != "" {
		spec.lock, err = c.lock(lockName)
		if err != nil {
			return spec, err
		}
	}

	for _, setting := range settings {
		if err := spec.set(setting); err != nil {
			return spec, err
		}
	}

	// Values holds no defaults. They are dropped only now: by them set finds that a parameter
	// is given twice.
	for _, p := range spec.Params() {
		if spec.params[p.Name] == p.Default {
			delete(spec.params, p.Name)
		}
	}
	return spec, spec.check(c)
}

// check refuses values that are each valid but do not go together.
func (s Spec) check(c Catalogue) error {
	// A time-out below the default counts as the default, so that timeout=0, for one attempt,
	// goes with the default poll.
	timeout := max(s.params.Duration(lock.TimeoutParam), param.Values{}.Duration(lock.TimeoutParam))
	if poll := s.params.Duration(lock.PollParam); poll > timeout {
		return fmt.Errorf("poll=%s is longer than an acquisition may take (timeout=%s)", poll, timeout)
	}

	if s.lock.Check != nil {
		if err := s.lock.Check(s.params); err != nil {
			return err
		}
	}
	if s.strategy.Check != nil {
		return s.strategy.Check(s, c)
	}
	return nil
}

// unknownStrategy is the error for a name that no strategy has. It says how a lock is written:
// one that was named in its place, or one that is near if no strategy is.
func (c Catalogue) unknownStrategy(text, name string, unknown error) error {
	if !slices.Contains(c.StrategyNames(), fineName) { // with which it would be written
		return unknown
	}

	kind, _, _ := strings.Cut(name, "+")
	if slices.Contains(c.LockNames(), kind) {
		// It does not wrap unknown: of redsync, which is also a library, suggestList in
		// cmd/marketsim would else say that marketsim has another name for it.
		return fmt.Errorf("%s is a lock, and a strategy says what it locks: write %s:%s for a lock per item",
			kind, fineName, text)
	}

	nearLock := wording.Nearest(kind, c.LockNames())
	nearStrategy := wording.Nearest(name, c.StrategyNames())
	if nearLock == "" || nearStrategy != "" {
		return unknown
	}
	return fmt.Errorf("%w; %s is a lock, written %s:%s", unknown, nearLock, fineName, nearLock)
}

// lock finds a lock by its name, which +watchdog may follow.
func (c Catalogue) lock(text string) (kind lock.Kind, err error) {
	name, modifier, modified := strings.Cut(text, "+")
	i, err := find("lock", name, c.LockNames())
	if err != nil {
		return kind, err
	}
	if !modified {
		return c.Locks[i], nil
	}
	if _, err := find("lock modifier", modifier, []string{lock.Watchdog}); err != nil {
		return kind, err
	}
	return lock.WithWatchdog(c.Locks[i])
}

func (s *Spec) set(setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok {
		return fmt.Errorf("%q is not of the form key=value", setting)
	}
	i, err := find("parameter", key, s.parameters())
	if err != nil {
		return err
	}

	if _, twice := s.params[key]; twice {
		return fmt.Errorf("parameter %s is given twice", key)
	}
	s.params[key], err = s.Params()[i].Normalize(value)
	if err != nil {
		return fmt.Errorf("parameter %s: %w", key, err)
	}
	return nil
}

// StrategyNames are the names of the strategies, in the order in which they are shown.
func (c Catalogue) StrategyNames() []string {
	return wording.Names(c.Strategies, func(s Strategy) string {
		return s.Name
	})
}

// LockNames are the names of the locks, in the order in which they are shown.
func (c Catalogue) LockNames() []string {
	return wording.Names(c.Locks, func(k lock.Kind) string {
		return k.Name
	})
}

// find returns where a name is among those that there are, which its error lists.
func find(what, name string, known []string) (int, error) {
	if i := slices.Index(known, name); i >= 0 {
		return i, nil
	}
	return 0, &UnknownError{What: what, Name: name, Known: known}
}

// An UnknownError is about a name that nothing has. Its text lists the names that there
// are, and suggests the nearest.
type UnknownError struct {
	What  string // the kind of thing that was looked for: "strategy", "lock", "parameter"
	Name  string
	Known []string // the names that there are
}

func (e *UnknownError) Error() string { return wording.Unknown(e.What, e.Name, e.Known) }

// Params are the parameters that may be given.
func (s Spec) Params() []param.Param { return slices.Concat(s.strategy.Params, s.lock.Params) }

func (s Spec) parameters() []string {
	return wording.Names(s.Params(), func(p param.Param) string {
		return p.Name
	})
}

// String returns the canonical form: without defaults, parameters in the order
// in which they are declared.
func (s Spec) String() string {
	text := s.strategy.Name
	if s.lock.Name != s.strategy.Lock {
		text += ":" + s.lock.Name
	}
	for _, p := range s.Params() {
		if value, ok := s.params[p.Name]; ok {
			text += ":" + p.Name + "=" + value
		}
	}
	return text
}

// Strategy returns the strategy that the spec names.
func (s Spec) Strategy() Strategy { return s.strategy }

// Elsewhere is that of its strategy.
func (s Spec) Elsewhere() bool { return s.strategy.Elsewhere }

// KeysUnknown reports whether a run may leave keys of which no more is known than that they
// begin with the prefix: those of programs, and of locks with KeysBeginning.
func (s Spec) KeysUnknown() bool { return s.Elsewhere() || s.lock.KeysBeginning }

// Lock returns the lock that the spec names; false for a strategy that takes none.
func (s Spec) Lock() (lock.Kind, bool) { return s.lock, s.strategy.Lock != "" }

// SeveralLocks reports whether some of the spec's operations take more than one lock.
func (s Spec) SeveralLocks() bool {
	return s.strategy.Locks != nil && len(s.strategy.Locks(nil, 1, 1, 1)) > 1
}

// FusesLock reports whether the spec takes and releases its lock by the
// commands that read and write.
func (s Spec) FusesLock() bool { return s.params.Text(writeParam) == writeFused }

// Value returns the value of the parameter called name, or its default; false
// for one that nobody declares.
func (s Spec) Value(name string) (string, bool) {
	if i := slices.Index(s.parameters(), name); i >= 0 {
		return s.params.Text(s.Params()[i]), true
	}
	return "", false
}

// Promises is what the spec's lock claims with the spec's parameters. A strategy that
// takes no lock claims nothing.
func (s Spec) Promises() lock.Promises { return s.lock.PromisesOf(s.params) }

// CheckServer returns an error that names the command, and the versions that have it, if the
// server lacks one that the spec sends; another one if that cannot be found out.
func (s Spec) CheckServer(ctx context.Context, rdb *redis.Client, keys market.Keys) error {
	for _, c := range s.lock.NewerCommands(s.params) {
		if err := c.Check(ctx, rdb, keys.Lock("preflight")); err != nil {
			return err
		}
	}

	if s.params.Text(unknownParam) == unknownKill {
		if err := checkKill(ctx, rdb); err != nil {
			return err
		}
	}

	if n := s.params.Count(replicasParam); n > 0 {
		return checkReplicas(ctx, rdb, n)
	}
	return nil
}

// Open makes a Purchaser for one worker, on the connections of env, of which it sets Locker and
// Params, and Process if that is nil. Close the closer when the worker ends: it is nil only
// if there is an error. That wraps lock.ErrServers if env names other servers than the lock needs.
func (s Spec) Open(env Env) (market.Purchaser, io.Closer, error) {
	// The purchaser is closed before the lock that it uses: Closers close in reverse.
	env.Params = s.params
	var opened redisconn.Closers
	if env.Process == nil {
		env.Process = new(lock.ProcessState)
		opened = append(opened, env.Process)
	}

	if _, locked := s.Lock(); locked {
		var err error
		env.Locker, err = s.OpenLock(env)
		if err != nil {
			return nil, nil, errors.Join(err, opened.Close())
		}
		if c, ok := env.Locker.(io.Closer); ok {
			opened = append(opened, c)
		}
	}

	purchaser, closer, err := s.strategy.New(env)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open strategy %s: %w", s, err), opened.Close())
	}
	if closer != nil {
		opened = append(opened, closer)
	}
	return purchaser, opened, nil
}

// OpenLock makes the spec's Locker for one worker, on the connections of env.
func (s Spec) OpenLock(env Env) (lock.Locker, error) {
	newClient := env.NewLockClient
	if newClient == nil {
		newClient = env.NewClient
	}

	locker, err := s.lock.New(lock.Env{
		ClientEnv: env.ClientEnv,
		Redis:     cmp.Or(env.LockRedis, env.Redis),
		NewClient: newClient,
		Key:       env.Keys.Lock,
		Params:    s.params,
		Servers:   env.Servers,
		Traffic:   env.Traffic,
		Process:   env.Process,
	})
	if err != nil {
		return nil, fmt.Errorf("open lock %s: %w", s.lock.Name, err)
	}
	return locker, nil
}

// LockKeys enumerates the keys besides the market's own that a run with this
// spec may have left there.
func (s Spec) LockKeys(keys market.Keys, m market.RunNote) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true // false: whoever ranges over the keys has stopped, and none may follow
		leaves := func(key string) bool {
			more = more && yield(key)
			return more
		}

		if s.strategy.Keys != nil {
			s.strategy.Keys(keys, m, leaves)
		}
		if idempotent(s.params) {
			leaves(keys.Outcomes())
		}

		elsewhere := len(s.lock.AllKeys(keys.Lock(""))) == 0 // the lock leaves nothing in this Redis
		if s.strategy.Locks == nil || elsewhere && !registers(s.params) {
			return
		}

		s.strategy.Locks.all(m, func(name string) bool {
			if registers(s.params) {
				leaves(keys.Fence(name))
			}
			for _, key := range s.lock.AllKeys(keys.Lock(name)) {
				leaves(key)
			}
			return more
		})
	}
}
