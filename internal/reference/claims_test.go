package reference

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// bookRows are the book's nine rows, as if this run had measured them: <N
// becomes just below N.
func bookRows(t *testing.T) []result.Row {
	t.Helper()
	var rows []result.Row
	for _, p := range RowsOf(Book) {
		row := result.Row{
			Point:  result.Point{Strategy: p.Locking, Mix: result.Mix{Sellers: p.Listers, Buyers: p.Buyers}},
			Status: stored.Complete, Seconds: float64(p.Seconds),
			Audit:  result.AuditSummary{Done: true, OK: true},
			Listed: int64(p.Listed.Number), Bought: int64(p.Bought.Number), Retries: int64(p.Retries.Number),
		}

		row.WaitMS.Mean = p.WaitMS.Number
		if p.WaitMS.Below {
			row.WaitMS.Mean -= 0.1
		}
		if p.Buyers == 1 && p.Listers == 1 {
			// The book does not tell; without a long wait "no retries" could not fail.
			row.GivenUpMS.Max = 5000
		}

		row.WaitMS.P99, row.WaitMS.Max, row.WaitMS.Count = row.WaitMS.Mean, row.WaitMS.Mean, row.Bought
		rows = append(rows, row)
	}
	return rows
}

// rowOf finds a row by its name, "watch 5x5", to be changed by a test.
func rowOf(t *testing.T, rows []result.Row, name string) *result.Row {
	t.Helper()
	for i, r := range rows {
		if r.Name() == name {
			return &rows[i]
		}
	}
	t.Fatalf("no row %s", name)
	return nil
}

// rounds are rows in each of some rounds, of which a test changes some.
func rounds(t *testing.T, n int, change func(round int, rows []result.Row)) *runs.Run {
	t.Helper()
	run := &runs.Run{}
	run.Manifest.Config.Trials = n

	for round := 1; round <= n; round++ {
		rows := bookRows(t)
		for i := range rows {
			rows[i].Trial = round
			if round == 1 {
				run.Manifest.Config.Points = append(run.Manifest.Config.Points, rows[i].Point)
			}
		}

		change(round, rows)
		run.Rows = append(run.Rows, rows...)
	}
	return run
}

func unchanged(int, []result.Row) {}

func TestJudgeBook(t *testing.T) {
	claims := Judge(rounds(t, 6, unchanged))
	if len(claims) != 12 {
		t.Fatalf("%d claims, want 12", len(claims))
	}

	for i, c := range claims {
		want := runs.Holds
		if c.ID == 11 {
			want = runs.NotJudged // the tables do not say how many commands there were
		}
		if c.ID != i+1 || c.Verdict != want {
			t.Errorf("claim %d of the book's own numbers: %s: %s", c.ID, c.Verdict, c.Measured)
		}

		if c.Text == "" || c.Published == "" || c.Measured == "" || c.Tolerance == "" {
			t.Errorf("claim %d has an empty field: %+v", c.ID, c)
		}
	}
}

// TestPublishedNumbers measures the book's own rows: every number found must be one that
// the claim says was published.
func TestPublishedNumbers(t *testing.T) {
	digits := func(r rune) bool { return !strings.ContainsRune("0123456789.", r) }

	for _, c := range Judge(rounds(t, 6, unchanged)) {
		// The number that it is judged by is not in the book.
		measured, _, _ := strings.Cut(c.Measured, " (")
		measured = strings.ReplaceAll(measured, "2.9 ", "3 ") // printed as <3
		if c.Verdict == runs.NotJudged {
			continue
		}

		for _, n := range strings.FieldsFunc(measured, digits) {
			if !strings.Contains(c.Published, strings.TrimSuffix(n, ".0")) {
				t.Errorf("claim %d: %s, measured from the book's rows, is not in %q", c.ID, n, c.Published)
			}
		}
	}
}

// TestUnsteadyRounds: a round with an unsteady row decides nothing, and the
// others do if there are six.
func TestUnsteadyRounds(t *testing.T) {
	for steady, want := range map[int]runs.Judgment{
		9: runs.Holds,
		6: runs.Holds,
		5: runs.NotDecided,
		0: runs.NotDecided,
	} {
		got := Judge(rounds(t, 9, func(round int, rows []result.Row) {
			if round > steady {
				r := rowOf(t, rows, "fine 5x5")
				r.Warn(result.Unsteady, 0.7, "")
				r.WaitMS.Mean = 100
			}
		}))[7]
		if got.Verdict != want ||
			strings.Contains(got.Measured, "fine 5x5 was not steady in round") != (steady < 9) {
			t.Errorf("claim 8 with %d steady rounds of 9: %s: %s", steady, got.Verdict, got.Measured)
		}
	}
}

