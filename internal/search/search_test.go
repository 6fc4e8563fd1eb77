package search_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
)

// letters is a World of two clients that append their letter to a text, as often as times
// says. Harm is done if the text is what it must not be.
type letters struct {
	times    int
	never    string
	plays    int
	confused func(play int) bool // whether the clients do something else in a play; may be nil
	stalled  bool                // the machine is said to be the reason
	takes    time.Duration       // a play
	learns   func(play int) bool // whether a play has to be played again; may be nil
	// The state after a text, whoever was last; may be nil.
	state func(text string, last int) string
}

func (l *letters) Play(choose search.Chooser) (search.Played, error) {
	l.plays++
	time.Sleep(l.takes) // of virtual time: see TestTime
	confused := l.confused != nil && l.confused(l.plays)
	played := search.Played{
		Stalled: l.stalled && confused,
		Diagram: func([]verify.Violation) verify.Diagram {
			return verify.Diagram{}
		},
	}

	text := ""
	last := -1
	left := []int{l.times, l.times}
	for left[0]+left[1] > 0 {
		pending := []string{"", ""}
		var options []search.Choice
		first := max(0, last)
		for _, i := range []int{first, 1 - first} {
			if left[i] == 0 {
				continue
			}
			pending[i] = "append"
			preempts := last >= 0 && i != last && left[last] > 0
			options = append(options, search.Choice{What: search.Deliver, N: i, Preempt: preempts})
		}

		if confused {
			pending = []string{"something", "else"}
		}
		at := search.ChoicePoint{Options: options, Pending: pending}
		if l.state != nil {
			at.State = func() string {
				return l.state(text, last)
			}
		}

		c, err := choose(at)
		if err != nil {
			return played, err
		}

		played.Steps = append(played.Steps, c)
		last = c.N
		left[c.N]--
		text += string("AB"[c.N])
	}

	if l.learns != nil && l.learns(l.plays) {
		return played, search.ErrAgain
	}
	if text == l.never {
		played.Harms = []verify.Violation{{Harm: verify.SoldTwice, Text: text}}
	}
	return played, nil
}

func drive(t *testing.T, w *letters, preemptions int) (search.Summary, error) {
	t.Helper()
	return search.Drive(t.Context(), search.Options{
		Program: search.Program{Subject: "letters", Name: "two"},
		Bounds:  search.Bounds{Preemptions: preemptions},
		Worlds:  []search.World{w},
	})
}

// A harm is found with as few preemptions as it takes, and its token does it again.
func TestDriveAndReplay(t *testing.T) {
	for never, preemptions := range map[string]int{"AABB": 0, "ABBA": 1, "ABAB": 2, "AAAA": -1} {
		w := &letters{times: 2, never: never}
		r, err := drive(t, w, 2)

		switch {
		case err != nil:
			t.Errorf("%s: %v", never, err)
		case preemptions < 0:
			if len(r.Found) > 0 || r.Schedules != 6 || w.plays != 6 {
				t.Errorf("%s: %+v after %d plays, want 6 schedules that are each played once",
					never, r, w.plays)
			}
		case len(r.Found) != 1 || r.Found[0].Preemptions != preemptions:
			t.Errorf("%s: found %+v, want one with %d preemptions", never, r.Found, preemptions)
		default:
			_, _, steps, err := search.ParseToken(r.Found[0].Token)
			if err != nil {
				t.Fatal(err)
			}

			again, err := search.Replay(search.Program{}, w, steps)
			if err != nil || again.Text != never {
				t.Errorf("%s: its token does %+v: %v", never, again.Violation, err)
			}
		}
	}
}

// A schedule that misses its point is played twice more, and ten times more where the
// machine stood still. A point that is missed always is lost, and too many are an error.
func TestRetries(t *testing.T) {
	once := func(misses int) func(int) bool {
		return func(play int) bool {
			return play > 1 && play <= 1+misses
		}
	}

	for name, c := range map[string]struct {
		world letters
		lost  bool
	}{
		"missed twice":             {letters{confused: once(2)}, false},
		"missed three times":       {letters{confused: once(3)}, true},
		"stalled, and then missed": {letters{confused: once(12), stalled: true}, false},
		"stalled for too long":     {letters{confused: once(13), stalled: true}, true},
	} {
		c.world.times = 2
		r, err := drive(t, &c.world, 2)
		if (r.Lost > 0) != c.lost || errors.Is(err, search.ErrChance) != c.lost {
			t.Errorf("%s: %d of %d points are lost: %v", name, r.Lost, r.Points, err)
		}
	}
}

