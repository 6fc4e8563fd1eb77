package result_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// TestPoints: the last axis varies fastest, what is not an axis has its one value, and hot markets have no sellers.
func TestPoints(t *testing.T) {
	axis := func(name result.AxisName, values ...float64) result.Axis {
		return result.Axis{Name: name, Values: values}
	}
	for _, c := range []struct {
		config result.Config
		want   string
	}{
		{result.Config{Mixes: []string{"5x5"}}, ""},
		{result.Config{Axes: []result.Axis{axis(result.Clients, 1, 8)}}, "1x1 [1]; 8x8 [8]"},
		{result.Config{Clients: 5, Axes: []result.Axis{axis(result.Hot, 1, 10)}}, "0x5 hot=1 [1]; 0x5 hot=10 [10]"},
		{
			result.Config{Workload: result.Workload{Hot: 2}, Axes: []result.Axis{
				axis(result.Clients, 1, 2), axis(result.Hold, 0, 0.5),
			}},
			"0x1 hot=2 [1 0]; 0x1 hot=2 hold=0.5ms [1 0.5]; 0x2 hot=2 [2 0]; 0x2 hot=2 hold=0.5ms [2 0.5]",
		},
		{
			result.Config{Clients: 3, Workload: result.Workload{HoldMS: 1}, Axes: []result.Axis{axis(result.RTT, 0, 20)}},
			"3x3 hold=1ms [0]; 3x3 hold=1ms rtt=20ms [20]",
		},
	} {
		var got []string
		for _, p := range c.config.Points() {
			got = append(got, fmt.Sprintf("%s %v", p, p.At))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("the points are %s; want %s", strings.Join(got, "; "), c.want)
		}
	}
}

// TestPlaces: a row of a sweep is at the point that it was measured at, and a row of any other run under its mix
// and its workload.
func TestPlaces(t *testing.T) {
	row := result.Row{Strategy: "fine", Buyers: 5, Workload: result.Workload{Hot: 1}}
	swept := result.Config{Clients: 5, Axes: []result.Axis{{Name: result.Hot, Values: []float64{1, 2}}}}
	if got := row.Place(); got != swept.Places()[0] || row.Name() != "fine "+got {
		t.Errorf("%q is none of %q", got, swept.Places())
	}
	run := result.Config{Mixes: []string{"0x5"}, Workload: row.Workload}
	if got := row.Place(); got != "0x5 hot=1" || !slices.Equal(run.Places(), []string{got}) {
		t.Errorf("%q is none of %q", got, run.Places())
	}
	if book := (result.Config{Mixes: []string{"0x5"}}); slices.Contains(book.Places(), row.Place()) {
		t.Errorf("a row of another workload than the run's is one of %q", book.Places())
	}
}

// TestRoundsOfASweep: a round is complete when every strategy has a row at every point, and rows are grouped in the order of
// the points.
func TestRoundsOfASweep(t *testing.T) {
	run := &result.Run{Schema: result.Schema, Status: result.Interrupted}
	run.Manifest.Config = result.Config{
		Strategies: []string{"watch", "fine"}, Trials: 6, Axes: []result.Axis{{Name: result.Clients, Values: []float64{2, 16}}},
	}
	for round := 1; round <= 2; round++ {
		for _, clients := range []int{16, 2} {
			for _, strategy := range []string{"fine", "watch"} {
				run.Rows = append(run.Rows, result.Row{
					Strategy: strategy, Sellers: clients, Buyers: clients, Trial: round, Status: result.Complete,
				})
			}
		}
	}
	run.Rows = run.Rows[:7] // the second round lacks one
	if rounds := run.Rounds(); len(rounds) != 1 || len(rounds[0]) != 4 {
		t.Errorf("%d complete rounds", len(rounds))
	}
	var names []string
	for _, group := range run.Same(run.Rows) {
		names = append(names, group[0].Name())
	}
	if got := strings.Join(names, ", "); got != "watch 2x2, watch 16x16, fine 2x2, fine 16x16" {
		t.Errorf("the groups are %s", got)
	}
}

func TestReadRefusesAxes(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("%d,", 100), ",")
	var numbers []any
	for i := range 100 {
		numbers = append(numbers, i+1)
	}
	many = fmt.Sprintf(many, numbers...)
	for axes, want := range map[string]string{
		`{"name":"cores","values":[1]}`:                                                        `unknown axis "cores"`,
		`{"name":"clients","values":[]}`:                                                       "the axis clients has no values",
		`{"name":"clients","values":[2,1]}`:                                                    "they ascend from 0",
		`{"name":"clients","values":[2,2]}`:                                                    "they ascend from 0",
		`{"name":"clients","values":[1.5]}`:                                                    "are whole",
		`{"name":"hot","values":[0,1]}`:                                                        "are whole",
		`{"name":"hold","values":[-1,1]}`:                                                      "they ascend from 0",
		`{"name":"rtt","values":[1]},{"name":"rtt","values":[2]}`:                              "the axis rtt is there twice",
		`{"name":"rtt","values":[1]},{"name":"hot","values":[2]},{"name":"hold","values":[0]}`: "more than two axes",
		`{"name":"clients","values":[` + many + `]},{"name":"hot","values":[` + many + `]}`:    "more than 5000 points",
	} {
		text := `{"schema":1,"status":"interrupted","manifest":{"config":{"axes":[` + axes + `]}},"rows":[]}`
		if _, err := result.ReadRun(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", axes, err, want)
		}
	}
}

// TestSweepIsReadAsWritten: what is read of a stored sweep is what was written.
func TestSweepIsReadAsWritten(t *testing.T) {
	low, high := 90.0, 110.0
	run := &result.Run{
		Schema: result.Schema, Status: result.Interrupted, Rows: []result.Row{},
		Sweep: &result.Sweep{
			Findings: []string{"fine is the fastest at all 2 points."},
			Points: []result.SweepPoint{{
				At: []float64{1}, Place: "1x1", Best: []string{"fine"}, Loss: &result.Loss{Worst: "watch", Best: "fine", Ratio: 0.5},
				Strategies: []result.Measured{{
					Strategy: "fine", Rounds: 6, PerSecond: result.Estimate{Median: 100, Low: &low, High: &high},
				}},
			}},
			Crossings: []result.Crossing{{
				Line: result.Line{Axis: result.Clients}, A: "fine", B: "watch", Before: 1, After: 4, Until: 8, Between: []float64{2},
			}},
		},
	}
	run.Manifest.Config = result.Config{Clients: 2, Axes: []result.Axis{{Name: result.RTT, Values: []float64{0, 0.5}}}}
	var b bytes.Buffer
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := result.ReadRun(&b)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(run)
	if got, _ := json.Marshal(again); !bytes.Equal(got, want) {
		t.Errorf("read %s\nwant %s", got, want)
	}
}

func TestSay(t *testing.T) {
	for want, got := range map[string]string{
		"1 client": result.Clients.Say(1), "8 clients": result.Clients.Say(8), "1 hot item": result.Hot.Say(1),
		"10 hot items": result.Hot.Say(10), "a hold of 0.5 ms": result.Hold.Say(0.5), "a delay of 20 ms": result.RTT.Say(20),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
