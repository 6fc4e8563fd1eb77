package fault

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestMain lets this program be the clients of scenarios, each of which is a
// process of its own.
func TestMain(m *testing.M) {
	ServeChild(withQuiet)
	testkit.MaxParallel(8) // they mostly wait
	testkit.VerifyNoLeaks(m)
}

// liar says that it did what it was asked for, and does nothing.
type liar struct{ strategies.Env }

func (l liar) List(context.Context, market.Listing) (market.Receipt, error) {
	return market.Receipt{}, nil
}

func (l liar) Purchase(ctx context.Context, _ market.Order) (market.Receipt, error) {
	for _, at := range []step.Name{step.Read, step.BeforeWrite, step.Written} {
		l.Steps.At(ctx, at)
	}
	return market.Receipt{}, nil
}

// withQuiet is the catalogue, with a lock that does not say that it waits, and a liar.
func withQuiet() strategies.Catalogue {
	c := catalogue.Full()
	c.Strategies = append(c.Strategies, strategies.Strategy{
		Name: "liar", New: func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			return liar{env}, nil, nil
		},
	})

	at := slices.IndexFunc(c.Locks, func(k lock.Kind) bool {
		return k.Name == "set-px"
	})
	quiet := c.Locks[at]
	quiet.Name = "quiet"
	quiet.New = withoutWaitingStep(quiet.New)
	c.Locks = append(c.Locks, quiet)
	return c
}

// withoutWaitingStep opens what open does, and keeps to itself that a worker waits.
func withoutWaitingStep(
	open func(lock.Env) (lock.Locker, error)) func(lock.Env) (lock.Locker, error) {

	return func(env lock.Env) (lock.Locker, error) {
		all := env.Steps
		env.Steps = func(ctx context.Context, at step.Name) {
			if at != step.Waiting {
				all(ctx, at)
			}
		}
		return open(env)
	}
}

// startRunner starts a runner for the length of a test.
func startRunner(t testing.TB) *Runner {
	t.Helper()
	r := testkit.Must(StartRunner(t.Context()))(t)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the runner: %v", err)
		}
	})
	return r
}

// scheme returns the scheme of a name.
func scheme(t testing.TB, name string) Scheme {
	t.Helper()
	s := testkit.Must(SchemeOf(withQuiet(), name))(t)
	return s
}

// named returns the scenario of a name.
func named(t testing.TB, name string) Scenario {
	t.Helper()
	chosen := testkit.Must(ScenariosNamed(name))(t)
	return chosen[0]
}

// children counts this process's child processes, dead ones that nobody waited
// for included.
func children(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		testkit.Require(t, "proc", "child processes are counted on Linux only")
	}

	stats := testkit.Must(filepath.Glob("/proc/[0-9]*/stat"))(t)
	n := 0
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}

		// pid (name) state parent ...; a name may hold anything
		_, after, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		var state string
		var parent int
		if _, err := fmt.Sscan(after, &state, &parent); err != nil {
			t.Fatal(err)
		}

		if parent == os.Getpid() {
			n++
		}
	}
	return n
}