// TestCompleteLosesNothing: a choice that was lost at a cost that the last level does not include
// leaves a search incomplete, too. Here that level is of one fault, which nothing can do, and of
// no preemption.
func TestCompleteLosesNothing(t *testing.T) {
	for _, loses := range []bool{false, true} {
		w := &letters{times: 5, confused: func(play int) bool {
			return loses && play >= 150 && play < 153 // three times: it is lost
		}}
		r, err := search.Drive(t.Context(), search.Options{
			Program: search.Program{Subject: "letters", Name: "two"},
			Bounds:  search.Bounds{Preemptions: search.Unbounded, Faults: 1},
			Worlds:  []search.World{w},
		})
		if err != nil || w.plays < 153 || r.Complete == loses {
			t.Errorf("loses %v: complete %v after %d plays, %v", loses, r.Complete, w.plays, err)
		}
	}
}

// counts is a state of letters: how many of each there are, and whose turn it is. It ends so
// that the search plays on from each such state, beside the schedule that was there first.
func counts(text string, last int) string {
	state := fmt.Sprint(strings.Count(text, "A"), strings.Count(text, "B"), last)
	for n := 0; ; n++ {
		h := fnv.New32a()
		fmt.Fprint(h, state, " ", n)
		if h.Sum32()%100 == 0 {
			return fmt.Sprint(state, " ", n)
		}
	}
}

// A schedule that is played on from a state goes on as its twin, even if the twin was
// itself played on beside a third. A state that does not tell of what does harm is an error.
func TestTwins(t *testing.T) {
	r, err := drive(t, &letters{times: 4, state: counts}, search.Unbounded)
	if err != nil || !r.Complete || r.Merged == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = drive(t, &letters{times: 4, state: counts, never: "ABAAABBB"}, search.Unbounded)
	if err != nil || !strings.Contains(r.Stopped, "did the harms") {
		t.Errorf("a state that lacks the order of letters: %+v, %v", r, err)
	}
}

// Where schedules have to be played again, the search finds what it finds where none has: the
// states of one that does not count are not come to.
func TestAgain(t *testing.T) {
	merges := func(learns func(int) bool) search.Summary {
		state := func(text string, last int) string {
			return fmt.Sprint(len(text), last)
		}
		r, err := drive(t, &letters{times: 4, state: state, learns: learns}, search.Unbounded)
		testkit.Succeeds(t, err)
		return r
	}

	once := merges(nil)
	again := merges(func(play int) bool { return play%2 == 1 })
	if once.Merged == 0 || !reflect.DeepEqual(once, again) {
		t.Errorf("played once %+v, and each again %+v", once, again)
	}
}

// A harm is told of once, when it is found: before the schedules after it are played.
func TestFoundAtOnce(t *testing.T) {
	w := &letters{times: 3, never: "ABBBAA"}
	var told []search.Found
	toldAfter := 0
	r, err := search.Drive(t.Context(), search.Options{
		Bounds: search.Bounds{Preemptions: search.Unbounded, Exhaustive: true},
		Worlds: []search.World{w},
		Found: func(f search.Found) {
			told = append(told, f)
			toldAfter = w.plays
		},
	})
	if err != nil || len(r.Found) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}

	once := len(told) == 1 && told[0].Token == r.Found[0].Token && told[0].Text == w.never
	if !once || toldAfter >= w.plays {
		t.Errorf("told of %+v after %d of %d plays", told, toldAfter, w.plays)
	}
}

// A graded World does one harm in each schedule in which the second client is first, and
// another where the first client ends it, too.
type graded struct{ letters }

func (g *graded) Play(choose search.Chooser) (search.Played, error) {
	played, err := g.letters.Play(choose)
	last := len(played.Steps) - 1
	if played.Steps[0].N == 1 {
		played.Harms = append(played.Harms, verify.Violation{Harm: verify.FreedAnothers})
		if played.Steps[last].N == 0 {
			played.Harms = append(played.Harms, verify.Violation{Harm: verify.TwoHolders})
		}
	}
	return played, err
}

// Each harm has its own count of the schedules that do it, and so has that of a token.
func TestHarmsAreCounted(t *testing.T) {
	g := &graded{letters{times: 2}}
	r, err := search.Drive(t.Context(), search.Options{
		Bounds: search.Bounds{Preemptions: search.Unbounded, Exhaustive: true}, Worlds: []search.World{g},
	})
	if err != nil || len(r.Found) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}

	counts := fmt.Sprint(r.Played, r.Harmful)
	for _, f := range r.Found {
		counts += fmt.Sprintf(", %s %d", f.Harm, f.Harmful)
	}
	// BBAA, BABA and BAAB begin with the second client; the last of them ends with it.
	if want := "6 3, freed another's 3, two holders 2"; counts != want {
		t.Errorf("of all schedules: %s, want %s", counts, want)
	}

	_, _, steps, err := search.ParseToken(r.Found[0].Token)
	testkit.Succeeds(t, err)
	again, err := search.Replay(search.Program{}, g, steps)
	if err != nil || again.Harmful != 1 {
		t.Errorf("played again: %+v, %v", again, err)
	}
}

