// Package fault shows what strategies and locks lose when a client, a server or the network between them fails. In a
// [Scenario] a few clients buy the same item, and one of them is stopped, killed, cut off or given a wrong clock at a
// chosen step or command, never by luck. Afterwards every coin and item is counted. A [verify.Finding] holds two
// answers: what is wrong with coins and items, and how long others were kept out. Both are observed; what a lock
// declares decides which scenarios apply to it and whether it broke a promise, and nothing else.
//
// A client is a child process, because only a process can be paused or killed with everything that runs in it. (A
// goroutine that is held leaves its lock's watchdog renewing: that is a scenario of its own.) The child is this same
// program, so its main function, or TestMain in tests, must first call [ServeChild].
//
// Scenarios hold a client at the steps that its strategy and lock tell of: see package step. By step.Waiting alone a
// scenario knows that a lock keeps a client out; where a lock has no such step as one strikes at, that does not apply.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// A Scenario is one thing that goes wrong: what the clients do, and what fails at which point.
type Scenario struct {
	Name  string // as on the command line
	Title string // one line
	// Applies says why it cannot happen to a scheme; empty if it can, as far as is known beforehand. Nil: to all.
	Applies func(Scheme) string
	Needs   string        // what the scenario starts besides a Redis: shown to users
	Lease   time.Duration // how long locks last in it; 0 means TTL
	// Promise names the promise of a lock, as in lock.Promises.List, that says that it survives this; empty: none does.
	Promise   string
	OnCluster bool // the market is on a Redis Cluster of the scenario's own

	run func(*setup) observed // tells the clients what to do, and says what came of it: where that fails, fail ends it
}

// An observed is what a scenario saw happen to a scheme: what became of money and items, how long others were kept out,
// and why. Nothing in it may follow from what a lock declares. See setup.saw and setup.sawBeside.
type observed = verify.Finding

// worst is the worst of two runs, each answer by itself; the reason is that of the worse run.
func worst(o, other observed) observed {
	mine, theirs := verify.VerdictOf(o.Harm, o.KeptOut), verify.VerdictOf(other.Harm, other.KeptOut)
	if last(verify.Verdicts(), mine, theirs) != mine {
		o.Why = other.Why
	}
	o.Harm = last(verify.Harms(), o.Harm, other.Harm)
	o.KeptOut = last(verify.KeptOuts(), o.KeptOut, other.KeptOut)
	return o
}

func last[T comparable](all []T, a, b T) T {
	if slices.Index(all, b) > slices.Index(all, a) {
		return b
	}
	return a
}

// All lists the scenarios in the order in which they are shown.
func All() []Scenario {
	return slices.Concat(crashes(), expiries(), clocks(), networkFaults(), serverFaults(), readerFaults(),
		severalClients())
}

// ErrScenario is returned, wrapped, for a name that no scenario has. The message names the known ones.
var ErrScenario = errors.New("invalid scenario")

// Named returns the scenarios of these names, each once, in the order given. The error wraps ErrScenario.
func Named(names ...string) ([]Scenario, error) {
	var known []string
	all := slices.Concat(All(), Clustered())
	for _, sc := range all {
		known = append(known, sc.Name)
	}
	var chosen []Scenario
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("%w: %s", ErrScenario, strategies.UnknownName("scenario", name, known))
		}
		if !slices.Contains(names[:i], name) {
			chosen = append(chosen, all[at])
		}
	}
	return chosen, nil
}

// broken names the promise that a verdict breaks; empty: none.
func (sc Scenario) broken(promises lock.Promises, v verify.Verdict) string {
	stuck := v == verify.StuckForGood || v == verify.Failing
	if sc.Promise == "exclusive" || sc.Promise == "owner-only release" {
		stuck = false // who gets in nowhere is in nobody's way
	}
	if sc.Promise == "" || !v.Harm() && !stuck {
		return ""
	}
	for _, p := range promises.List() {
		if p.Name == sc.Promise && p.Made {
			return p.Name
		}
	}
	return ""
}

// cannotHappen says why the scenario cannot happen to a scheme, as far as is known beforehand; empty if it can.
func (c cell) cannotHappen() string {
	if c.scenario.Applies == nil {
		return ""
	}
	return c.scenario.Applies(c.scheme)
}

// A notPlayed ends a run in which it is found out that nothing can be observed: which verdict that is, and why.
type notPlayed struct {
	verdict verify.Verdict
	why     string
}

func (n notPlayed) Error() string { return n.why }

// only keeps out schemes that are not such, for the reason given.
func only(is func(Scheme) bool, otherwise string) func(Scheme) string {
	return func(s Scheme) string {
		if is(s) {
			return ""
		}
		return otherwise
	}
}

var needsLock = only(func(s Scheme) bool { return s.Lock != nil }, "it takes no lock of marketsim's")

// lockThat keeps out schemes without a lock, and those whose lock is not such a one, for the reason given.
func lockThat(is func(Scheme) bool, otherwise string) func(Scheme) string {
	return func(s Scheme) string {
		if why := needsLock(s); why != "" || is(s) {
			return why
		}
		return otherwise
	}
}
