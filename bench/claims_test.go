package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

// bookRows are the book's nine rows, as if this run had measured them: <N becomes just below N.
func bookRows(t *testing.T) []result.Row {
	t.Helper()
	published, err := reference.Rows()
	if err != nil {
		t.Fatal(err)
	}
	var rows []result.Row
	for _, p := range published {
		row := result.Row{
			Strategy: p.Locking, Sellers: p.Listers, Buyers: p.Buyers, Trial: 1,
			Status: result.Complete, Seconds: float64(p.Seconds), Audit: result.Audit{Done: true, OK: true},
			Listed: int64(p.Listed.Number), Bought: int64(p.Bought.Number), Retries: int64(p.Retries.Number),
		}
		row.WaitMS.Mean = p.WaitMS.Number
		if p.WaitMS.Below {
			row.WaitMS.Mean -= 0.1
		}
		row.WaitMS.P99, row.WaitMS.Max = row.WaitMS.Mean, row.WaitMS.Mean
		rows = append(rows, row)
	}
	return rows
}

// rowOf finds a row by its name, "watch 5x5", to be changed by a test.
func rowOf(t *testing.T, rows []result.Row, name string) *result.Row {
	t.Helper()
	for i, r := range rows {
		if fmt.Sprintf("%s %dx%d", r.Strategy, r.Sellers, r.Buyers) == name {
			return &rows[i]
		}
	}
	t.Fatalf("no row %s", name)
	return nil
}

func holds(c result.Claim) string {
	switch {
	case c.Holds == nil:
		return "not judged"
	case *c.Holds:
		return "yes"
	}
	return "NO"
}

