package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// That something did not happen in time has to be seen in two more tries of three, and
// another harm in one. No more is tried than can matter.
func TestHarmsComeAgain(t *testing.T) {
	for _, c := range []struct {
		harm  verify.Harm
		shown []bool // by each try
		tries int
		want  bool
	}{
		{harm: verify.LockedOut, shown: []bool{true, true}, tries: 2, want: true},
		{harm: verify.LockedOut, shown: []bool{true, false, true}, tries: 3, want: true},
		{harm: verify.LockedOut, shown: []bool{true, false, false}, tries: 3},
		{harm: verify.LockedOut, shown: []bool{false, false}, tries: 2},
		{harm: verify.NoLongerLocks, shown: []bool{false, true, false}, tries: 3},
		{harm: verify.DoesNotEnd, shown: []bool{false, true, true}, tries: 3, want: true},
		{harm: verify.TwoHolders, shown: []bool{false, false, true}, tries: 3, want: true},
		{harm: verify.TwoHolders, shown: []bool{false, false, false}, tries: 3},
	} {
		tries := 0
		got := comesAgain(c.harm, func() bool {
			tries++
			return c.shown[tries-1]
		})
		if got != c.want || tries != c.tries {
			t.Errorf("%s, shown %t: counts: %t after %d tries, want %t after %d",
				c.harm, c.shown, got, tries, c.want, c.tries)
		}
	}
}

// A client that is kept out after a crash is another cause than one that is kept out after a
// cancelled call, or after nothing: one confirms nothing of the others.
func TestCausesOfKeptOut(t *testing.T) {
	crash := []search.Choice{{What: "d"}, {What: string(explore.Die)}}
	cancelled := []search.Choice{{What: string(explore.Cancel)}, {What: "d"}}

	causes := []cause{
		causeOf(verify.LockedOut, crash), causeOf(verify.LockedOut, cancelled),
		causeOf(verify.LockedOut, crash[:1]),
	}

	want := []string{survivesCrash, survivesCancel, "who waits gets in"}
	for i, c := range causes {
		if c.harm != verify.LockedOut || c.breaks != want[i] {
			t.Errorf("%+v, want that it breaks %q", c, want[i])
		}
	}

	if causeOf(verify.TwoHolders, crash) != causeOf(verify.TwoHolders, nil) {
		t.Error("that two hold a lock has one cause with a fault, and another without")
	}
}

// Worlds play side by side, and one that plays alone waits for all others, and they for it.
func TestRivalsWait(t *testing.T) {
	var r rivalry
	r.beside(func() {
		if r.mu.TryLock() {
			t.Error("one plays alone while another one plays")
		}
		if !r.mu.TryRLock() {
			t.Fatal("two do not play side by side")
		}
		r.mu.RUnlock()
	})

	r.alone(func() {
		if r.mu.TryRLock() {
			t.Error("one plays beside another one that plays alone")
		}
	})
}

// What was refuted is told, with its harm and how often it was seen.
func TestRefutedNotes(t *testing.T) {
	got := ProgramResult{
		refuted: map[verify.Harm]int{verify.LockedOut: 2, verify.TwoHolders: 0},
	}.uncountedNotes(locks)
	want := []string{
		`lock: "kept out" was seen in 2 schedules, and not again when nothing else was played beside: ` +
			`that does not count`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// When the time is over no schedule is played again, though a harm was seen: the harm does not
// count, is told, and leaves the promise that it would break unchecked, and no other.
func TestNoTimeToPlayAgain(t *testing.T) {
	w := &world{ctx: t.Context(), rivals: &rivalry{}, until: time.Now()}
	w.begin(locks)
	if w.confirm(verify.TwoHolders, nil) || w.unconfirmed[cause{harm: verify.TwoHolders}] != 1 ||
		len(w.refuted) > 0 {
		t.Errorf("unconfirmed %v, refuted %v", w.unconfirmed, w.refuted)
	}

	found := ProgramResult{unconfirmed: w.unconfirmed, kinds: Kinds()}
	found.tested = map[string]bool{exclusive: true, ownerOnly: true, survivesCrash: true}
	want := []string{
		`lock: "two holders" was seen in 1 schedule, and there was no time to play it again: ` +
			`that does not count`,
	}
	if got := found.uncountedNotes(locks); !slices.Equal(got, want) {
		t.Errorf("it is told as %q, want %q", got, want)
	}

	f := newJudgement()
	f.add(Options{Bounds: explore.Bounds{Preemptions: 1, Faults: 1}}, found)
	for _, p := range f.verdicts() {
		switch {
		case p.Promise == exclusive &&
			(p.State != "unchecked" || !strings.Contains(p.Why, "no time to play it again")):
			t.Errorf("%+v, and what would break it was seen", p)
		case found.tested[p.Promise] && p.Promise != exclusive && p.State != "kept":
			t.Errorf("%+v, which what was seen does not break", p)
		}
	}
}

// What is not confirmed breaks, by its cause, what the same harm breaks once it is.
func TestWhatACauseBreaks(t *testing.T) {
	crash := []search.Choice{{What: string(explore.Die)}}
	for _, c := range []struct {
		of      cause
		program string
		tells   bool // the lock promises to tell of a loss
		want    string
	}{
		{causeOf(verify.TwoHolders, crash), locks, false, exclusive},
		{causeOf(verify.TwoHolders, nil), clockAhead, false, clockIndependent},
		{causeOf(verify.LockedOut, crash), works, false, survivesCrash},
		{causeOf(verify.LockedOut, []search.Choice{{What: string(explore.Cancel)}}),
			locks, false, survivesCancel},
		{causeOf(verify.NotTold, nil), locks, false, ""},
		{causeOf(verify.NotTold, nil), locks, true, noticesLoss},
	} {
		o := Options{NoticesLoss: c.tells}
		if got := o.brokenByLock(c.program, c.of); got != c.want {
			t.Errorf("%+v breaks %q in %s, want %q", c.of, got, c.program, c.want)
		}
	}
}
