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
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
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
