package runs_test

import (
	"math"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// threeRounds are rows of a plan of two points, in the orders of the rounds: one row of
// the second round was not complete, and the last round was cut short.
func threeRounds() *runs.Run {
	watch := result.Point{Strategy: "watch", Mix: result.Mix{Sellers: 5, Buyers: 1}}
	fine := result.Point{
		Strategy: "fine", Mix: result.Mix{Sellers: 5, Buyers: 1}, Load: result.Load{HoldMS: 0.5},
	}
	r := &runs.Run{}
	r.Manifest.Config = runs.Config{Points: []result.Point{watch, fine}, Trials: 4}

	row := func(p result.Point, trial int, status string) {
		r.Rows = append(r.Rows, result.Row{
			Point: p, Trial: trial, Status: status, Seconds: 2, Bought: int64(trial),
		})
	}

	row(fine, 1, stored.Complete)
	row(watch, 1, stored.Complete)
	row(watch, 2, stored.Complete)
	row(fine, 2, stored.Incomplete)
	row(fine, 3, stored.Complete)
	row(watch, 3, stored.Complete)
	row(watch, 4, stored.Complete)
	return r
}

// TestCompleteRounds: a round counts when every point of the plan was measured in it.
func TestCompleteRounds(t *testing.T) {
	rounds := threeRounds().CompleteRounds()
	var trials []int
	for _, round := range rounds {
		trials = append(trials, round[0].Trial)
	}
	if !slices.Equal(trials, []int{1, 3}) || len(rounds[1]) != 2 {
		t.Errorf("these are complete: %+v", rounds)
	}
	if rounds := (&runs.Run{}).CompleteRounds(); rounds != nil {
		t.Errorf("a run without rows has %d rounds", len(rounds))
	}
}

// TestGroups: groups come in the order of the plan, and each has its rows in
// the order of rounds.
func TestGroups(t *testing.T) {
	r := threeRounds()
	r.Rows = append(r.Rows, result.Row{
		Point: result.Point{Strategy: "other", Mix: result.Mix{Sellers: 1, Buyers: 1}},
	})
	// Backwards, so that neither order is that of the rows.
	slices.Reverse(r.Rows)

	perSecond := runs.MetricByName("purchases_per_second")
	var names []string
	for _, g := range r.Groups() {
		names = append(names, g.Name())
		if g.Strategy == "watch" && !slices.Equal(g.Values(perSecond), []float64{0.5, 1, 1.5, 2}) {
			t.Errorf("the rates of watch are %v", g.Values(perSecond))
		}
	}

	if want := []string{"watch 5x1", "fine 5x1 hold=0.5ms", "other 1x1"}; !slices.Equal(names, want) {
		t.Errorf("groups %q, want %q", names, want)
	}

	c := r.Manifest.Config
	strategies, places := c.Subjects(), c.Places()
	if !slices.Equal(strategies, []string{"watch", "fine"}) ||
		!slices.Equal(places, []string{"5x1", "5x1 hold=0.5ms"}) {
		t.Errorf("strategies %q in %q", strategies, places)
	}
}

// TestNames: a point is named by all that it has besides the usual.
func TestNames(t *testing.T) {
	p := result.Point{Strategy: "fine#2", Mix: result.Mix{Buyers: 8}, Load: result.Load{
		Wallets: 2, Funds: 3, Hot: 4, Stock: 5, Empty: true, HoldMS: 0.25, RTTMS: 1, Markets: 2,
		Rate: 2500, Arrivals: result.ConstantArrivals,
	}}
	on := result.Point{Strategy: "fine#2", Server: "valkey", Mix: p.Mix}
	if on.Subject() != "fine on valkey#2" || on.Name() != "fine on valkey#2 0x8" ||
		on.Place() != "0x8" || on.Spec() != "fine" {
		t.Errorf("on a server it is named %q, of %q", on.Name(), on.Subject())
	}

	want := "fine#2 0x8 wallets=2 funds=3 hot=4 stock=5 hold=0.25ms rtt=1ms markets=2 arrivals=constant at 2500/s"
	if p.Name() != want || p.Spec() != "fine" {
		t.Errorf("it is named %q, of %q", p.Name(), p.Spec())
	}
	p = result.Point{Strategy: "fine", Mix: result.Mix{Sellers: 5, Buyers: 5}}
	for _, axis := range runs.AxisNames() {
		p = axis.At(p, 3)
	}
	if want := "fine 0x3 hot=3 hold=3ms rtt=3ms markets=3"; p.Name() != want {
		t.Errorf("moved on every axis it is %q, want %q", p.Name(), want)
	}
	p = runs.AxisMarkets.At(p, 1)
	if p.Markets != 0 {
		t.Errorf("with one market it is %q", p.Name())
	}
}

// TestMetrics: names are unique, those in tables have headings, and what a row
// does not have is no number.
func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range runs.Metrics() {
		if seen[m.Name] || (m.Table != "") != (m.Heading != "") && m.Table != "" {
			t.Errorf("%+v is there twice, or has no heading", m)
		}
		seen[m.Name] = true
	}

	// Of steadiness: a third of the interval from 0.75 to 1.5 s lies in the first half.
	for name, want := range map[string]float64{
		"purchases_per_second":            150,
		"retries_per_purchase":            2,
		"jain":                            0.9,
		"round_trips_per_purchase":        3,
		"server_us":                       2000,
		"server_cpu":                      0.3,
		"client_cpu":                      0.25,
		"wait_ms_p99":                     7,
		"steadiness":                      640. / 260,
		"buyer_ms_per_purchase":           1000. * 2 * 2 / 300,
		"given_up_share":                  0.25,
		"offered_per_second":              math.NaN(),
		"list_ms_mean":                    math.NaN(),
		"lock_servers_bytes_per_purchase": math.NaN(),
	} {
		m := runs.MetricByName(name)
		seconds := func(s float64) *float64 { return &s }
		r := result.Row{
			Seconds:       2,
			Bought:        300,
			Retries:       600,
			PerBuyer:      []int64{100, 200},
			WaitMS:        result.Latency{P99: 7, Count: 300},
			GivenUpMS:     result.Latency{Count: 100},
			Refused:       map[string]int64{"contended": 100},
			Market:        &result.Traffic{RoundTrips: 900},
			ServerCPU:     seconds(0.6),
			ClientCPU:     seconds(1),
			Cores:         2,
			Course:        []int64{60, 80, 160},
			CourseSeconds: 0.75,
		}

		got := m.Of(&r)
		same := math.Abs(got-want) <= 1e-9 || math.IsNaN(got) && math.IsNaN(want)
		if !same {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// TestSteadiness: interval by interval, the one in the middle belongs to both halves.
func TestSteadiness(t *testing.T) {
	for _, c := range []struct {
		course []int64
		want   float64
	}{
		// 1000 is the most, and stands for infinity: JSON has none.
		{[]int64{100, 100, 100, 100}, 1},
		{[]int64{100, 100, 50, 50}, 0.5},
		{[]int64{0, 0, 200, 200}, 1000},
		{[]int64{100, 50}, math.NaN()}, // too few to tell
	} {
		r := result.Row{Seconds: float64(len(c.course)), CourseSeconds: 1, Course: c.course}
		for _, n := range c.course {
			r.Bought += n
		}

		got := r.Steadiness()
		same := got == c.want || math.IsNaN(got) && math.IsNaN(c.want)
		if !same {
			t.Errorf("%v is %v, want %v", c.course, got, c.want)
		}
	}
}
