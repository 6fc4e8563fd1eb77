package locktest

import (
	"context"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/connect"
	processes "github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// Judge finds in one of our locks, as a program in real time, what the search finds in
// virtual time, with as few preemptions and faults: the proof of both.
func TestJudgeFindsWhatTheSearchFinds(t *testing.T) {
	specs := []string{"set-ex-compare"}
	switch os.Getenv("MARKETSIM_JUDGE") {
	case "":
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=all, or =specs for ten locks")
	case "specs":
		specs = append(specs, "setnx-expire-naive", "setnx-expire", "set-ex-fixed", "set-px", "getset",
			"reentrant", "fenced", "redsync", "redislock")
	}

	testkit.Local(t)
	binary := filepath.Join(t.TempDir(), "marketsim")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/marketsim")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}

	bounds := explore.Bounds{
		Preemptions: 1, Faults: 1, Total: 1, Exhaustive: true, Kinds: processes.Kinds(),
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			virtual, err := search(t, ours(t, spec), bounds, works[0], nil)
			if err != nil {
				t.Fatal(err)
			}

			var real processes.ProgramResult
			// where the machine stands still
			for lease := 500 * time.Millisecond; lease <= 2*time.Second; lease *= 2 {
				real, err = processes.Run(t.Context(), processes.Options{
					Command: []string{binary, "adapter", spec}, Lease: lease, Bounds: bounds,
				})
				if err == nil {
					break
				}
				t.Logf("with leases of %s: %v", lease, err)
			}
			if err != nil {
				t.Fatal(err)
			}

			var judged []explore.Found
			for _, f := range real.Found {
				is := explore.Found{Violation: f.Violation, Preemptions: f.Preemptions, Faults: f.Faults}
				judged = append(judged, is)
			}

			t.Logf("%v in %d schedules, and in %d of virtual time",
				fewest(judged), real.Schedules, virtual.Schedules)
			if found, want := fewest(judged), fewest(virtual.Found); !maps.Equal(found, want) {
				t.Errorf("judge found %v in %d schedules, the search %v in %d",
					found, real.Schedules, want, virtual.Schedules)
			}
		})
	}
}

// fewest are the preemptions and faults of each harm that both can see.
func fewest(all []explore.Found) map[verify.Harm][2]int {
	least := map[verify.Harm][2]int{}
	for _, f := range all {
		if f.Harm != verify.NotTold && f.Harm != verify.ReleasedNothing {
			least[f.Harm] = [2]int{f.Preemptions, f.Faults}
		}
	}
	return least
}

// ours opens a lock of the catalogue as the program does that judge judges.
func ours(t *testing.T, name string) Open {
	t.Helper()
	spec := testkit.Must(catalogue.Full().Parse("fine:" + name))(t)
	keys := testkit.Must(market.NewKeys("judged:"))(t)

	return func(ctx context.Context, w Worker) (Lock, io.Closer, error) {
		spec := suite.WithDefaults(catalogue.Full(), spec, map[param.Role]time.Duration{
			param.Lease: w.TTL, param.Poll: 50 * time.Millisecond, param.Timeout: 4 * w.TTL,
		})

		dialer := redisconn.Over(func(ctx context.Context) (net.Conn, error) {
			return w.Dial(ctx, "tcp", "")
		})
		env := strategies.Env{
			ClientEnv: market.ClientEnv{Number: w.Number},
			Keys:      keys,
			Process:   new(lock.ProcessState),
		}
		c, err := connect.Open(ctx, spec, connect.MarketServers{Market: dialer}, connect.Counters{}, env)
		if err != nil {
			return nil, nil, err
		}

		locker, err := spec.OpenLock(c.Env)
		return func(ctx context.Context, name string) (func(context.Context) error, error) {
			l, err := locker.Acquire(ctx, name)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}, c, err
	}
}
