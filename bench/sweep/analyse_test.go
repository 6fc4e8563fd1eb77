package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/result"
)

// planted is a complete sweep of so many rounds, in which each strategy makes what rate says, give or take 2% that differ
// from round to round.
func planted(strategies []string, rounds int, axes []result.Axis, rate func(strategy string, p result.Point) float64) *result.Run {
	margin := 0.05
	run := &result.Run{Schema: result.Schema, Status: result.Complete}
	run.Manifest.Config = result.Config{Strategies: strategies, Trials: rounds, Margin: &margin, Clients: 5, Axes: axes}
	for round := 1; round <= rounds; round++ {
		for j, p := range run.Manifest.Config.Points() {
			for i, s := range strategies {
				noise := 1 + 0.02*math.Sin(float64(7*round+3*i+5*j))
				us := 50.0
				run.Rows = append(run.Rows, result.Row{
					Strategy: s, Sellers: p.Mix.Sellers, Buyers: p.Mix.Buyers, Workload: p.Workload, Trial: round,
					Status: result.Complete, Seconds: 2, PurchasesPerSecond: noise * rate(s, p), CommandsPerPurchase: 9,
					WaitMS: result.Latency{Mean: 1, P99: 4 * noise}, Audit: result.Audit{Done: true, OK: true},
					Cost: &result.Cost{ServerUS: &us},
				})
			}
		}
	}
	return run
}

func clients(values ...float64) []result.Axis {
	return []result.Axis{{Name: result.Clients, Values: values}}
}

// TestCrossingIsFound where it was planted: queue is half as fast as fine up to 4 clients, as fast at 8, and twice as fast
// from 16.
func TestCrossingIsFound(t *testing.T) {
	run := planted([]string{"fine", "queue"}, 9, clients(1, 2, 4, 8, 16, 32), func(s string, p result.Point) float64 {
		if s == "fine" {
			return 1000
		}
		return map[int]float64{1: 500, 2: 500, 4: 500, 8: 1000, 16: 2000, 32: 2000}[p.Mix.Buyers]
	})
	s := Analyse(run)
	if len(s.Crossings) != 1 {
		t.Fatalf("%+v", s.Crossings)
	}
	c := s.Crossings[0]
	if c.A != "queue" || c.B != "fine" || c.Before != 4 || c.After != 16 || c.Until != 32 || !slices.Equal(c.Between, []float64{8}) ||
		c.Line != (result.Line{Axis: result.Clients}) {
		t.Errorf("%+v", c)
	}
	for i, want := range []string{"fine", "fine", "fine", "fine queue", "queue", "queue"} {
		if got := strings.Join(s.Points[i].Best, " "); got != want {
			t.Errorf("at %s the best are %s, want %s", s.Points[i].Place, got, want)
		}
	}
	if l := s.Points[0].Loss; l == nil || l.Worst != "queue" || l.Best != "fine" || !l.Sure || !near(l.Ratio, 0.5, 0.05) ||
		*l.Low > l.Ratio || *l.High < l.Ratio {
		t.Errorf("the worst choice loses %+v", l)
	}
	if l := s.Points[3].Loss; l == nil || l.Sure {
		t.Errorf("a loss where there is no difference: %+v", l)
	}
	want := []string{
		"No strategy is the fastest everywhere: of the 6 points, fine at 3 and queue at 2; at 1 several may be.",
		"From 16 clients on queue passes fine, which is faster at 4 clients; at 8 clients neither is known to be faster.",
	}
	for _, text := range want {
		if !slices.Contains(s.Findings, text) {
			t.Errorf("%q is not among %q", text, s.Findings)
		}
	}
	m := s.Points[0].Strategies[0]
	if m.Strategy != "fine" || m.Rounds != 9 || !near(m.PerSecond.Median, 1000, 0.03) || m.PerSecond.Low == nil ||
		*m.PerSecond.Low > *m.PerSecond.High || m.Commands.Median != 9 || m.ServerUS.Median != 50 || m.P99MS.Median == 0 {
		t.Errorf("%+v", m)
	}
}

