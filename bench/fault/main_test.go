package fault

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// A Quiet scheme is one whose lock does not say that it waits.
type Quiet struct{ Purchasing }

func (q Quiet) String() string { return "quiet " + q.Purchasing.String() }

// Open makes a Purchaser whose steps are told but for one.
func (q Quiet) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	all := env.Steps
	env.Steps = func(ctx context.Context, at step.Name) {
		if at != step.Waiting {
			all(ctx, at)
		}
	}
	return q.Purchasing.Open(env)
}

// startRunner starts a runner for the length of a test.
func startRunner(t testing.TB) *Runner {
	t.Helper()
	r, err := StartRunner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	s, err := Of(catalogue.Full(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// named returns the scenario of a name.
func named(t testing.TB, name string) Scenario {
	t.Helper()
	chosen, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

// children counts this process's child processes, dead ones that nobody waited for included.
func children(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		testkit.Require(t, "proc", "child processes are counted on Linux only")
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
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