// A search that ran out of time says so, and what it has found by then, and is not complete.
// How far it is it says every 10 s, with what was found.
func TestTime(t *testing.T) {
	for name, test := range map[string]struct {
		time      time.Duration // 0: as long as it takes
		cause     error
		stopped   string
		schedules int
		lines     []int // the schedules of each line of progress
	}{
		"all":       {0, nil, "", 70, []int{10, 20, 30, 40, 50, 60, 70}},
		"over":      {1, nil, search.OutOfTime, 1, nil},
		"in play":   {24500 * time.Millisecond, nil, search.OutOfTime, 25, []int{10, 20}},
		"of a test": {24500 * time.Millisecond, errors.New("a test"), "a test", 25, []int{10, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.time > 0 {
					within, cancel := context.WithTimeoutCause(ctx, test.time, test.cause)
					defer cancel()
					ctx = within
				}

				var lines []int
				r, err := search.Drive(ctx, search.Options{
					Bounds: search.Bounds{Preemptions: search.Unbounded, Exhaustive: true},
					Worlds: []search.World{&letters{times: 4, never: "AAAABBBB", takes: time.Second}},
					Progress: func(soFar search.Summary) {
						lines = append(lines, soFar.Schedules)
						if len(soFar.Found) != 1 || soFar.Complete {
							t.Errorf("so far %+v", soFar)
						}
					},
				})

				stops := test.stopped != ""
				if err != nil || r.Stopped != test.stopped || r.Complete == stops || (r.Left > 0) != stops {
					t.Errorf("%+v, %v", r, err)
				}
				if r.Schedules != test.schedules || len(r.Found) != 1 || !slices.Equal(lines, test.lines) {
					t.Errorf("%+v, told of after %v schedules", r, lines)
				}
			})
		})
	}
}

// A token says which of its steps cannot be chosen.
func TestTokens(t *testing.T) {
	p := search.Program{Subject: "with/slashes", Name: "two"}
	steps := []search.Choice{{What: search.Deliver, N: 1}, {What: "pause", N: 0, At: 2}}
	subject, name, words, err := search.ParseToken(search.Token(p, steps))
	if err != nil || subject != p.Subject || name != p.Name ||
		!slices.Equal(words, []string{"d2", "pause1-2"}) {

		t.Errorf("%q, %q, %q, %v", subject, name, words, err)
	}
	if _, err := search.Replay(p, &letters{times: 1}, words); err == nil {
		t.Error("a step that cannot be chosen is no error")
	}
}

// What is beyond one preemption and fault together ends when its own time is over, and what
// is below does not.
func TestTimeForWhatIsBeyond(t *testing.T) {
	for name, c := range map[string]struct {
		beyond  time.Time
		stopped string
		plays   int // of 6 schedules, 2 have no preemption, 2 have one, and 2 have two
	}{
		"no limit": {plays: 6},
		"later":    {beyond: time.Now().Add(time.Hour), plays: 6},
		"over":     {beyond: time.Unix(1, 0), stopped: search.OutOfTime, plays: 5},
	} {
		w := &letters{times: 2}
		r, err := search.Drive(t.Context(), search.Options{
			Program: search.Program{Subject: "letters", Name: "two"},
			Bounds:  search.Bounds{Preemptions: 2},
			Worlds:  []search.World{w},
			Beyond:  c.beyond,
		})
		if err != nil || r.Stopped != c.stopped || w.plays != c.plays {
			t.Errorf("%s: stopped by %q after %d plays, %v; want %q after %d",
				name, r.Stopped, w.plays, err, c.stopped, c.plays)
		}
	}
}

// A schedule that has to be played again is, in a replay, too.
func TestReplayPlaysAgain(t *testing.T) {
	w := &letters{times: 2, never: "ABAB", learns: func(plays int) bool { return plays < 3 }}
	found, err := search.Replay(search.Program{}, w, []string{"d1", "d2", "d1", "d2"})
	if err != nil || found.Text != "ABAB" || w.plays != 3 {
		t.Errorf("%+v after %d plays, %v", found, w.plays, err)
	}
}
