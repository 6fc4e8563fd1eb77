package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

// withCourse is a row of 1.25 s in intervals of half a second.
func withCourse() result.Row {
	return result.Row{
		Point: result.Point{
			Strategy: "lua", Mix: result.Mix{Sellers: 1, Buyers: 2}, Load: result.Load{HoldMS: 0.5},
		},
		Trial:         2,
		Status:        stored.Complete,
		Began:         time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		Seconds:       1.25,
		CourseSeconds: 0.5,
		Course:        []int64{200, 0, 50},
		CourseP50MS:   []float64{0.75, 0, 2},
		CourseP99MS:   []float64{1.5, 0, 4},
	}
}

// TestIntervals: each has a line with its own length, its end, and its percentiles, if
// anything was bought in it.
func TestIntervals(t *testing.T) {
	t.Parallel()
	drawn := func(run string, r result.Row, from int) string {
		var out strings.Builder
		testkit.Succeeds(t, view.Intervals(&out, run, r, from))
		return out.String()
	}

	const row = `"strategy":"lua","mix":"1x2","hold_ms":0.5,"trial":2,`
	want := `{` + row + `"interval":1,"at":"2026-11-29T12:00:00.5Z","seconds":0.5,"purchases":200,` +
		`"purchases_per_second":400,"wait_ms_p50":0.75,"wait_ms_p99":1.5}
{` + row + `"interval":2,"at":"2026-11-29T12:00:01Z","seconds":0.5,"purchases":0,"purchases_per_second":0}
{` + row + `"interval":3,"at":"2026-11-29T12:00:01.25Z","seconds":0.25,"purchases":50,` +
		`"purchases_per_second":200,"wait_ms_p50":2,"wait_ms_p99":4}
`
	if got := drawn("", withCourse(), 0); got != want {
		t.Errorf("the intervals are\n%s\nwant\n%s", got, want)
	}
	_, last, _ := strings.Cut(want, "\n{"+row+`"interval":2`)
	_, last, _ = strings.Cut(last, "\n")
	if got := drawn("", withCourse(), 2); got != last {
		t.Errorf("from the third on they are\n%s\nwant\n%s", got, last)
	}

	old := withCourse() // of a version that stored neither percentiles nor when a row began
	old.Began, old.CourseP50MS, old.CourseP99MS = time.Time{}, nil, nil
	want = `{"run":"old",` + row +
		`"interval":3,"seconds":0.25,"purchases":50,"purchases_per_second":200}` + "\n"
	if got := drawn("old", old, 2); got != want {
		t.Errorf("of an older version it is\n%s\nwant\n%s", got, want)
	}

	old.CourseP99MS = []float64{1.5, 0, 4} // of a file that was edited
	if got := drawn("old", old, 2); got != want {
		t.Errorf("with one percentile and not the other it is\n%s\nwant\n%s", got, want)
	}

	old.Seconds = 0.75 // which nobody has stored
	if got := strings.Count(drawn("", old, 0), "\n"); got != 2 {
		t.Errorf("%d intervals in less time than they take, want 2", got)
	}
}

// TestWaits: each percentile has a panel, in which an interval has the median of the rounds.
// A p99 of few purchases is left out.
func TestWaits(t *testing.T) {
	t.Parallel()
	first, second := withCourse(), withCourse()
	second.Trial = 3
	second.CourseP50MS = []float64{1.25, 0, 2}
	run := &runs.Run{Rows: []result.Row{first, second}}

	for _, f := range view.Figures(run) {
		if f.Name != "waits" {
			continue
		}
		if len(f.Panels) != 2 || f.Panels[0].Title != "1x2 hold=0.5ms, p50" ||
			f.Panels[1].Title != "1x2 hold=0.5ms, p99" {
			t.Fatalf("the panels are %+v", f.Panels)
		}
		p50, p99 := f.Panels[0].Lines[0], f.Panels[1].Lines[0]
		if len(p50.Y) != 2 || p50.Y[0] != 1 || p50.X[1] != 1.25 || len(p99.Y) != 1 || p99.Y[0] != 1.5 {
			t.Errorf("p50 %+v, p99 %+v", p50, p99)
		}
		return
	}
	t.Error("there is no figure of the waits")
}