// TestBestSentence: who leads is named first, and never where it is not known.
func TestBestSentence(t *testing.T) {
	config := result.Config{Strategies: []string{"a", "b", "c"}}
	for want, best := range map[string][]string{
		"a is the fastest at all 2 points.":                                                               {"a", "a"},
		"b is the fastest at 2 of 3 points, and at the other 1 it may be.":                                {"b", "b", "a b"},
		"b is the fastest at 1 of 3 points; at 2 several may be.":                                         {"b", "a c", "a b"},
		"No strategy is the fastest everywhere: of the 3 points, a at 2 and c at 1.":                      {"a", "a", "c"},
		"No strategy is the fastest everywhere: of the 3 points, a at 1 and c at 1; at 1 several may be.": {"a", "a b", "c"},
		"No strategy is known to be the fastest at any of the 2 points.":                                  {"a b", "b c"},
		"a is the fastest at 1 of 2 points; at 1 none can be judged.":                                     {"a", ""},
	} {
		var points []result.SweepPoint
		for _, names := range best {
			points = append(points, result.SweepPoint{Best: strings.Fields(names)})
		}
		if got := bestSentence(config, points); got != want {
			t.Errorf("%q: %s, want %s", best, got, want)
		}
	}
}

// TestCrossingBack: a lead that ends is not said to go on.
func TestCrossingBack(t *testing.T) {
	run := planted([]string{"a", "b"}, 9, clients(1, 2, 4, 8), func(s string, p result.Point) float64 {
		if s == "b" && (p.Mix.Buyers == 2 || p.Mix.Buyers == 4) {
			return 2000
		} else if s == "b" {
			return 500
		}
		return 1000
	})
	s := Analyse(run)
	if len(s.Crossings) != 2 || s.Crossings[0].A != "b" || s.Crossings[0].Until != 4 || s.Crossings[1].A != "a" ||
		s.Crossings[1].Before != 4 {
		t.Fatalf("%+v", s.Crossings)
	}
	want := "From 2 clients to 4 clients b passes a, which is faster at 1 client; between them nothing was measured."
	if !slices.Contains(s.Findings, want) {
		t.Errorf("%q is not among %q", want, s.Findings)
	}
}

// TestTwoAxes: there are lines along each, and a crossing along one names the value of the other.
func TestTwoAxes(t *testing.T) {
	axes := append(clients(1, 8), result.Axis{Name: result.Hold, Values: []float64{0, 1, 10}})
	if n := len(Lines(result.Config{Axes: axes})); n != 5 {
		t.Errorf("%d lines, want 3 along clients and 2 along hold", n)
	}
	run := planted([]string{"fine", "watch"}, 12, axes, func(s string, p result.Point) float64 {
		if s == "watch" && p.HoldMS == 10 && p.Mix.Buyers == 8 {
			return 3000
		} else if s == "watch" {
			return 500
		}
		return 1000
	})
	s := Analyse(run)
	var got []string
	for _, c := range s.Crossings {
		got = append(got, fmt.Sprintf("%s %v/%s %v: %v to %v", c.A, c.Other, c.B, c.OtherValue, c.Before, c.After))
	}
	if want := "watch hold/fine 10: 1 to 8; watch clients/fine 8: 1 to 10"; strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	want := "With a hold of 10 ms, from 8 clients on watch passes fine, which is faster at 1 client; between them nothing was measured."
	if !slices.Contains(s.Findings, want) {
		t.Errorf("%q is not among %q", want, s.Findings)
	}
	if s.Points[5].Place != "8x8 hold=10ms" || At(run.Manifest.Config, s.Points[5]) != "8 clients and a hold of 10 ms" {
		t.Errorf("%+v", s.Points[5])
	}
}

// TestCutShort: a sweep without all its rounds decides nothing, and one without any has nothing to say.
func TestCutShort(t *testing.T) {
	run := planted([]string{"a", "b"}, 9, clients(1, 2), func(s string, _ result.Point) float64 {
		return map[string]float64{"a": 100, "b": 900}[s]
	})
	run.Rows, run.Status = run.Rows[:len(run.Rows)-1], result.Interrupted
	s := Analyse(run)
	if !slices.Equal(s.Findings, []string{"Nothing is decided: 8 of 9 rounds are complete."}) || len(s.Crossings) != 0 {
		t.Errorf("%+v", s)
	}
	if m := s.Points[0].Strategies[0]; m.Rounds != 8 || m.PerSecond.Low != nil {
		t.Errorf("an interval of 8 of 9 rounds: %+v", m)
	}
	run.Rows = run.Rows[:3]
	if s := Analyse(run); s != nil {
		t.Errorf("%+v of no complete round", s)
	}
	run.Manifest.Config.Axes = nil
	if s := Analyse(run); s != nil {
		t.Errorf("%+v of a run that is no sweep", s)
	}
}