// TestDisturbedRounds: a round that other processes disturbed decides nothing. If the
// others are too few a claim is not judged, and says why, whatever the numbers are.
func TestDisturbedRounds(t *testing.T) {
	for _, c := range []struct {
		quiet, planned int
		took           float64
		want           runs.Judgment
		says           string
	}{
		{9, 9, 0, runs.Holds, ""},
		{6, 9, 0.43, runs.Holds, " in 6 of 9 rounds"},
		{5, 9, 0.43, runs.NotJudged,
			"; not judged: other processes took 43 to 46% of this machine's time in 4 of 9"},
		{0, 9, 0.43, runs.NotJudged, "43 to 51% of this machine's time in 9 of 9 rounds"},
		{3, 3, 0, runs.InEvery, ""},
		{2, 3, 0.43, runs.NotJudged,
			"; not judged: other processes took 43% of this machine's time in 1 of 3 rounds"},
		{0, 3, 0.43, runs.NotJudged, "43 to 45% of this machine's time in 3 of 3 rounds"},
		{0, 9, 0.06, runs.DoesNot, ""}, // which every machine has, and which the claim has to bear
	} {
		got := Judge(rounds(t, c.planned, func(round int, rows []result.Row) {
			if round > c.quiet {
				r := rowOf(t, rows, "fine 5x5")
				r.Warn(result.Busy, c.took+float64(round-c.quiet-1)/100, "")
				r.WaitMS.Mean = 100
			}
		}))[7]
		if got.Verdict != c.want || !strings.Contains(got.Measured, c.says) {
			t.Errorf("claim 8 with %d quiet rounds of %d: %s: %s",
				c.quiet, c.planned, got.Verdict, got.Measured)
		}
	}

	busy := func(_ int, rows []result.Row) { rowOf(t, rows, "fine 5x5").Warn(result.Busy, 0.43, "") }
	few := Judge(rounds(t, 3, busy))[7]
	if few.Verdict != runs.NotJudged {
		t.Errorf("claim 8 with numbers that it bears, in three disturbed rounds: %s: %s",
			few.Verdict, few.Measured)
	}
}

func nothingBought(r *result.Row) { r.Bought, r.WaitMS = 0, result.Latency{} }

