package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/results/reference"
)

// bookRows are the book's nine rows, as if this run had measured them: <N becomes just below N.
func bookRows(t *testing.T) []Row {
	t.Helper()
	published, err := reference.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for _, p := range published {
		row := Row{
			Strategy: p.Locking, Sellers: p.Listers, Buyers: p.Buyers, Trial: 1,
			Status: Complete, Seconds: float64(p.Seconds), Audit: Audit{Done: true, OK: true},
			Listed: int64(p.Listed.Number), Bought: int64(p.Bought.Number), Retries: int64(p.Retries.Number),
		}
		row.WaitMS.Mean = p.WaitMS.Number
		if p.WaitMS.Below {
			row.WaitMS.Mean -= 0.1
		}
		rows = append(rows, row)
	}
	return rows
}

// rowOf finds a row by its name, "watch 5x5", to be changed by a test.
func rowOf(t *testing.T, rows []Row, name string) *Row {
	t.Helper()
	for i, r := range rows {
		if fmt.Sprintf("%s %dx%d", r.Strategy, r.Sellers, r.Buyers) == name {
			return &rows[i]
		}
	}
	t.Fatalf("no row %s", name)
	return nil
}

func holds(c Claim) string {
	switch {
	case c.Holds == nil:
		return "not judged"
	case *c.Holds:
		return "yes"
	}
	return "NO"
}

func TestJudgeBook(t *testing.T) {
	claims := Judge(Manifest{Backend: "url"}, bookRows(t))
	if len(claims) != 8 {
		t.Fatalf("%d claims, want 8", len(claims))
	}
	for i, c := range claims {
		if c.ID != i+1 || holds(c) != "yes" {
			t.Errorf("claim %d of the book's own numbers: %s: %s", c.ID, holds(c), c.Measured)
		}
		if c.Text == "" || c.Published == "" || c.Measured == "" || c.Tolerance == "" {
			t.Errorf("claim %d has an empty field: %+v", c.ID, c)
		}
	}
}

// TestPublishedNumbers measures the book's own rows: every number found must be one that the claim says was published.
func TestPublishedNumbers(t *testing.T) {
	digits := func(r rune) bool { return !strings.ContainsRune("0123456789.", r) }
	for _, c := range Judge(Manifest{}, bookRows(t)) {
		measured, _, _ := strings.Cut(c.Measured, " (at most") // the spread of claim 7 is not in the book
		if c.ID == 8 {
			measured = strings.Replace(measured, "2.90", "3", 1) // printed as <3
		}
		for _, n := range strings.FieldsFunc(measured, digits) {
			if !strings.Contains(c.Published, strings.TrimSuffix(n, ".0")) {
				t.Errorf("claim %d: %s, measured from the book's rows, is not in %q", c.ID, n, c.Published)
			}
		}
	}
}

// TestJudge moves one number of the book at a time to either side of a tolerance.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		claim  int
		row    string
		change func(*Row)
		want   string
	}{
		{1, "watch 5x5", func(r *Row) { r.Bought, r.Retries = 27, 240 }, "yes"}, // exactly 3 times 80/27
		{1, "watch 5x5", func(r *Row) { r.Bought, r.Retries = 27, 239 }, "NO"},
		{1, "watch 1x1", func(r *Row) { r.Retries = 0 }, "yes"},
		{1, "watch 5x5", func(r *Row) { r.Retries = 0 }, "NO"},
		{1, "watch 5x5", func(r *Row) { r.Bought = 0 }, "not judged"},
		{2, "watch 5x5", func(r *Row) { r.WaitMS.Mean = 42 }, "yes"}, // exactly 3 times 14
		{2, "watch 5x5", func(r *Row) { r.WaitMS.Mean = 41.9 }, "NO"},
		{2, "watch 1x1", func(r *Row) { r.Bought = 0 }, "not judged"},
		{3, "coarse 5x5", func(r *Row) { r.Bought, r.Retries = 13000, 13 }, "yes"},
		{3, "coarse 5x5", func(r *Row) { r.Bought, r.Retries = 13000, 14 }, "NO"},
		{3, "coarse 1x1", func(r *Row) { r.Bought = 0 }, "not judged"},
		{4, "coarse 5x1", func(r *Row) { r.Listed, r.Bought = 60, 10 }, "yes"},
		{4, "coarse 5x1", func(r *Row) { r.Listed, r.Bought = 61, 10 }, "NO"},
		{4, "coarse 5x5", func(r *Row) { r.Listed, r.Bought = 80, 100 }, "yes"},
		{4, "coarse 5x5", func(r *Row) { r.Listed, r.Bought = 79, 100 }, "NO"},
		{4, "coarse 5x5", func(r *Row) { r.Bought = 0 }, "not judged"},
		{5, "fine 5x1", func(r *Row) { r.Bought, r.Retries = 1000, 1 }, "yes"},
		{5, "fine 5x1", func(r *Row) { r.Bought, r.Retries = 1000, 2 }, "NO"},
		{5, "fine 5x1", func(r *Row) { r.Bought = 0 }, "not judged"},
		{6, "fine 5x1", func(r *Row) { r.Bought = 13001 }, "yes"},
		{6, "fine 5x1", func(r *Row) { r.Bought = 13000 }, "NO"},                 // a ratio of 1 is not more
		{6, "fine 5x1", func(r *Row) { r.Seconds *= 3 }, "NO"},                   // rates, not counts
		{6, "fine 5x1", func(r *Row) { r.Bought /= 12; r.Seconds /= 12 }, "yes"}, // a shorter row
		{6, "fine 5x1", func(r *Row) { r.Bought = 0 }, "NO"},
		{6, "coarse 5x1", func(r *Row) { r.Bought = 0 }, "not judged"},
		{7, "fine 1x1", func(r *Row) { r.Listed, r.Bought = 84000, 84000 }, "yes"},
		{7, "fine 1x1", func(r *Row) { r.Listed, r.Bought = 80000, 80000 }, "NO"},
		{7, "fine 1x1", func(r *Row) { r.Listed /= 12; r.Bought /= 12; r.Seconds /= 12 }, "yes"},
		{8, "fine 5x5", func(r *Row) { r.WaitMS.Mean = 2.99 }, "yes"},
		{8, "fine 5x5", func(r *Row) { r.WaitMS.Mean = 3 }, "NO"},
		{8, "coarse 5x5", func(r *Row) { r.WaitMS.Mean = 2.9 }, "NO"}, // fine must be below it
		{8, "watch 5x5", func(r *Row) { r.WaitMS.Mean = 1 }, "NO"},
		{8, "watch 5x5", func(r *Row) { r.Bought = 0 }, "not judged"},
	} {
		rows := bookRows(t)
		c.change(rowOf(t, rows, c.row))
		got := Judge(Manifest{}, rows)[c.claim-1]
		if holds(got) != c.want {
			t.Errorf("claim %d with %s changed: %s, want %s: %s", c.claim, c.row, holds(got), c.want, got.Measured)
		}
	}
}