// near reports whether a is b but for a part of it.
func near(a, b, part float64) bool { return math.Abs(a-b) <= part*math.Max(math.Abs(b), 1e-9) }

// TestUnfitRows: what failed its audit or bought nothing is neither the best nor the worst.
func TestUnfitRows(t *testing.T) {
	run := planted([]string{"a", "b", "c"}, 12, clients(1, 2, 4, 8, 16, 32), func(s string, _ result.Point) float64 {
		return map[string]float64{"a": 100, "b": 200, "c": 900}[s]
	})
	for i, r := range run.Rows {
		if r.Strategy == "c" && r.Buyers == 4 && r.Trial == 3 {
			run.Rows[i].Audit.OK = false
		}
		if r.Strategy == "a" && r.Buyers == 8 && r.Trial == 5 {
			run.Rows[i].PurchasesPerSecond = 0
		}
	}
	s := Analyse(run)
	at4, at8 := s.Points[2], s.Points[3]
	if at4.Strategies[2].Problem != "failed its audit in round 3" || !slices.Equal(at4.Best, []string{"b"}) || at4.Loss.Best != "b" {
		t.Errorf("%+v", at4)
	}
	if at8.Strategies[0].Problem != "bought nothing in round 5" || !slices.Equal(at8.Best, []string{"c"}) || at8.Loss.Worst != "b" {
		t.Errorf("%+v", at8)
	}
}

// TestAnyRates: whatever is measured, what is said of it does not contradict itself, and does not depend on the order in
// which strategies are named.
func TestAnyRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		rates := map[string]float64{}
		axis := clients(1, 2, 4, 8)
		axes := rapid.SampledFrom([][]result.Axis{axis, append(axis, result.Axis{Name: result.Hold, Values: []float64{0, 5}})}).Draw(t, "axes")
		rate := func(s string, p result.Point) float64 {
			key := s + p.String()
			if _, drawn := rates[key]; !drawn {
				rates[key] = rapid.SampledFrom([]float64{0, 100, 101, 150, 400}).Draw(t, key)
			}
			return rates[key]
		}
		s := Analyse(planted(names, 12, axes, rate))
		for _, c := range s.Crossings {
			if !(c.Before < c.After && c.After <= c.Until) || c.A == c.B {
				t.Fatalf("%+v", c)
			}
			for _, v := range c.Between {
				if v <= c.Before || v >= c.After {
					t.Fatalf("%+v", c)
				}
			}
		}
		for _, p := range s.Points {
			for _, m := range p.Strategies {
				bought := rate(m.Strategy, result.Point{Mix: mixOf(p.Place), Workload: workloadOf(p)}) > 0
				if bought != (m.Problem == "") || !bought && slices.Contains(p.Best, m.Strategy) {
					t.Fatalf("%+v", p)
				}
			}
			if l := p.Loss; l != nil && (l.Ratio > 1.1 || l.Sure && slices.Contains(p.Best, l.Worst)) {
				t.Fatalf("%+v", p)
			}
		}
		turned := Analyse(planted([]string{"c", "b", "a"}, 12, axes, func(s string, p result.Point) float64 { return rates[s+p.String()] }))
		for i, p := range s.Points {
			best := slices.Clone(turned.Points[i].Best)
			slices.Sort(best)
			if !slices.Equal(best, p.Best) && firm(rates, p.Place) {
				t.Fatalf("best at %s: %v, and in another order %v", p.Place, p.Best, best)
			}
		}
	})
}

// mixOf is the mix of a place.
func mixOf(place string) (m result.Mix) {
	_, _ = fmt.Sscanf(place, "%dx%d", &m.Sellers, &m.Buyers)
	return m
}

func workloadOf(p result.SweepPoint) (w result.Workload) {
	if len(p.At) == 2 {
		w.HoldMS = p.At[1]
	}
	return w
}

// firm reports whether the rates at a place are so far apart that the noise, which the order of strategies changes,
// decides nothing.
func firm(rates map[string]float64, place string) bool {
	return !(slices.Contains([]float64{rates["a"+place], rates["b"+place], rates["c"+place]}, 100) &&
		slices.Contains([]float64{rates["a"+place], rates["b"+place], rates["c"+place]}, 101))
}
