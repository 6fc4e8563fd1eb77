package bench

import (
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// plantedSweep is a complete sweep of twelve rounds, in which each strategy makes what rate says, give or take 1%, on
// CPUs that are as busy as busy says.
func plantedSweep(strategies []string, axes []result.Axis, rate, busy func(strategy string, p result.Point) float64) *result.Run {
	margin := 0.05
	run := &result.Run{Schema: result.Schema, Status: result.Complete}
	run.Manifest.Backend, run.Manifest.CPUs = "local", 2
	run.Manifest.Config = result.Config{Strategies: strategies, Trials: 12, Margin: &margin, Clients: 5, Axes: axes}
	for round := 1; round <= 12; round++ {
		for j, p := range run.Manifest.Config.Points() {
			for i, s := range strategies {
				perSecond := rate(s, p) * (1 + 0.01*math.Sin(float64(7*round+3*i+5*j)))
				us := 1e6 * 2 * busy(s, p) / 2 / perSecond // half of what is used
				run.Rows = append(run.Rows, result.Row{
					Strategy: s, Sellers: p.Mix.Sellers, Buyers: p.Mix.Buyers, Workload: p.Workload, Trial: round,
					Status: result.Complete, Seconds: 2, Bought: int64(2 * perSecond), PurchasesPerSecond: perSecond,
					Audit: result.Audit{Done: true, OK: true}, Client: &result.Client{CPU: busy(s, p) / 2}, Cost: &result.Cost{ServerUS: &us},
				})
			}
		}
	}
	return run
}

// always is the same everywhere.
func always(v float64) func(string, result.Point) float64 {
	return func(string, result.Point) float64 { return v }
}

// fourLoads are four numbers of clients.
func fourLoads() []result.Axis {
	return []result.Axis{{Name: result.Clients, Values: []float64{1, 2, 4, 8}}}
}

// byLoad is the throughput of each lock at each of fourLoads.
func byLoad(rates map[string][4]float64) func(string, result.Point) float64 {
	return func(strategy string, p result.Point) float64 {
		return rates[strategy][map[int]int{1: 0, 2: 1, 4: 2, 8: 3}[p.Mix.Buyers]]
	}
}

// TestLockClaims: what was planted is found, and what chance alone decides is not.
func TestLockClaims(t *testing.T) {
	locks := []string{"coarse", "fine", "fine:queue"}
	for name, c := range map[string]struct {
		rates map[string][4]float64
		want  [3]result.Judgment // of claims 19 to 21
	}{
		"each is best somewhere": {
			map[string][4]float64{"coarse": {300, 200, 100, 100}, "fine": {200, 300, 300, 200}, "fine:queue": {100, 100, 200, 300}},
			[3]result.Judgment{result.Holds, result.Holds, result.Holds},
		},
		"one is best everywhere, and never harms": {
			map[string][4]float64{"coarse": {100, 100, 100, 100}, "fine": {300, 300, 300, 300}, "fine:queue": {200, 200, 200, 200}},
			[3]result.Judgment{result.DoesNot, result.DoesNot, result.DoesNot},
		},
		"one is best at three of four": {
			map[string][4]float64{"coarse": {100, 100, 100, 300}, "fine": {300, 300, 300, 100}, "fine:queue": {200, 200, 200, 200}},
			[3]result.Judgment{result.DoesNot, result.Holds, result.Holds},
		},
		"all are alike": {
			map[string][4]float64{"coarse": {200, 200, 200, 200}, "fine": {200, 200, 200, 200}, "fine:queue": {200, 200, 200, 200}},
			[3]result.Judgment{result.DoesNot, result.DoesNot, result.DoesNot},
		},
	} {
		claims := Judge(plantedSweep(locks, fourLoads(), byLoad(c.rates), always(0.5)))
		for i, want := range c.want {
			got := claims[i]
			if got.ID != 19+i || got.Verdict != want || (got.Holds != nil) != (want != result.NotDecided) ||
				got.Holds != nil && *got.Holds != (want == result.Holds) {
				t.Errorf("%s: claim %d %s: %s", name, got.ID, got.Verdict, got.Measured)
			}
		}
	}
}

// TestUndecidedLocks: what differs from round to round by more than the locks do from each other decides nothing.
func TestUndecidedLocks(t *testing.T) {
	run := plantedSweep([]string{"coarse", "fine", "fine:queue"}, fourLoads(), always(200), always(0.5))
	for i, r := range run.Rows {
		run.Rows[i].PurchasesPerSecond *= 1 + 0.5*math.Sin(float64(11*r.Trial+len(r.Strategy)*7+r.Buyers))
	}
	for _, c := range Judge(run)[:3] {
		if c.Verdict != result.NotDecided || c.Holds != nil {
			t.Errorf("claim %d %s: %s", c.ID, c.Verdict, c.Measured)
		}
	}
}

// TestResourcesClaim: blocking against optimistic, where resources are scarce and where they are not.
func TestResourcesClaim(t *testing.T) {
	axes := []result.Axis{{Name: result.Hold, Values: []float64{0, 10}}}
	rates := func(atOnce, held float64) func(string, result.Point) float64 {
		return func(s string, p result.Point) float64 {
			switch {
			case s == "fine":
				return 200
			case s == "coarse": // is never the best of its kind
				return 50
			case p.HoldMS == 0:
				return atOnce
			}
			return held
		}
	}
	busy := func(without, longest float64) func(string, result.Point) float64 {
		return func(_ string, p result.Point) float64 {
			if p.HoldMS == 0 {
				return without
			}
			return longest
		}
	}
	for name, c := range map[string]struct {
		atOnce, held, without, longest float64
		want                           result.Judgment
		says                           string
	}{
		"as in the paper":        {100, 400, 0.9, 0.1, result.Holds, "blocking makes 1.98 times"},
		"optimistic never wins":  {100, 100, 0.9, 0.1, result.DoesNot, "optimistic 0.50 times"},
		"blocking never wins":    {400, 400, 0.9, 0.1, result.DoesNot, "blocking makes 0.50 times"},
		"resources never scarce": {100, 400, 0.3, 0.1, result.NotJudged, "not judged: the CPUs were 30% busy in coarse 5x5 in round 1"},
		"never plentiful":        {100, 400, 0.9, 0.8, result.NotJudged, "not judged: the CPUs were 80% busy in watch 5x5 hold=10ms in round 1"},
	} {
		run := plantedSweep([]string{"coarse", "fine", "watch", "lua"}, axes, rates(c.atOnce, c.held), busy(c.without, c.longest))
		got := Judge(run)[3]
		if got.ID != 22 || got.Verdict != c.want || !strings.Contains(got.Measured, c.says) {
			t.Errorf("%s: claim %d %s: %s", name, got.ID, got.Verdict, got.Measured)
		}
	}
}

// TestUnfitSweeps: a sweep that lacks what a claim needs is told what that is.
func TestUnfitSweeps(t *testing.T) {
	three := []string{"coarse", "fine", "fine:queue"}
	hold := []result.Axis{{Name: result.Hold, Values: []float64{0, 1, 5, 10}}}
	for name, c := range map[string]struct {
		run  *result.Run
		says [4]string // of each claim
	}{
		"strategies without locks": {
			plantedSweep([]string{"watch", "lua", "unsafe", "fine"}, fourLoads(), always(100), always(0.5)),
			[4]string{
				"it takes 3 strategies with a lock and 4 points, and these are 1 and 4", "it takes 3 strategies",
				"it takes 2 strategies with a lock and 3 points, and these are 1 and 4", "it takes the axis hold, from 0",
			},
		},
		"no clients": {
			plantedSweep(three, hold, always(100), always(0.5)),
			[4]string{"", "", "it takes the axis clients with 3 values or more", "it takes a strategy with a lock, and watch or watch-item"},
		},
		"no hold of nothing": {
			plantedSweep([]string{"fine", "watch"}, []result.Axis{{Name: result.Hold, Values: []float64{1, 10}}}, always(100), always(0.5)),
			[4]string{"", "", "", "it takes the axis hold, from 0"},
		},
		"an audit that failed": {
			func() *result.Run {
				run := plantedSweep(three, fourLoads(), always(100), always(0.5))
				run.Rows[40].Audit.OK = false
				return run
			}(),
			[4]string{"failed its audit in round 4", "failed its audit in round 4", "failed its audit in round 4", ""},
		},
	} {
		for i, claim := range Judge(c.run) {
			if c.says[i] != "" && (claim.Verdict != result.NotJudged || claim.Holds != nil || !strings.HasPrefix(claim.Measured, "not judged: ") ||
				!strings.Contains(claim.Measured, c.says[i])) {
				t.Errorf("%s: claim %d %s: %s", name, claim.ID, claim.Verdict, claim.Measured)
			}
		}
	}
	run := plantedSweep(three, fourLoads(), always(100), always(0.5))
	run.Rows = run.Rows[:len(run.Rows)-1]
	for _, claim := range Judge(run) {
		if claim.Verdict != result.NotDecided || claim.Measured != "11 of 12 rounds" {
			t.Errorf("cut short: claim %d %s: %s", claim.ID, claim.Verdict, claim.Measured)
		}
	}
	run.Manifest.Backend = "embedded"
	for _, claim := range Judge(run) {
		if claim.Verdict != result.NotJudged || claim.Measured != notRedis {
			t.Errorf("embedded: claim %d %s: %s", claim.ID, claim.Verdict, claim.Measured)
		}
	}
}

// TestSweepClaimsAreCited: SOURCES.md numbers them as a result does.
func TestSweepClaimsAreCited(t *testing.T) {
	text, err := os.ReadFile("../results/reference/SOURCES.md")
	if err != nil {
		t.Fatal(err)
	}
	cited := regexp.MustCompile(`(?m)^(19|2\d)\. (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(cited) != len(sweepClaims) {
		t.Fatalf("%d are cited, and %d judged", len(cited), len(sweepClaims))
	}
	for i, c := range sweepClaims {
		if !strings.HasPrefix(strings.ToLower(cited[i][2]), c.text) {
			t.Errorf("%s is cited as %s", c.text, cited[i][2])
		}
	}
}