// TestNotJudged gives every row in turn a reason not to be trusted; claims that need it must say so.
func TestNotJudged(t *testing.T) {
	needs := map[string][]int{
		"watch 1x1": {1, 2}, "watch 5x1": {}, "watch 5x5": {1, 2, 8},
		"coarse 1x1": {3, 4, 6}, "coarse 5x1": {3, 4, 6}, "coarse 5x5": {3, 4, 6, 8},
		"fine 1x1": {5, 6, 7}, "fine 5x1": {5, 6, 7}, "fine 5x5": {5, 6, 7, 8},
	}
	for _, spoiled := range []struct {
		why   string
		spoil func(*Row)
	}{
		{"was not measured", func(r *Row) { r.Strategy = "other" }},
		{"is incomplete", func(r *Row) { r.Status = Incomplete }},
		{"is interrupted", func(r *Row) { r.Status = Interrupted }},
		{"was not audited", func(r *Row) { r.Audit = Audit{OK: true} }},
		{"failed its audit", func(r *Row) { r.Audit.OK = false }},
		{"holds impossible numbers", func(r *Row) { r.Listed = -1 }},
		{"holds impossible numbers", func(r *Row) { r.Seconds = 0 }},
		{"holds impossible numbers", func(r *Row) { r.WaitMS.Mean = math.MaxFloat64 }},
	} {
		for name, ids := range needs {
			rows := bookRows(t)
			spoiled.spoil(rowOf(t, rows, name))
			for _, c := range Judge(Manifest{}, rows) {
				needed := slices.Contains(ids, c.ID)
				if needed && (c.Holds != nil || !strings.Contains(c.Measured, name+" "+spoiled.why)) {
					t.Errorf("claim %d: %s %s: %s: %s", c.ID, name, spoiled.why, holds(c), c.Measured)
				}
				if !needed && holds(c) != "yes" {
					t.Errorf("claim %d does not need %s: %s: %s", c.ID, name, holds(c), c.Measured)
				}
			}
		}
	}
}

func TestNothingJudgedEmbedded(t *testing.T) {
	for _, c := range Judge(Manifest{Backend: "embedded"}, bookRows(t)) {
		if c.Holds != nil || c.Measured != "numbers of the embedded server are not Redis's: not judged" {
			t.Errorf("claim %d: %s: %s", c.ID, holds(c), c.Measured)
		}
	}
	for _, c := range Judge(Manifest{}, nil) {
		if c.Holds != nil || !strings.Contains(c.Measured, "was not measured") {
			t.Errorf("claim %d without rows: %s: %s", c.ID, holds(c), c.Measured)
		}
	}
	idle := bookRows(t)
	for i := range idle {
		idle[i].Listed, idle[i].Bought, idle[i].Retries, idle[i].WaitMS = 0, 0, 0, Latency{}
	}
	for _, c := range Judge(Manifest{}, idle) {
		if c.Holds != nil {
			t.Errorf("claim %d of rows that did nothing: %s: %s", c.ID, holds(c), c.Measured)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
}

func TestPool(t *testing.T) {
	rows := []Row{
		{Strategy: "watch", Sellers: 5, Buyers: 1, Status: Complete, Seconds: 2, Listed: 10, Bought: 1, Retries: 3,
			WaitMS: Latency{Mean: 40}, Audit: Audit{Done: true, OK: true}},
		{Strategy: "watch", Sellers: 5, Buyers: 1, Status: Complete, Seconds: 3, Listed: 20, Bought: 3, Retries: 4,
			WaitMS: Latency{Mean: 20}, Audit: Audit{Done: true, OK: true}},
		{Strategy: "watch", Sellers: 1, Buyers: 5, Status: Incomplete},
	}
	got, ok := Pool(rows, "watch", 5, 1)
	want := Pooled{Strategy: "watch", Sellers: 5, Buyers: 1, Trials: 2, Seconds: 5, Listed: 30, Bought: 4, Retries: 7, WaitMS: 25}
	if !ok || got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if r := got.PerSecond(got.Listed); r != 6 {
		t.Errorf("%v listed a second, want 6", r)
	}
	rows[1].Status = Incomplete // one bad trial spoils the pool
	if got, _ := Pool(rows, "watch", 5, 1); got.Problem != "is incomplete" {
		t.Errorf("problem %q", got.Problem)
	}
	if p, ok := Pool(rows, "coarse", 5, 1); ok || p.PerSecond(1) != 0 {
		t.Errorf("a row that was not measured: %+v", p)
	}
}
