package fault

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// TestStoodStill: where the program was stopped for longer than the times of a scenario
// allow, nothing is said of the scheme.
func TestStoodStill(t *testing.T) {
	watch := watchStillness(lookEvery)
	if stood := watch.end(); stood > time.Second {
		t.Errorf("it stood still for %s", stood)
	}

	for _, c := range []struct {
		times int
		want  verify.Verdict
	}{{0, "sold twice"}, {1, "sold twice"}, {attempts, verify.Unavailable}} {
		runs := 0
		f, err := startRunner(t).runCell(t.Context(), cell{withLeases(TTL/2, func(s *setup) observed {
			runs++
			if runs <= c.times {
				stopMyself(t, s.ttl/2)
			}
			return observed{Harm: verify.SoldTwice, Why: "seen"}
		}), scheme(t, "watch")})

		named := strings.HasPrefix(f.Why, "the machine stood still for ")
		if err != nil || f.Verdict != c.want || named != (c.want == verify.Unavailable) {
			t.Errorf("stopped %d times: %+v, %v; want %s", c.times, f, err, c.want)
		}
	}
}

// TestClientStoodStill is the same where somebody else has stopped a client alone. A
// pause of the scenario is none. On a busy machine a process stops up to 0.1 s after it
// was told to.
func TestClientStoodStill(t *testing.T) {
	t.Parallel()
	for _, stops := range []func(c *client){
		func(c *client) {
			c.check(c.process.Pause())
			c.setup.wait(TTL / 2)
			c.check(c.process.Resume())
		},
		func(c *client) {
			c.pause()
			c.setup.wait(TTL / 2)
			c.resume()
		},
	} {
		var paused bool
		f, err := startRunner(t).runCell(t.Context(), cell{custom(func(s *setup) observed {
			c := s.client("a client")
			stops(c)
			c.buy(1)
			c.finish()
			paused = c.paused
			return observed{Harm: verify.SoldTwice, Why: "seen"}
		}), scheme(t, "watch")})

		want := verify.Verdict("sold twice")
		if !paused {
			want = verify.Unavailable
		}

		if err != nil || f.Verdict != want {
			t.Errorf("paused %v: %+v, %v; want %s", paused, f, err, want)
		}
	}
}

// TestServerStoodStill is the same where somebody else has stopped a server alone, whose
// locks then run out: the scenario is played again, and not played in the end. A pause of
// the scenario is none.
func TestServerStoodStill(t *testing.T) {
	t.Parallel()
	testkit.Local(t) // an embedded server cannot be stopped alone

	marketStops := func(s *setup) { s.stopsAlone(s.server.Process) }
	for _, c := range []struct {
		name  string
		stops func(s *setup)
		times int
		want  verify.Verdict
	}{
		{"the market's, once", marketStops, 1, "sold twice"},
		{"the market's, always", marketStops, attempts, verify.Unavailable},
		{"that of the locks", func(s *setup) {
			s.stopsAlone(s.locksApart().Process)
		}, attempts, verify.Unavailable},
		{"by the scenario", func(s *setup) {
			server := s.locksApart()
			s.pauses(server)
			s.wait(TTL / 2)
			check(server.Resume())
		}, attempts, "sold twice"},
		{"killed", func(s *setup) {
			check(s.locksApart().Kill())
			s.wait(TTL / 2)
		}, attempts, "sold twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == verify.Unavailable && !testkit.Long() {
				t.Skip("it is played ten times: set MARKETSIM_LONG=all")
			}

			runs := 0
			f, err := startRunner(t).runCell(t.Context(), cell{custom(func(s *setup) observed {
				runs++
				if runs <= c.times {
					c.stops(s)
				}
				return observed{Harm: verify.SoldTwice, Why: "seen"}
			}), scheme(t, "watch")})

			named := strings.HasPrefix(f.Why, "a server stood still for ")
			if err != nil || f.Verdict != c.want || named != (c.want == verify.Unavailable) {
				t.Errorf("%+v, %v after %d runs; want %s", f, err, runs, c.want)
			}
			if again := c.times == 1; again && runs < 2 { // more often if the machine stood still, too
				t.Errorf("it was played %d times, and is to be played again", runs)
			}
		})
	}
}

// TestServerThatStoodStillAccusesNobody: a renewal waits for a server that stands still, and the
// lease runs out. That was called a sale to two buyers.
func TestServerThatStoodStillAccusesNobody(t *testing.T) {
	if !testkit.Long() {
		t.Skip("a scenario is played ten times: set MARKETSIM_LONG=all")
	}
	t.Parallel()
	testkit.Local(t) // an embedded server cannot be stopped alone

	stuck := named(t, "stuck-goroutine")
	play := stuck.run
	stuck.run = func(s *setup) observed {
		stops := time.AfterFunc(TTL/2, func() { // while the holder is held before its write
			_ = s.server.Pause()
			time.AfterFunc(TTL, func() { _ = s.server.Resume() })
		})
		defer stops.Stop()
		return play(s)
	}

	f, err := startRunner(t).runCell(t.Context(), cell{stuck, scheme(t, "set-px+watchdog")})
	const why = "a server stood still for "
	if err != nil || f.Verdict != verify.Unavailable || !strings.HasPrefix(f.Why, why) {
		t.Errorf("%+v, %v; want that it is not played", f, err)
	}
}

// stopsAlone stops a process for a while, behind the scenario's back.
func (s *setup) stopsAlone(p *process.Process) {
	check(p.Pause())
	s.wait(TTL / 2)
	check(p.Resume())
}

// stopMyself stops this process for a while, which another one starts again. On a busy
// machine it takes a moment until all of its threads have stopped.
func stopMyself(t *testing.T, d time.Duration) {
	t.Helper()
	me := os.Getpid()
	script := fmt.Sprintf("kill -STOP %[1]d; while grep -q '^State:.[RSD]' /proc/%[1]d/task/*/status; do :; done; "+
		"/bin/sleep %.3[2]f; kill -CONT %[1]d", me, d.Seconds())
	out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
