package judge_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == adapter { // controls have a word more
		adapt(os.Args[2])
		return
	}

	if os.Getenv("NODE_PATH") == "" { // for all programs in Node.js: Debian's packages are there
		_ = os.Setenv("NODE_PATH", "/usr/share/nodejs")
	}
	testkit.MaxParallel(8) // they mostly wait
	testkit.VerifyNoLeaks(m)
}

// options judge this program as a lock of a kind.
func options(t *testing.T, kind string, b explore.Bounds) judge.Options {
	t.Helper()
	testkit.Local(t) // or there is nothing to judge it on
	b.Exhaustive, b.Schedules = true, 10_000
	return judge.Options{Command: []string{os.Args[0], adapter, kind}, Bounds: b, Pairs: 4}
}

// retried tries with longer and longer leases, so that a machine that stands still
// for a moment does not matter.
func retried(t *testing.T, o judge.Options, do func(judge.Options) error) {
	t.Helper()
	var err error
	for o.Lease = 500 * time.Millisecond; o.Lease <= 4*time.Second; o.Lease *= 2 {
		err = do(o)
		if err == nil {
			return
		}
		t.Logf("with leases of %s: %v", o.Lease, err)
	}
	t.Error(err)
}

// A release by GET, then DEL, and one by DEL, free another's lock. One that lets it
// last for ever keeps others out.
func TestReplayOfAToken(t *testing.T) {
	alone(t)
	t.Parallel()
	for _, c := range []struct {
		kind, token string
		harm        verify.Harm
	}{
		{"get-del", "x5/getdel/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2", verify.FreedAnothers},
		{"fixed", "x5/fixed/lock/d1.d1.pause1.d2.w1.d1.d1.d1.d1.d2.d2", verify.FreedAnothers},
		{"stays", "x5/stays/lock/d1.d1.d1.d1.d2", verify.LockedOut},
	} {
		retried(t, options(t, c.kind, explore.Bounds{}), func(o judge.Options) error {
			found, err := judge.Replay(t.Context(), o, c.token)
			if err == nil && found.Harm != c.harm {
				err = fmt.Errorf("%s: %v, want %s\n%s", c.kind, found.Violation, c.harm, found.Diagram)
			}
			return err
		})
	}
}

// A client that asks without a pause does not keep the other one's polls from the server: Bob has
// set his token, and has yet to see it there, while Alice asks who has the lock.
func TestPollsTakeTurns(t *testing.T) {
	alone(t)
	t.Parallel()
	finds(t, options(t, "looks again", explore.Bounds{Preemptions: 1}))
}

// What goes wrong with a later program is told, and what was found before it counts.
func TestJudgeTellsOfALaterProgram(t *testing.T) {
	retried(t, options(t, "buy one item", explore.Bounds{}), func(o judge.Options) error {
		o.Purchase = true
		o.Pairs = 2

		r, err := judge.Judge(t.Context(), o)
		if r == nil || len(r.Searches) != 2 || r.Searches[0].Why != "" {
			return fmt.Errorf("%+v: %w", r, err)
		}

		why := r.Searches[1].Why
		if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(why, "has ended") {
			t.Errorf("a program that does not buy from one account: %v, and stored is %q", err, why)
		}
		return nil
	})
}

// finds checks which harms a search finds in a lock if its clients are stopped.
// It takes a machine of its own.
func finds(t *testing.T, o judge.Options, want ...verify.Harm) {
	t.Helper()
	retried(t, o, func(o judge.Options) error {
		r, err := judge.Run(t.Context(), o)
		if err != nil {
			return err
		}

		var harms []verify.Harm
		for _, f := range r.Found {
			harms = append(harms, f.Harm)
		}
		slices.Sort(harms)
		if !slices.Equal(harms, want) {
			return fmt.Errorf("%q: %q, want %q: %+v", o.Command, harms, want, r.Found)
		}
		return nil
	})
}

var stops = explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Pause}}

// alone skips a search that would conclude nothing while many other tests run. CI has two such
// tests at the same time, which mostly wait: as many as are parallel.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("MARKETSIM_JUDGE") == "" {
		t.Skip("takes a machine of its own: set MARKETSIM_JUDGE=all")
	}
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	alone(t)
	t.Parallel()
	finds(t, options(t, "polls seldom", stops), verify.Outlived)
	finds(t, options(t, "get-del", stops), verify.FreedAnothers, verify.NotTold, verify.Outlived)
}

