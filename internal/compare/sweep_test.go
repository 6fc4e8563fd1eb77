package compare_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// swept is a run of watch and fine over 1, 2, 4 and 8 clients with and without a hold:
// rate gives their purchases/s.
func swept(t *testing.T, rate func(result.Point) int64) *runs.Run {
	t.Helper()
	axes, err := runs.ParseAxes([]string{"clients=1,2,4,8", "hold=0s,1ms"})
	if err != nil {
		t.Fatal(err)
	}

	margin := 0.05
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	run.Manifest.Config = runs.Config{
		Points: runs.Expand(result.Point{}, []string{"watch", "fine"}, axes), Trials: 9, Margin: &margin, Axes: axes,
	}

	for trial := 1; trial <= 9; trial++ {
		for _, p := range run.Manifest.Config.Points {
			run.Rows = append(run.Rows, result.Row{
				Point: p, Trial: trial, Status: stored.Complete, Seconds: 1, Bought: 1000*rate(p) + int64(trial),
				Audit: result.AuditSummary{Done: true, OK: true},
			})
		}
	}
	return run
}

// watchThenFine: watch is best with few clients, from 4 on fine is; with a hold
// fine always is.
func watchThenFine(p result.Point) int64 {
	if p.Strategy == "watch" && p.HoldMS == 0 && p.Mix.Buyers < 4 {
		return 9
	}
	if p.Strategy == "fine" {
		return 6
	}
	return 3
}

func pointsOf(run *runs.Run) []compare.Place { return compare.Places(run, compare.Of(run)) }

// TestPoints: who is best where, and what the worst choice costs.
func TestPoints(t *testing.T) {
	points := pointsOf(swept(t, watchThenFine))
	var got []string
	for _, p := range points {
		got = append(got, fmt.Sprintf("%s %v %v %.2f", p.Place, p.At, p.Best, p.Loss.Ratio))
	}

	want := []string{
		"1x1 [1 0] [watch] 0.67", "1x1 hold=1ms [1 1] [fine] 0.50",
		"2x2 [2 0] [watch] 0.67", "2x2 hold=1ms [2 1] [fine] 0.50",
		"4x4 [4 0] [fine] 0.50", "4x4 hold=1ms [4 1] [fine] 0.50",
		"8x8 [8 0] [fine] 0.50", "8x8 hold=1ms [8 1] [fine] 0.50",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	if c := points[0].Loss; c.Verdict != compare.Slower || c.A != "fine" || c.B != "watch" {
		t.Errorf("fine and watch at 1x1: %+v", c)
	}
}

// TestUnfinished: while rounds are missing nobody is best, and one whose audit
// failed never is.
func TestUnfinished(t *testing.T) {
	run := swept(t, watchThenFine)
	run.Rows = run.Rows[:len(run.Rows)-1]
	for _, p := range pointsOf(run) {
		if p.Best != nil || p.Loss != nil {
			t.Errorf("%s is judged after 8 of 9 rounds: %v", p.Place, p.Best)
		}
	}

	run = swept(t, watchThenFine)
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Strategy == "watch" {
			r.Audit.OK = false
		}
	}
	for _, p := range pointsOf(run) {
		if !reflect.DeepEqual(p.Best, []string{"fine"}) {
			t.Errorf("%s: best is %q, and watch failed its audit", p.Place, p.Best)
		}
	}

	if points := pointsOf(&runs.Run{}); points != nil {
		t.Errorf("a run that is no sweep has the points %v", points)
	}
}
