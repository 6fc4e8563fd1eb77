package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/strategies"
)

// ErrScenario is returned, wrapped, for a name that no scenario has. The message names the known ones.
var ErrScenario = errors.New("invalid scenario")

// Named returns the scenarios of these names, each once, in the order given. The error wraps ErrScenario.
func Named(names ...string) ([]Scenario, error) {
	var known []string
	for _, sc := range All() {
		known = append(known, sc.Name)
	}
	var chosen []Scenario
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("%w: %s", ErrScenario, strategies.Unknown("scenario", name, known))
		}
		if !slices.Contains(names[:i], name) {
			chosen = append(chosen, All()[at])
		}
	}
	return chosen, nil
}

// Names are the subjects that are played when nobody chooses, in the order in which they are shown: two strategies
// without a lock, every lock of the catalogue, and those whose parameters change what befalls them.
func Names(c strategies.Catalogue) []string {
	names := []string{"watch", "unsafe"}
	for _, k := range c.Locks {
		names = append(names, k.Name)
	}
	return append(names,
		"set-px:expiry=pxat", // the end of the lease by the client's clock
		"set-px+watchdog",    // renewed as long as its process lives
		"redisson:lease=1s",  // not renewed
		"fenced:fencing=off", // the market compares fences, or does not
		"fenced:fencing=on",
		"zookeeper:fencing=off",
		"zookeeper:fencing=on",
		"etcd:fencing=off",
		"etcd:fencing=on",
		"set-px:fencing=token", // the market compares random tokens
	)
}

// Subjects returns the subjects of these names, each once, in the order given. The error wraps strategies.ErrSpec.
func Subjects(c strategies.Catalogue, names ...string) ([]Subject, error) {
	var chosen []Subject
	for i, name := range names {
		s, err := Of(c, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names[:i], name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// parse reads a subject's name: a strategy, or a lock to be put under the strategy fine.
func parse(c strategies.Catalogue, name string) (strategies.Spec, error) {
	head := name
	if end := strings.IndexAny(name, ":+"); end >= 0 {
		head = name[:end]
	}
	var known []string
	for _, s := range c.Strategies {
		if s.Name == head {
			return c.Parse(name)
		}
		known = append(known, s.Name)
	}
	for _, k := range c.Locks {
		if k.Name == head {
			return c.Parse("fine:" + name)
		}
		known = append(known, k.Name)
	}
	return strategies.Spec{}, fmt.Errorf("%w %q: %s", strategies.ErrSpec, name,
		strategies.Unknown("lock or strategy", head, known))
}