// A promise is kept only where something has put it to the test and the search has come far
// enough, and broken where that shows the contrary.
func TestJudgedPromises(t *testing.T) {
	alone(t)
	t.Parallel()
	floor := explore.Bounds{Preemptions: 1, Faults: 1, Total: 1}
	retried(t, options(t, "says one", floor), func(o judge.Options) error {
		r, err := judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}
		var states []string
		for _, p := range r.Promises {
			states = append(states, p.State)
		}
		want := []string{"kept", "kept", "kept", "kept", "broken", "kept", "not offered", "kept"}
		if !slices.Equal(states, want) {
			return fmt.Errorf("%q, want %q: %+v", states, want, r.Promises)
		}

		const trusts = "clock-independent: no clock was seen in what follows, and it was trusted: " +
			"SET argument 2 and EVALSHA argument 4"
		if !slices.Contains(r.Notes, trusts) {
			t.Errorf("the notes are %q, want %q", r.Notes, trusts)
		}

		o.Bounds.Schedules = 5
		r, err = judge.Judge(t.Context(), o)
		if err != nil {
			return err
		}
		const stopped = "schedules by the limit of 5 schedules" // or a few more, which were under way
		if p := r.Promises[0]; p.State != "unchecked" || !strings.HasSuffix(p.Why, stopped) {
			t.Errorf("too little was searched, and %+v, want %q", p, stopped)
		}
		return nil
	})
}

func TestJudgeFindsWhatIsWrongWithPurchases(t *testing.T) {
	alone(t)
	t.Parallel()
	for _, c := range []struct {
		kind, market string
		want         []verify.Harm
	}{
		{"buy", "one-item", nil}, {"buy late", "one-item", []verify.Harm{verify.SoldTwice}},
		{"buy late", "one-account", []verify.Harm{verify.Overdrawn}},
		{"buy again", "one-item", []verify.Harm{verify.ToldNo}},
	} {
		bounds := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Lose}}
		o := options(t, c.kind, bounds)
		o.Program = c.market
		finds(t, o, c.want...)
	}
}

// If the clock of a client is ahead, a lock by clocks lets it in.
func TestJudgedClock(t *testing.T) {
	alone(t)
	o := options(t, "", explore.Bounds{Preemptions: 1})
	o.Command = []string{"/usr/bin/python3", "testdata/lock.py", "clock"}
	o.Program = "lock-clock"
	o.Bounds.Kinds = nil
	finds(t, o, verify.TwoHolders)
	o.Program = "lock-clock-behind"
	finds(t, o, verify.TwoHolders)
	o.Program = "lock"
	finds(t, o)
}

// A client that fails in rehearsal, or has lost its lock, is asked again: the machine may have
// stood still.
func TestLostInRehearsal(t *testing.T) {
	t.Parallel()
	retried(t, options(t, "lost at first", explore.Bounds{}), func(o judge.Options) error {
		o.Pairs = 1
		found, err := judge.Replay(t.Context(), o, "x5/any/lock/d1.d1.d1.d1.d1.d1.d2.d2.d2")
		if err == nil && found.Harm != "" {
			err = fmt.Errorf("%+v", found)
		}
		return err
	})
}

// What cannot be judged is told in a sentence.
func TestBadAdapters(t *testing.T) {
	alone(t)
	t.Parallel()
	for kind, says := range map[string]string{
		"ends": "; its last lines are\n\tthis is why", "other words": `said "certainly", not "acquired"`,
		"no lock":  "it has done all that it was told; it has sent nothing to 127.0.0.1:",
		"own lock": "two clients were inside at once",
		"lost":     `said "lost" 5 times, though nobody else takes that lock`,
		"TLS":      "it has asked for TLS, and is given a single server without TLS",
		"CLUSTER":  "it has asked for CLUSTER, and",
		"SENTINEL": "asked for SENTINEL,",
		"READONLY": "asked for READONLY,",
	} {
		o := options(t, kind, explore.Bounds{})
		o.Lease = 500 * time.Millisecond // or it is tried with longer ones, too
		_, err := judge.Run(t.Context(), o)
		if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", kind, err, says)
		}
	}

	o := options(t, "compare", explore.Bounds{})
	o.Controls = o.Command // sound, and not the controls
	_, err := judge.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "was played as a control") {
		t.Errorf("controls that do no harm: %v", err)
	}

	o.Command = []string{"/nowhere/lock"}
	_, err = judge.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "/nowhere/lock") {
		t.Errorf("a program that is not there: %v", err)
	}

	o.Server = backend.Local{Program: "/nowhere/redis"}
	if _, err := judge.Run(t.Context(), o); !errors.Is(err, process.ErrUnavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
}

// A program that ends while the lock is another's has ended, and is not one whose lock has no
// lease.
func TestProgramThatEndsWhenItWaits(t *testing.T) {
	t.Parallel()
	o := options(t, "ends when it waits", explore.Bounds{})
	o.Lease = 500 * time.Millisecond // or it is tried with longer ones, too
	_, err := judge.Run(t.Context(), o)
	const says = "has ended; its last lines are\n\tit cannot wait"
	if !errors.Is(err, judge.ErrAdapter) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v, want %q", err, says)
	}
}
