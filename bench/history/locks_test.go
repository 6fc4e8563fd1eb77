package history

import (
	"strings"
	"testing"
)

func held(worker int, called, acquired, releasing int64, fence int64) Hold {
	return Hold{
		Worker: worker, Name: "17", Called: called * 1e6, Acquired: acquired * 1e6, Releasing: releasing * 1e6,
		Released: releasing*1e6 + 1, Fence: fence,
	}
}

func shared(h Hold) Hold  { h.Shared = true; return h }
func noticed(h Hold) Hold { h.Lost, h.Noticed = true, true; return h }
func untold(h Hold) Hold  { h.Lost = true; return h }
func other(h Hold) Hold   { h.Name = "18"; return h }

func TestLocks(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []Hold
		wrong int
		says  string // also says which part is violated
	}{
		{"one after the other", []Hold{held(1, 0, 1, 5, 0), held(2, 2, 5, 7, 0)}, 0, ""},
		{"two holders", []Hold{held(1, 0, 1, 5, 0), held(2, 2, 4, 7, 0)}, 1,
			`lock "17": held by worker 1 (0.001000-0.005000 s), and by worker 2 (0.004000-0.007000 s): two holders`},
		{"one in the very instant in which the next began", []Hold{held(1, 0, 5, 7, 0), held(2, 2, 5, 5, 0)}, 0, ""},
		{"two locks", []Hold{held(1, 0, 1, 5, 0), other(held(2, 2, 4, 7, 0))}, 0, ""},
		{"a long hold, a short one, and one that meets the long one", []Hold{
			held(1, 0, 1, 9, 0), noticed(held(2, 2, 3, 4, 0)), held(3, 2, 6, 7, 0)}, 1, "held by worker 1"},
		{"two readers", []Hold{shared(held(1, 0, 1, 5, 0)), shared(held(2, 2, 4, 7, 0))}, 0, ""},
		{"a reader and a writer", []Hold{shared(held(1, 0, 1, 5, 0)), held(2, 2, 4, 7, 0)}, 1, "two holders"},
		{"a writer and a reader", []Hold{held(1, 0, 1, 5, 0), shared(held(2, 2, 4, 7, 0))}, 1, "two holders"},
		{"a long reader, a short one and a writer", []Hold{shared(held(1, 0, 1, 9, 0)), shared(held(2, 2, 3, 4, 0)),
			held(3, 2, 6, 7, 0)},
			1, "held by worker 1"},
		{"lost, and told so", []Hold{noticed(held(1, 0, 1, 5, 0)), held(2, 2, 4, 7, 0)}, 0, ""},
		{"lost, and told only by the release", []Hold{untold(held(1, 0, 1, 5, 0)), held(2, 2, 4, 7, 0)}, 1, "two holders"},
		{"tokens grow", []Hold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 8)}, 0, ""},
		{"a token again", []Hold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 7)}, 1,
			"worker 1 got fencing token 7 (0.001000 s), and worker 2 after it 7"},
		{"a smaller token", []Hold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 9), held(1, 4, 5, 6, 8)}, 1,
			"worker 2 got fencing token 9"},
		{"a smaller token, asked for before", []Hold{held(1, 0, 1, 2, 7), held(2, 0, 3, 4, 6)}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hand()
			h.Holds = c.holds
			v := Check(t.Context(), h)
			p, fine := v.Part(LocksPart), v.Part(TokensPart)
			finding := "a lock HELD BY TWO 1 time"
			if strings.Contains(c.says, "token") {
				p, fine, finding = fine, p, "fencing tokens DID NOT GROW 1 time"
			}
			if p.Wrong != c.wrong || fine.Wrong != 0 || (v.Answer == Violated) != (c.wrong > 0) {
				t.Errorf("%d violations, %s; want %d: %v %v", p.Wrong, v.Answer, c.wrong, p.Stories, fine.Stories)
			}
			if c.wrong == 0 {
				finding = ""
			}
			if v.Market() != Linearizable || !strings.HasSuffix(v.Findings(), finding) ||
				!strings.HasPrefix(strings.TrimPrefix(v.Findings(), "items and accounts "), "LINEARIZABLE") {
				t.Errorf("found %q, want %q", v.Findings(), finding)
			}
			if c.wrong > 0 && !strings.Contains(p.Stories[0].Text, c.says) {
				t.Errorf("%q does not say %q", p.Stories[0].Text, c.says)
			}
		})
	}
}

// TestTokensAreCounted: that tokens grow says nothing of holds that have none.
func TestTokensAreCounted(t *testing.T) {
	for says, holds := range map[string][]Hold{
		"no fencing token was recorded":               {held(1, 0, 1, 2, 0), held(2, 2, 3, 4, 0)},
		"1 holds with fencing tokens: that they grow": {held(1, 0, 1, 2, 0), held(2, 2, 3, 4, 8)},
	} {
		h := hand()
		h.Holds = holds
		v := Check(t.Context(), h)
		if p := v.Part(TokensPart); p.Checked != says {
			t.Errorf("%q is not %q", p.Checked, says)
		}
		if p := v.Part(LocksPart); p.Checked != "1 locks, held 2 times: who held each" {
			t.Error(p.Checked)
		}
	}
}
