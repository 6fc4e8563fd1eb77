package report

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
)

// growth is how the purchases/s of a strategy grow with clients: those of one, what only one can do at a time, and what each
// pair costs.
type growth struct{ one, alone, pair float64 }

func (g growth) of(n float64) float64 { return g.one * n / (1 + g.alone*(n-1) + g.pair*n*(n-1)) }

// sweepOf is a sweep of so many rounds. Each strategy grows with clients in its own way, and is slowed down by the work in
// its critical section.
func sweepOf(rounds int, axes []result.Axis, strategies ...string) *result.Run {
	grows := map[string]growth{
		"watch": {4000, 0.9, 0.3}, "fine": {2500, 0.12, 0.004}, "fine:queue": {1500, 0.02, 0.0001}, "lua": {2400, 0.05, 0},
		"fine-wallet:set-px+watchdog:ttl=500ms": {1800, 0.15, 0.001},
	}
	slowed := map[string]float64{"watch": 0.1, "fine": 0.8, "fine:queue": 0.7, "lua": 0.2}
	within := 0.05
	res := complete()
	c := &res.Manifest.Config
	c.Strategies, c.Mixes, c.Trials, c.Margin, c.Axes, c.Clients = strategies, nil, rounds, &within, axes, 5
	res.Rows = nil
	for round := 1; round <= rounds; round++ {
		for i, p := range c.Points() {
			for j, strategy := range strategies {
				noise := 1 + 0.01*float64((5*round+3*i+7*j)%7-3)
				rate := noise * grows[strategy].of(float64(p.Mix.Buyers)) / (1 + slowed[strategy]*p.HoldMS)
				r := measuredRow(strategy, p.Mix.Sellers, p.Mix.Buyers, int64(5*rate)+100, int64(5*rate), 0, 1000*float64(p.Mix.Buyers)/rate)
				us := 40.0 + float64(j)
				r.Trial, r.Workload, r.Cost = round, p.Workload, &result.Cost{ServerUS: &us}
				res.Rows = append(res.Rows, r)
			}
		}
	}
	return judgedSweep(res)
}

// judgedSweep is a sweep with what its rows come to.
func judgedSweep(res *result.Run) *result.Run {
	res.Sweep = sweep.Analyse(res)
	return res
}

// swept is a sweep of clients, in which one row failed its audit.
func swept() *result.Run {
	axis := result.Axis{Name: result.Clients, Values: []float64{1, 2, 4, 8, 16, 32}}
	res := sweepOf(12, []result.Axis{axis}, "watch", "fine", "fine:queue")
	for i, r := range res.Rows {
		if r.Strategy == "watch" && r.Buyers == 32 && r.Trial == 4 {
			res.Rows[i].Audit.OK, res.Rows[i].Audit.ItemProblems = false, 1
			res.Rows[i].Warnings = []string{"the process itself was the limit"}
		}
	}
	return judgedSweep(res)
}

// sweptTwice is a sweep of clients and of the work in a critical section.
func sweptTwice() *result.Run {
	return sweepOf(12, []result.Axis{
		{Name: result.Hold, Values: []float64{0, 10}}, {Name: result.Clients, Values: []float64{1, 8}},
	}, "fine", "fine-wallet:set-px+watchdog:ttl=500ms", "lua")
}

// sweptInPart is a sweep that was interrupted in its third round.
func sweptInPart() *result.Run {
	axis := result.Axis{Name: result.Hot, Values: []float64{1, 10}}
	res := sweepOf(6, []result.Axis{axis}, "fine", "lua")
	res.Status, res.Rows = result.Interrupted, res.Rows[:10]
	return judgedSweep(res)
}

// TestSweepWithoutARound draws what there is.
func TestSweepWithoutARound(t *testing.T) {
	res := sweptInPart()
	res.Rows = res.Rows[:3]
	text := drawn(t, Run(judgedSweep(res)), Text, Options{})
	if !strings.Contains(text, "Rows: no round is complete") || !strings.Contains(text, "INTERRUPTED") {
		t.Errorf("drawn as\n%s", text)
	}
	res.Rows = []result.Row{}
	if text := drawn(t, Run(judgedSweep(res)), Text, Options{}); !strings.Contains(text, "No row was measured.") {
		t.Errorf("drawn as\n%s", text)
	}
}

// TestSweepOfAnotherHand: a file that somebody else wrote is drawn as it is, and without control characters.
func TestSweepOfAnotherHand(t *testing.T) {
	res := swept()
	res.Sweep.Findings = []string{"<b>\x1b[2J fine"}
	res.Sweep.Points[0].At = nil
	res.Sweep.Points[0].Strategies[0].Strategy = "watch\x07|"
	res.Sweep.Crossings = []result.Crossing{{A: "\x1b", B: "b", Line: result.Line{Axis: "x|y"}}}
	for _, format := range []string{Text, Markdown} {
		text := drawn(t, Run(res), format, Options{})
		if strings.ContainsAny(text, "\x1b\x07") || format == Markdown && strings.Contains(strings.ReplaceAll(text, `\<b>`, ""), "<b>") {
			t.Errorf("drawn as\n%s", text)
		}
	}
}