// TestJudge moves one number of the book at a time to either side of a tolerance.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		claim  int
		row    string
		change func(*result.Row)
		want   runs.Judgment
	}{
		// Exactly 3 times 80/27.
		{1, "watch 5x5", func(r *result.Row) { r.WaitMS.Count, r.Retries = 27, 240 }, runs.Holds},
		{1, "watch 5x5", func(r *result.Row) { r.WaitMS.Count, r.Retries = 27, 239 }, runs.DoesNot},
		{1, "watch 1x1", func(r *result.Row) { r.Retries = 0 }, runs.Holds},
		{1, "watch 5x5", func(r *result.Row) { r.Retries = 0 }, runs.DoesNot},
		{1, "watch 5x5", nothingBought, runs.NotJudged},
		{2, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 42 }, runs.Holds}, // exactly 3 times 14
		{2, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 41.9 }, runs.DoesNot},
		{2, "watch 1x1", nothingBought, runs.NotJudged},
		{3, "coarse 5x5", func(r *result.Row) { r.WaitMS.Count, r.Retries = 13000, 13 }, runs.Holds},
		{3, "coarse 5x5", func(r *result.Row) { r.WaitMS.Count, r.Retries = 13000, 14 }, runs.DoesNot},
		{3, "coarse 1x1", nothingBought, runs.NotJudged},
		{4, "coarse 5x1", func(r *result.Row) { r.Listed, r.Bought = 60, 10 }, runs.Holds},
		{4, "coarse 5x1", func(r *result.Row) { r.Listed, r.Bought = 61, 10 }, runs.DoesNot},
		{4, "coarse 5x5", func(r *result.Row) { r.Listed, r.Bought = 80, 100 }, runs.Holds},
		{4, "coarse 5x5", func(r *result.Row) { r.Listed, r.Bought = 79, 100 }, runs.DoesNot},
		{4, "coarse 5x5", nothingBought, runs.NotJudged},
		{5, "fine 5x1", func(r *result.Row) { r.WaitMS.Count, r.Retries = 1000, 1 }, runs.Holds},
		{5, "fine 5x1", func(r *result.Row) { r.WaitMS.Count, r.Retries = 1000, 2 }, runs.DoesNot},
		{5, "fine 5x1", nothingBought, runs.NotJudged},
		// Could not have failed.
		{5, "fine 1x1", func(r *result.Row) { r.GivenUpMS.Max = 4999 }, runs.NotJudged},
		{5, "fine 1x1", func(r *result.Row) { r.GivenUpMS.Max, r.WaitMS.Max = 0, 5000 }, runs.Holds},
		{5, "fine 1x1", func(r *result.Row) { r.GivenUpMS.Max, r.Retries = 0, 1 }, runs.Holds},
		{12, "fine 5x1", func(r *result.Row) { r.Listed, r.Bought = 60, 10 }, runs.Holds},
		{12, "fine 5x1", func(r *result.Row) { r.Listed, r.Bought = 61, 10 }, runs.DoesNot},
		// Each operation was followed to its end.
		{5, "fine 5x5", func(r *result.Row) { r.Seconds = 1.6 }, runs.Holds},
		{5, "fine 5x5", func(r *result.Row) { r.Seconds, r.WaitMS.Count, r.Retries = 1.6, 900, 1 }, runs.DoesNot},
		{5, "fine 5x5", func(r *result.Row) { r.Cut = 1 }, runs.NotJudged},
		{8, "watch 5x5", func(r *result.Row) { r.Warn(result.Unsteady, 0.7, "") }, runs.NotDecided},
		// Which it does not need.
		{8, "fine 5x1", func(r *result.Row) { r.Warn(result.Unsteady, 0.7, "") }, runs.Holds},
		{9, "fine 5x5", func(r *result.Row) { r.WaitMS.P99, r.WaitMS.Max = 2.9, 2.99 }, runs.Holds},
		{9, "fine 5x5", func(r *result.Row) { r.WaitMS.Max = 3 }, runs.DoesNot},
		{9, "fine 5x5", nothingBought, runs.NotJudged},
		{10, "fine 5x1", func(r *result.Row) { r.Listed = 330_999 }, runs.Holds},
		{10, "fine 5x1", func(r *result.Row) { r.Listed = 331_000 }, runs.DoesNot}, // as many as watch
		{10, "coarse 1x1", func(r *result.Row) { r.Listed = 150_000 }, runs.DoesNot},
		{10, "watch 1x1", func(r *result.Row) { r.Listed = 0 }, runs.DoesNot},
		{6, "fine 5x1", func(r *result.Row) { r.Bought = 13001 }, runs.Holds},
		// A ratio of 1 is not more.
		{6, "fine 5x1", func(r *result.Row) { r.Bought = 13000 }, runs.DoesNot},
		// Rates, not counts.
		{6, "fine 5x1", func(r *result.Row) { r.Seconds *= 3 }, runs.DoesNot},
		// A shorter row.
		{6, "fine 5x1", func(r *result.Row) { r.Bought /= 12; r.Seconds /= 12 }, runs.Holds},
		{6, "fine 5x1", nothingBought, runs.DoesNot},
		{6, "coarse 5x1", nothingBought, runs.Holds},
		{7, "fine 1x1", func(r *result.Row) { r.Listed, r.Bought = 84000, 84000 }, runs.Holds},
		{7, "fine 1x1", func(r *result.Row) { r.Listed, r.Bought = 80000, 80000 }, runs.DoesNot},
		{7, "fine 1x1", func(r *result.Row) { r.Listed /= 12; r.Bought /= 12; r.Seconds /= 12 }, runs.Holds},
		{8, "fine 5x5", func(r *result.Row) { r.WaitMS.Mean = 2.99 }, runs.Holds},
		{8, "fine 5x5", func(r *result.Row) { r.WaitMS.Mean = 3 }, runs.DoesNot},
		// Fine must be below it.
		{8, "coarse 5x5", func(r *result.Row) { r.WaitMS.Mean = 2.9 }, runs.DoesNot},
		{8, "watch 5x5", func(r *result.Row) { r.WaitMS.Mean = 1 }, runs.DoesNot},
		{8, "watch 5x5", nothingBought, runs.NotJudged},
	} {
		got := Judge(rounds(t, 6, func(_ int, rows []result.Row) {
			c.change(rowOf(t, rows, c.row))
		}))[c.claim-1]
		if got.Verdict != c.want {
			t.Errorf("claim %d with %s changed: %s, want %s: %s",
				c.claim, c.row, got.Verdict, c.want, got.Measured)
		}
	}

	for commands, want := range map[int64]runs.Judgment{6e6: runs.Holds, 5_999_999: runs.DoesNot} {
		got := Judge(rounds(t, 6, func(_ int, rows []result.Row) {
			for i := range rows {
				rows[i].Commands = new(int64(60))
			}
			rowOf(t, rows, "fine 5x5").Commands = &commands
		}))[10]
		if got.Verdict != want {
			t.Errorf("claim 11 with %d commands in 60 s: %s, want %s: %s",
				commands, got.Verdict, want, got.Measured)
		}
	}
}

