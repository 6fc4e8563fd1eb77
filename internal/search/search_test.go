package search_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/internal/search"
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
}

func (l *letters) Play(choose search.Chooser) (search.Played, error) {
	l.plays++
	confused := l.confused != nil && l.confused(l.plays)
	played := search.Played{
		Stalled: l.stalled && confused,
		Diagram: func([]verify.Violation) verify.Diagram { return verify.Diagram{} },
	}
	text, last := "", -1
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
		c, err := choose(options, pending)
		if err != nil {
			return played, err
		}
		played.Steps = append(played.Steps, c)
		last = c.N
		left[c.N]--
		text += string("AB"[c.N])
	}
	if text == l.never {
		played.Harms = []verify.Violation{{Harm: verify.SoldTwice, Text: text}}
	}
	return played, nil
}

func drive(t *testing.T, w *letters, preemptions int) (search.Result, error) {
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
				t.Errorf("%s: %+v after %d plays, want 6 schedules that are each played once", never, r, w.plays)
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
		return func(play int) bool { return play > 1 && play <= 1+misses }
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

// A token says which of its steps cannot be chosen.
func TestTokens(t *testing.T) {
	p := search.Program{Subject: "with/slashes", Name: "two"}
	steps := []search.Choice{{What: search.Deliver, N: 1}, {What: "pause", N: 0, At: 2}}
	subject, name, words, err := search.ParseToken(search.Token(p, steps))
	if err != nil || subject != p.Subject || name != p.Name || !slices.Equal(words, []string{"d2", "pause1-2"}) {
		t.Errorf("%q, %q, %q, %v", subject, name, words, err)
	}
	if _, err := search.Replay(p, &letters{times: 1}, words); err == nil {
		t.Error("a step that cannot be chosen is no error")
	}
}
