package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// everyVerdict is a result with every verdict, a broken promise and more scenarios than one matrix holds.
func everyVerdict() *result.Faults {
	res := &result.Faults{
		Schema: result.FaultsSchema, Status: result.Complete,
		Manifest: result.FaultsManifest{Version: "v1.2.3", Go: "go1.26", OS: "linux/amd64", Backend: "local",
			Server: "redis", ServerVersion: "7.0.15"},
		Scenarios: []result.Scenario{
			{Name: "pause",
				Title: "the holder pauses past its TTL, another takes over, the holder wakes up again and then writes"},
			{Name: "crash", Title: "the holder dies", Promise: "survives a crash"},
		},
		Subjects: []string{"watch", "unsafe", "set-px", "set-px:expiry=pxat", "lock-1", "lock-2", "lock-3", "lock-4",
			"lock-5", "zookeeper"},
	}
	find := func(scenario string, found map[string]result.Finding) {
		for _, s := range res.Subjects {
			f, ok := found[s]
			switch {
			case !ok:
				f = result.Finding{Verdict: result.NotApplicable, Why: "it takes its lock in one command"}
			case f.Verdict == "":
				f.Verdict = result.VerdictOf(f.Harm, f.KeptOut)
			}
			f.Scenario, f.Subject = scenario, s
			res.Findings = append(res.Findings, f)
		}
	}
	sold := result.Finding{
		Harm: result.SoldTwice, KeptOut: result.LeaseRanOut, Why: "the item went to two buyers, and both paid",
	}
	broken := sold
	broken.Broken = "clock-independent"
	find("pause", map[string]result.Finding{
		"watch":  {Harm: result.NoHarm, KeptOut: result.NoLease, Why: "the late write was refused"},
		"unsafe": sold, "set-px": sold, "set-px:expiry=pxat": broken,
		"lock-1": {Harm: result.CoinsMade, KeptOut: result.AtOnce, Why: "coins came from nowhere"},
		"lock-2": {Harm: result.CoinsLost, KeptOut: result.HolderBack, Why: "coins vanished"},
		"lock-3": {Harm: result.ChargedTwice, KeptOut: result.NotAsked, Why: "a buyer paid more often than they bought"},
		"lock-4": {Harm: result.TwoHolders, KeptOut: result.CounterCaughtUp,
			Why: "two held it, and the market | refused the second write for a reason that takes a whole line and some more to explain"},
		"lock-5": {Harm: result.ToldNo, KeptOut: result.NotAsked, Why: "the buyer has the item, and was told no"},
		"zookeeper": {Verdict: result.Unavailable,
			Why: "no java in PATH for ZooKeeper (apt-get install zookeeper installs it)"},
	})
	find("crash", map[string]result.Finding{
		"set-px": {Harm: result.NoHarm, KeptOut: result.LeaseRanOut, Why: "others get in later"},
		"unsafe": {Verdict: result.NotApplicable, Why: "it takes no lock"},
		"lock-1": {Harm: result.NoHarm, KeptOut: result.NeverIn, Why: "nobody gets in"},
		"lock-2": {Verdict: result.StuckForGood, Why: "an older marketsim did not store the two answers"},
	})
	for n := len(res.Scenarios) + 1; n <= 25; n++ {
		name := fmt.Sprintf("quiet-%d", n)
		res.Scenarios = append(res.Scenarios, result.Scenario{Name: name, Title: "nothing happens"})
		quiet := map[string]result.Finding{}
		for _, s := range res.Subjects {
			quiet[s] = result.Finding{Harm: result.NoHarm, KeptOut: result.NotAsked, Why: "nothing was lost"}
		}
		find(name, quiet)
	}
	return res
}

// cutShort is what was found of everyVerdict until it was interrupted.
func cutShort() *result.Faults {
	res := everyVerdict()
	res.Status, res.Scenarios, res.Findings = result.Interrupted, res.Scenarios[:3], res.Findings[:30]
	for i := range res.Findings[12:25] { // a result of an older marketsim lacks them, as the last five
		f := &res.Findings[12+i]
		*f = result.Finding{
			Scenario: f.Scenario, Subject: f.Subject, Verdict: result.Stopped, Why: "the run ended before its turn",
		}
	}
	res.Findings = res.Findings[:25]
	res.Manifest.Backend = "embedded"
	return res
}

// TestFaultsNameEverySubject: who is in no other group of a scenario is among "all others".
func TestFaultsNameEverySubject(t *testing.T) {
	res := everyVerdict()
	for _, sc := range res.Scenarios {
		all := groups(res.Of(sc.Name))
		last := all[len(all)-1]
		for _, f := range res.Of(sc.Name) {
			told := slices.ContainsFunc(all, func(g group) bool { return slices.Contains(g.subjects, f.Subject) })
			if f.Verdict == result.NotApplicable {
				told = strings.Contains(last.Why, f.Subject+" (") || strings.Contains(last.Why, "all others (")
			}
			if !told {
				t.Errorf("%s does not tell of %s", sc.Name, f.Subject)
			}
		}
	}
}

// TestEverythingHasACode that nothing else has, in its half of a matrix's cell.
func TestEverythingHasACode(t *testing.T) {
	for _, order := range [][]string{outcomes(), keptOuts()} {
		seen := map[string]string{}
		for _, what := range order {
			code := codes[what]
			if other, twice := seen[code]; twice || code == "" || len(code) > 2 {
				t.Errorf("%q has the code %q, as %q has, or a long one, or none", what, code, other)
			}
			if what != noHarm { // which a result without answers calls safe
				seen[code] = what
			}
		}
	}
	for _, v := range result.Verdicts() {
		if codes[outcome(result.Finding{Verdict: v})] == "" {
			t.Errorf("%q has no code", v)
		}
	}
}

// TestFaultsFromElsewhere: names that hold control characters are drawn without them in every format but JSON, which
// escapes them.
func TestFaultsFromElsewhere(t *testing.T) {
	res := cutShort()
	res.Findings[0].Why, res.Subjects[0] = "a\x1b[2Jb\nc", "\x1b]0;x"
	res.Findings[0].Subject = res.Subjects[0]
	for _, format := range Formats() {
		if text := drawn(t, Faults(res), format, Options{}); strings.Contains(text, "\x1b") {
			t.Errorf("%s: a control character is printed:\n%q", format, text)
		}
	}
}