func TestJudgeBook(t *testing.T) {
	claims := Judge(&result.Run{Rows: bookRows(t)})
	if len(claims) != 11 {
		t.Fatalf("%d claims, want 11", len(claims))
	}
	for i, c := range claims {
		want := "yes"
		if c.ID == 11 {
			want = "not judged" // the tables do not say how many commands there were
		}
		if c.ID != i+1 || holds(c) != want {
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
	for _, c := range Judge(&result.Run{Rows: bookRows(t)}) {
		measured, _, _ := strings.Cut(c.Measured, " (") // the number that it is judged by is not in the book
		if c.ID == 8 || c.ID == 9 {
			measured = strings.ReplaceAll(measured, "2.90", "3") // printed as <3
			measured = strings.Replace(measured, "99%", "", 1)
		}
		if c.Holds == nil {
			continue
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
		change func(*result.Row)
		want   string
	}{
		{1, "watch 5x5", func(r *result.Row) { r.Bought, r.Retries = 27, 240 }, "yes"}, // exactly 3 times 80/27
		{1, "watch 5x5", func(r *result.Row) { r.Bought, r.Retries = 27, 239 }, "NO"},
		{1, "watch 1x1", func(r *result.Row) { r.Retries = 0 }, "yes"},
		{1, "watch 5x5", func(r *result.Row) { r.Retries = 0 }, "NO"},
		{1, "watch 5x5", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{2, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 42 }, "yes"}, // exactly 3 times 14
		{2, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 41.9 }, "NO"},
		{2, "watch 1x1", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{3, "coarse 5x5", func(r *result.Row) { r.Bought, r.Retries = 13000, 13 }, "yes"},
		{3, "coarse 5x5", func(r *result.Row) { r.Bought, r.Retries = 13000, 14 }, "NO"},
		{3, "coarse 1x1", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{4, "coarse 5x1", func(r *result.Row) { r.Listed, r.Bought = 60, 10 }, "yes"},
		{4, "coarse 5x1", func(r *result.Row) { r.Listed, r.Bought = 61, 10 }, "NO"},
		{4, "coarse 5x5", func(r *result.Row) { r.Listed, r.Bought = 80, 100 }, "yes"},
		{4, "coarse 5x5", func(r *result.Row) { r.Listed, r.Bought = 79, 100 }, "NO"},
		{4, "coarse 5x5", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{5, "fine 5x1", func(r *result.Row) { r.Bought, r.Retries = 1000, 1 }, "yes"},
		{5, "fine 5x1", func(r *result.Row) { r.Bought, r.Retries = 1000, 2 }, "NO"},
		{5, "fine 5x1", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{9, "fine 5x5", func(r *result.Row) { r.WaitMS.P99, r.WaitMS.Max = 2.9, 2.99 }, "yes"},
		{9, "fine 5x5", func(r *result.Row) { r.WaitMS.Max = 3 }, "NO"},
		{9, "fine 5x5", func(r *result.Row) { r.WaitMS.P99, r.WaitMS.Max = 3, 9 }, "NO"},
		{9, "fine 5x5", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{10, "fine 5x1", func(r *result.Row) { r.Listed = 330_999 }, "yes"},
		{10, "fine 5x1", func(r *result.Row) { r.Listed = 331_000 }, "NO"}, // as many as watch
		{10, "coarse 1x1", func(r *result.Row) { r.Listed = 150_000 }, "NO"},
		{10, "watch 1x1", func(r *result.Row) { r.Listed = 0 }, "not judged"},
		{11, "fine 5x5", func(r *result.Row) { r.CommandsPerSecond = new(1e5) }, "yes"},
		{11, "fine 5x5", func(r *result.Row) { r.CommandsPerSecond = new(99_999.0) }, "NO"},
		{6, "fine 5x1", func(r *result.Row) { r.Bought = 13001 }, "yes"},
		{6, "fine 5x1", func(r *result.Row) { r.Bought = 13000 }, "NO"},                 // a ratio of 1 is not more
		{6, "fine 5x1", func(r *result.Row) { r.Seconds *= 3 }, "NO"},                   // rates, not counts
		{6, "fine 5x1", func(r *result.Row) { r.Bought /= 12; r.Seconds /= 12 }, "yes"}, // a shorter row
		{6, "fine 5x1", func(r *result.Row) { r.Bought = 0 }, "NO"},
		{6, "coarse 5x1", func(r *result.Row) { r.Bought = 0 }, "not judged"},
		{7, "fine 1x1", func(r *result.Row) { r.Listed, r.Bought = 84000, 84000 }, "yes"},
		{7, "fine 1x1", func(r *result.Row) { r.Listed, r.Bought = 80000, 80000 }, "NO"},
		{7, "fine 1x1", func(r *result.Row) { r.Listed /= 12; r.Bought /= 12; r.Seconds /= 12 }, "yes"},
		{8, "fine 5x5", func(r *result.Row) { r.WaitMS.Mean = 2.99 }, "yes"},
		{8, "fine 5x5", func(r *result.Row) { r.WaitMS.Mean = 3 }, "NO"},
		{8, "coarse 5x5", func(r *result.Row) { r.WaitMS.Mean = 2.9 }, "NO"}, // fine must be below it
		{8, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 1 }, "NO"},
		{8, "watch 5x5", func(r *result.Row) { r.Bought = 0 }, "not judged"},
	} {
		rows := bookRows(t)
		c.change(rowOf(t, rows, c.row))
		got := Judge(&result.Run{Rows: rows})[c.claim-1]
		if holds(got) != c.want {
			t.Errorf("claim %d with %s changed: %s, want %s: %s", c.claim, c.row, holds(got), c.want, got.Measured)
		}
	}
}

// TestNotJudged gives every row in turn a reason not to be trusted; claims that need it must say so.
func TestNotJudged(t *testing.T) {
	needs := map[string][]int{
		"watch 1x1": {1, 2, 10, 11}, "watch 5x1": {10, 11}, "watch 5x5": {1, 2, 8, 10, 11},
		"coarse 1x1": {3, 4, 6, 10, 11}, "coarse 5x1": {3, 4, 6, 10, 11}, "coarse 5x5": {3, 4, 6, 8, 10, 11},
		"fine 1x1": {5, 6, 7, 10, 11}, "fine 5x1": {5, 6, 7, 10, 11}, "fine 5x5": {5, 6, 7, 8, 9, 10, 11},
	}
	for _, spoiled := range []struct {
		why   string
		spoil func(*result.Row)
	}{
		{"was not measured", func(r *result.Row) { r.Strategy = "other" }},
		{"was not measured", func(r *result.Row) { r.HoldMS = 1 }},
		{"was not measured", func(r *result.Row) { r.Hot, r.Sellers = 1, 0 }},
		{"is incomplete", func(r *result.Row) { r.Status = result.Incomplete }},
		{"is interrupted", func(r *result.Row) { r.Status = result.Interrupted }},
		{"was not audited", func(r *result.Row) { r.Audit = result.Audit{OK: true} }},
		{"failed its audit", func(r *result.Row) { r.Audit.OK = false }},
		{"holds impossible numbers", func(r *result.Row) { r.Listed = -1 }},
		{"holds impossible numbers", func(r *result.Row) { r.Seconds = 0 }},
		{"holds impossible numbers", func(r *result.Row) { r.WaitMS.Mean = math.MaxFloat64 }},
	} {
		for name, ids := range needs {
			rows := bookRows(t)
			spoiled.spoil(rowOf(t, rows, name))
			for _, c := range Judge(&result.Run{Rows: rows}) {
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

// nineRounds are the book's rows in each of nine rounds, of which a test changes some.
func nineRounds(t *testing.T, change func(round int, rows []result.Row)) *result.Run {
	t.Helper()
	run := &result.Run{Manifest: result.Manifest{Config: result.Config{
		Strategies: bookStrategies, Mixes: []string{"1x1", "5x1", "5x5"}, Trials: 9,
	}}}
	for round := 1; round <= 9; round++ {
		rows := bookRows(t)
		for i := range rows {
			rows[i].Trial = round
		}
		change(round, rows)
		run.Rows = append(run.Rows, rows...)
	}
	return run
}

// TestJudgeRounds gives some rounds a wait of fine 5x5 beyond the tolerance of claim 9, which is 3 ms. The interval of nine
// ends at the second from either end.
func TestJudgeRounds(t *testing.T) {
	for _, c := range []struct {
		beyond    int // rounds
		verdict   result.Judgment
		holds     string
		low, high float64
	}{
		{0, result.Holds, "yes", 2.9, 2.9},
		{1, result.Holds, "yes", 2.9, 2.9}, // one round may be as bad as it likes
		{2, result.NotDecided, "not judged", 2.9, 70},
		{7, result.NotDecided, "not judged", 2.9, 70},
		{8, result.DoesNot, "NO", 10, 70},
		{9, result.DoesNot, "NO", 10, 70},
	} {
		run := nineRounds(t, func(round int, rows []result.Row) {
			if round > 9-c.beyond {
				rowOf(t, rows, "fine 5x5").WaitMS.Max = 10 * float64(round-1)
			}
		})
		got := Judge(run)[8]
		if got.Verdict != c.verdict || holds(got) != c.holds || got.Low == nil || *got.Low != c.low || *got.High != c.high {
			t.Errorf("%d rounds beyond the tolerance: %s, holds %s, %s", c.beyond, got.Verdict, holds(got), got.Measured)
		}
	}
	// The median of the rounds' numbers, and not the number of their medians: in each round another mix is the worst.
	run := nineRounds(t, func(round int, rows []result.Row) {
		name := []string{"fine 1x1", "fine 5x1", "fine 5x5"}[round%3]
		*rowOf(t, rows, name) = result.Row{
			Strategy: "fine", Sellers: rowOf(t, rows, name).Sellers, Buyers: rowOf(t, rows, name).Buyers, Trial: round,
			Status: result.Complete, Seconds: 60, Bought: 1000, Retries: 5, Audit: result.Audit{Done: true, OK: true},
		}
	})
	if got := Judge(run)[4]; got.Verdict != result.DoesNot || *got.Low != 5 || *got.High != 5 {
		t.Errorf("a worst mix in every round: %s: %s", got.Verdict, got.Measured)
	}
}

// TestJudgeInterrupted: rounds that are missing leave everything undecided, also where those that are there agree.
func TestJudgeInterrupted(t *testing.T) {
	run := nineRounds(t, func(int, []result.Row) {})
	run.Rows = run.Rows[:8*9-1]
	run.Rows[len(run.Rows)-1].Status = result.Interrupted
	for _, c := range Judge(run)[:10] {
		if c.Verdict != result.NotDecided || c.Holds != nil || c.Low != nil || !strings.Contains(c.Measured, " in 7 of 9 rounds)") {
			t.Errorf("claim %d: %s: %s", c.ID, c.Verdict, c.Measured)
		}
	}
	run.Rows[3].Audit.OK = false
	if c := Judge(run)[2]; c.Verdict != result.NotJudged || c.Measured != "not judged: coarse 1x1 failed its audit in round 1" {
		t.Errorf("a failed audit: %s: %s", c.Verdict, c.Measured)
	}
}

func TestOneTrial(t *testing.T) {
	for _, c := range Judge(&result.Run{Rows: bookRows(t)})[:10] {
		if c.Verdict != result.OneTrial || c.Low != nil || c.High != nil {
			t.Errorf("claim %d: %s, %v to %v", c.ID, c.Verdict, c.Low, c.High)
		}
	}
}

func TestNothingJudgedEmbedded(t *testing.T) {
	embedded := &result.Run{Manifest: result.Manifest{Backend: "embedded"}, Rows: bookRows(t)}
	for _, c := range Judge(embedded) {
		if c.Holds != nil || c.Measured != "numbers of the embedded server are not Redis's: not judged" {
			t.Errorf("claim %d: %s: %s", c.ID, holds(c), c.Measured)
		}
	}
	for _, c := range Judge(&result.Run{}) {
		if c.Holds != nil || c.Measured != "not one round is complete" || c.Verdict != result.NotDecided {
			t.Errorf("claim %d without rows: %s: %s", c.ID, holds(c), c.Measured)
		}
	}
	idle := bookRows(t)
	for i := range idle {
		idle[i].Listed, idle[i].Bought, idle[i].Retries, idle[i].WaitMS = 0, 0, 0, result.Latency{}
	}
	for _, c := range Judge(&result.Run{Rows: idle}) {
		if c.Holds != nil {
			t.Errorf("claim %d of rows that did nothing: %s: %s", c.ID, holds(c), c.Measured)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
}