// TestNotJudged gives every row in turn a reason not to be trusted; claims that
// need it must say so.
func TestNotJudged(t *testing.T) {
	needs := map[string][]int{
		"watch 1x1":  {1, 2, 10, 11},
		"watch 5x1":  {10, 11},
		"watch 5x5":  {1, 2, 8, 10, 11},
		"coarse 1x1": {3, 4, 6, 10, 11},
		"coarse 5x1": {3, 4, 6, 10, 11},
		"coarse 5x5": {3, 4, 6, 8, 10, 11},
		"fine 1x1":   {5, 6, 7, 10, 11, 12},
		"fine 5x1":   {5, 6, 7, 10, 11, 12},
		"fine 5x5":   {5, 6, 7, 8, 9, 10, 11, 12},
	}

	for _, spoiled := range []struct {
		why   string
		spoil func(*result.Row)
	}{
		{"was not measured", func(r *result.Row) { r.Strategy = "other" }},
		{"was not measured", func(r *result.Row) { r.HoldMS = 1 }},
		{"was not audited", func(r *result.Row) { r.Audit = result.AuditSummary{OK: true} }},
		{"failed its audit", func(r *result.Row) { r.Audit.OK = false }},
	} {
		for name, ids := range needs {
			run := rounds(t, 6, func(_ int, rows []result.Row) { spoiled.spoil(rowOf(t, rows, name)) })
			// without the one of commands, which the tables do not tell
			for _, c := range slices.Delete(Judge(run), 10, 11) {
				needed := slices.Contains(ids, c.ID)
				if needed && (c.Verdict != runs.NotJudged ||
					!strings.Contains(c.Measured, name+" "+spoiled.why+" in round 1")) {
					t.Errorf("claim %d: %s %s: %s: %s", c.ID, name, spoiled.why, c.Verdict, c.Measured)
				}
				if !needed && c.Verdict != runs.Holds {
					t.Errorf("claim %d does not need %s: %s: %s", c.ID, name, c.Verdict, c.Measured)
				}
			}
		}
	}
}

// TestJudgeRounds gives some rounds a wait of fine 5x5 beyond the tolerance of claim 9,
// which is 3 ms. The interval of nine ends at the second from either end.
func TestJudgeRounds(t *testing.T) {
	for _, c := range []struct {
		beyond    int // rounds
		verdict   runs.Judgment
		low, high float64
	}{
		{0, runs.Holds, 2.9, 2.9},
		{1, runs.Holds, 2.9, 2.9}, // one round may be as bad as it likes
		{2, runs.NotDecided, 2.9, 70},
		{7, runs.NotDecided, 2.9, 70},
		{8, runs.DoesNot, 10, 70},
		{9, runs.DoesNot, 10, 70},
	} {
		run := rounds(t, 9, func(round int, rows []result.Row) {
			if round > 9-c.beyond {
				rowOf(t, rows, "fine 5x5").WaitMS.Max = 10 * float64(round-1)
			}
		})
		got := Judge(run)[8]
		if got.Verdict != c.verdict || got.Low == nil || *got.Low != c.low || *got.High != c.high {
			t.Errorf("%d rounds beyond the tolerance: %s, %s", c.beyond, got.Verdict, got.Measured)
		}
	}

	// The median of the rounds' numbers, and not the number of their medians: in each
	// round another mix is the worst.
	run := rounds(t, 9, func(round int, rows []result.Row) {
		name := []string{"fine 1x1", "fine 5x1", "fine 5x5"}[round%3]
		r := rowOf(t, rows, name)
		r.Retries, r.WaitMS.Count = 5, 1000
	})
	if got := Judge(run)[4]; got.Verdict != runs.DoesNot || *got.Low != 5 || *got.High != 5 {
		t.Errorf("a worst mix in every round: %s: %s", got.Verdict, got.Measured)
	}
}

