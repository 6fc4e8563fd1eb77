// Package fault shows what strategies and locks lose when a client, a server or the
// network between them fails. In a [Scenario] a few clients buy the same item, and one of
// them is stopped, killed, cut off or given a wrong clock at a chosen step or command,
// never by luck. A [findings.Finding] holds what is wrong with coins and items afterwards,
// and how long others were kept out. Both are observed: what a lock declares decides only
// which scenarios apply to it and whether it broke a promise.
//
// A client is a child process, because only a process can be paused or killed with
// everything in it. (While a goroutine is held, its lock's watchdog goes on renewing: a
// scenario of its own.) It is this program once more, whose main function, or TestMain in
// tests, first calls [ServeChild]. It is held at the steps that its strategy and lock
// report: see package step. Only step.Waiting tells that a lock keeps it out. A scenario
// that strikes at a step does not apply to a scheme that does not report that step.
package fault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify"
)

// A Scenario is one thing that goes wrong: what the clients do, and what fails
// at which point.
type Scenario struct {
	Name  string // as on the command line
	Title string // one line
	// Applies says why it cannot happen to a scheme; empty: it can, as far as is known
	// beforehand. Nil admits all.
	Applies func(Scheme) string
	Needs   string        // what the scenario starts besides a Redis: shown to users
	Lease   time.Duration // how long locks last in it; 0 means TTL
	// Promise is that of a lock that survives this, by its name in lock.Promises.List;
	// empty: no promise is about it.
	Promise   string
	OnCluster bool // the market is on a Redis Cluster of the scenario's own

	// Tells the clients what to do, and says what came of it; an error ends it, see fail.
	run func(*setup) observed
}

// observed is what a scenario saw. Nothing in it may follow from what a lock declares.
// See setup.conclude, setup.concludeBeside.
type observed = findings.Finding

func longer(a, b verify.KeptOut) verify.KeptOut {
	all := verify.KeptOuts()
	return all[max(slices.Index(all, a), slices.Index(all, b))]
}

// DefaultScenarios lists the scenarios that run if none is named, in the order in which
// they are shown.
func DefaultScenarios() []Scenario {
	return slices.Concat(
		crashes, expiries, clocks, networkFaults, serverFaults, readerFaults, severalClients)
}

// ErrScenario is returned, wrapped, for a name that no scenario has. The
// message names the known ones.
var ErrScenario = errors.New("invalid scenario")

// ScenariosNamed returns the scenarios of these names, each once, in the order given.
// The error wraps ErrScenario.
func ScenariosNamed(names ...string) ([]Scenario, error) {
	all := Scenarios()
	known := wording.Names(all, func(sc Scenario) string {
		return sc.Name
	})
	return each(names, func(name string) (Scenario, error) {
		at := slices.Index(known, name)
		if at < 0 {
			unknown := &strategies.UnknownError{What: "scenario", Name: name, Known: known}
			return Scenario{}, fmt.Errorf("%w: %w", ErrScenario, unknown)
		}
		return all[at], nil
	})
}

// each is what some names stand for, each once, in the order given.
func each[T any](names []string, of func(name string) (T, error)) ([]T, error) {
	var chosen []T
	for i, name := range names {
		one, err := of(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names[:i], name) {
			chosen = append(chosen, one)
		}
	}
	return chosen, nil
}

// broken names the promise that a verdict breaks; empty: none.
func (sc Scenario) broken(promises lock.Promises, v verify.Verdict) string {
	stuck := v == verify.StuckForGood || v == verify.Failing
	if sc.Promise == "exclusive" || sc.Promise == "owner-only release" {
		stuck = false // a client that gets in nowhere is in nobody's way
	}
	made := slices.Contains(promises.List(), lock.Promise{Name: sc.Promise, Made: true})
	if made && (v.Harm() || stuck) {
		return sc.Promise
	}
	return ""
}

// cannotHappen says why the scenario cannot happen to a scheme, as far as is known
// beforehand; empty if it can.
func (c cell) cannotHappen() string {
	if c.scenario.Applies == nil {
		return ""
	}
	return c.scenario.Applies(c.scheme)
}

// A notPlayed ends a run that turns out to observe nothing: the verdict on that, and why.
type notPlayed struct {
	verdict verify.Verdict
	why     string
}

func (n notPlayed) Error() string { return n.why }

// only lets a scenario apply to schemes for which is holds, and gives the others a reason.
func only(is func(Scheme) bool, otherwise string) func(Scheme) string {
	return func(s Scheme) string {
		if is(s) {
			return ""
		}
		return otherwise
	}
}

var needsLock = only(Scheme.TakesLock, "it takes no lock of marketsim's")

// lockThat is only for schemes with a lock, too.
func lockThat(is func(Scheme) bool, otherwise string) func(Scheme) string {
	return func(s Scheme) string {
		return cmp.Or(needsLock(s), only(is, otherwise)(s))
	}
}

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
	spec, err := parse(c, name)
	if err != nil {
		return Scheme{}, err
	}
	if err := checkFree(spec); err != nil {
		return Scheme{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, err)
	}
	s := Scheme{Spec: spec, Name: name, catalogue: c}
	s.Lock, _ = spec.Lock()
	_, err = s.withLease(TTL)
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

// parse reads a scheme's name: a strategy, or a lock to be put under the strategy fine.
func parse(c strategies.Catalogue, name string) (strategies.Spec, error) {
	if slices.Contains(c.StrategyNames(), name) { // which may have a colon
		return c.Parse(name)
	}

	known := slices.Concat(c.StrategyNames(), c.LockNames())
	head, _, _ := strings.Cut(strings.ReplaceAll(name, "+", ":"), ":")
	switch at := slices.Index(known, head); {
	case at < 0:
		unknown := &strategies.UnknownError{What: "lock or strategy", Name: head, Known: known}
		return strategies.Spec{}, fmt.Errorf("%w %q: %w", strategies.ErrSpec, name, unknown)
	case at >= len(c.Strategies):
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
// unless its name has a poll of its own.
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