// TestUndecided: rounds that are missing, or too few for an interval, leave everything
// undecided, even if those that are there agree.
func TestUndecided(t *testing.T) {
	cut := rounds(t, 9, unchanged)
	// The ninth round is missing, and so is the last row of the eighth; the row before was
	// interrupted.
	cut.Rows = cut.Rows[:8*9-1]
	cut.Rows[len(cut.Rows)-1].Status = stored.Interrupted

	for says, run := range map[string]*runs.Run{
		" in 7 of 9 rounds":         cut,
		" in 1 of 6 rounds":         rounds(t, 1, unchanged),
		"not one round is complete": {},
	} {
		for _, c := range slices.Delete(Judge(run), 10, 11) {
			if c.Verdict != runs.NotDecided || c.Low != nil || !strings.HasSuffix(c.Measured, says) {
				t.Errorf("claim %d: %s: %s; want%s", c.ID, c.Verdict, c.Measured, says)
			}
		}
	}

	// Nothing happens in these rounds: no claim may hold because of that, and none may have a
	// number that JSON cannot hold, such as NaN.
	idle := rounds(t, 9, func(_ int, rows []result.Row) {
		for i := range rows {
			rows[i] = result.Row{
				Point: rows[i].Point, Trial: rows[i].Trial, Status: stored.Complete, Seconds: 60,
				Audit: result.AuditSummary{Done: true, OK: true},
			}
		}
	})

	for _, c := range Judge(idle) {
		if c.Verdict == runs.Holds {
			t.Errorf("claim %d: %s: %s", c.ID, c.Verdict, c.Measured)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
	}
}

// TestJudgeEmbedded: what is about speed is not judged, and three rounds say of the
// rest whether it held in each.
func TestJudgeEmbedded(t *testing.T) {
	once := func(round int, rows []result.Row) {
		rowOf(t, rows, "watch 5x5").Warn(result.Unsteady, 0.7, "") // which no interval suffers from
		if round == 2 {
			rowOf(t, rows, "fine 1x1").Bought = 1
		}
	}

	run := rounds(t, 3, once)
	run.Manifest.Backend = "embedded"

	for _, got := range Judge(run) {
		want, says := runs.NotJudged, "not Redis's"
		switch got.ID {
		case 6:
			want, says = runs.NotDecided, "times)"
		case 1, 2, 10:
			want, says = runs.InEvery, "at 5x5"
		}

		if got.Verdict != want || !strings.Contains(got.Measured, says) {
			t.Errorf("claim %d: %s, want %s: %s", got.ID, got.Verdict, want, got.Measured)
		}
	}
}

// TestJudgeAPort: a port to Java is judged by the strategies that lock as it does, and by
// what is said of locks beside the book: an order that WATCH never executes.
func TestJudgeAPort(t *testing.T) {
	for _, c := range []struct {
		watch, coarse int64 // orders that are given up at 5x5
		want          runs.Judgment
	}{
		{10, 0, runs.Holds},
		{10, 10_000, runs.DoesNot}, // with the lock more
		{0, 0, runs.DoesNot},
	} {
		run := rounds(t, 6, func(_ int, rows []result.Row) {
			rowOf(t, rows, "watch 5x5").Refused = map[string]int64{"contended": c.watch}
			rowOf(t, rows, "coarse 5x5").Refused = map[string]int64{"contended": c.coarse}
			for i := range rows {
				rows[i].Strategy = specOf(Jedis, rows[i].Strategy)
			}
		})
		run.Manifest.Config.Reproduces = []string{Jedis}

		claims := Judge(run)
		if len(claims) != 13 || claims[12].Verdict != c.want {
			t.Errorf("%d claims, want 13; with %+v: %+v", len(claims), c, claims[len(claims)-1])
		}
		for _, c := range claims {
			if c.ID != 11 && c.ID != 13 && c.Verdict != runs.Holds {
				t.Errorf("claim %d of the book's own numbers: %s: %s", c.ID, c.Verdict, c.Measured)
			}
		}
	}
}
