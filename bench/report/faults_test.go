package report

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
)

// badDays is a result with every verdict, a broken promise and more scenarios than one matrix holds.
func badDays() *fault.Result {
	res := &fault.Result{
		Schema: fault.Schema, Status: bench.Complete,
		Manifest: fault.Manifest{Version: "v1.2.3", Go: "go1.26", OS: "linux/amd64", Backend: "local", Server: "redis", ServerVersion: "7.0.15"},
		Scenarios: []fault.Played{
			{Name: "pause", Title: "the holder pauses past its TTL, another takes over, the holder wakes up again and then writes"},
			{Name: "crash", Title: "the holder dies", Promise: "survives a crash"},
		},
		Subjects: []string{"watch", "unsafe", "set-px", "set-px:expiry=pxat", "lock-1", "lock-2", "lock-3", "lock-4", "lock-5", "zookeeper"},
	}
	find := func(scenario string, verdicts map[string]fault.Finding) {
		for _, s := range res.Subjects {
			f, ok := verdicts[s]
			if !ok {
				f = fault.Finding{Verdict: fault.NotApplicable, Why: "it takes its lock in one command"}
			}
			f.Scenario, f.Subject = scenario, s
			res.Findings = append(res.Findings, f)
		}
	}
	sold := fault.Finding{Verdict: fault.SoldTwice, Why: "the item went to two buyers, and both paid"}
	find("pause", map[string]fault.Finding{
		"watch": {Verdict: fault.Safe, Why: "the late write was refused"}, "unsafe": sold, "set-px": sold,
		"set-px:expiry=pxat": {Verdict: fault.SoldTwice, Why: sold.Why, Broken: "clock-independent"},
		"lock-1":             {Verdict: fault.CoinsMade, Why: "coins came from nowhere"},
		"lock-2":             {Verdict: fault.CoinsLost, Why: "coins vanished"},
		"lock-3":             {Verdict: fault.ChargedTwice, Why: "a buyer paid more often than they bought"},
		"lock-4":             {Verdict: fault.TwoHolders, Why: "two held it, and the market | refused the second write for a reason that takes a whole line and some more to explain"},
		"zookeeper":          {Verdict: fault.Unavailable, Why: "no java in PATH for ZooKeeper (apt-get install zookeeper installs it)"},
	})
	find("crash", map[string]fault.Finding{
		"set-px": {Verdict: fault.StuckForTTL, Why: "others get in later"},
		"unsafe": {Verdict: fault.NotApplicable, Why: "it takes no lock"},
		"lock-1": {Verdict: fault.StuckForGood, Why: "nobody gets in"},
	})
	for n := len(res.Scenarios) + 1; n <= 25; n++ {
		name := fmt.Sprintf("quiet-%d", n)
		res.Scenarios = append(res.Scenarios, fault.Played{Name: name, Title: "nothing happens"})
		quiet := map[string]fault.Finding{}
		for _, s := range res.Subjects {
			quiet[s] = fault.Finding{Verdict: fault.Safe, Why: "nothing was lost"}
		}
		find(name, quiet)
	}
	return res
}

// cutShort is what was found of badDays until it was interrupted.
func cutShort() *fault.Result {
	res := badDays()
	res.Status, res.Scenarios, res.Findings = bench.Interrupted, res.Scenarios[:3], res.Findings[:12]
	res.Manifest.Backend = "embedded"
	return res
}

func TestFaultsGolden(t *testing.T) {
	for _, c := range []struct {
		file, format string
		res          *fault.Result
	}{
		{"faults.txt", "text", badDays()},
		{"faults.md", "markdown", badDays()},
		{"faults-cut-short.txt", "text", cutShort()},
		{"faults-cut-short.md", "markdown", cutShort()},
	} {
		var b bytes.Buffer
		if err := WriteFaults(&b, c.format, c.res); err != nil {
			t.Fatal(err)
		}
		golden(t, c.file, b.Bytes())
	}
}

func TestFaultTextWidth(t *testing.T) {
	var b bytes.Buffer
	if err := FaultText(&b, badDays(), Options{}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > narrow+len("\n") || strings.TrimRight(line, " \n")+"\n" != line {
			t.Errorf("%d columns, or spaces at the end: %q", len(line)-1, line)
		}
	}
}

// TestFaultColor removes the colors again: what is left must be the text without any.
func TestFaultColor(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	var plain, colored bytes.Buffer
	if err := errors.Join(FaultText(&plain, badDays(), Options{}), FaultText(&colored, badDays(), Options{Color: true})); err != nil {
		t.Fatal(err)
	}
	strip := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "")
	if strip.Replace(colored.String()) != plain.String() || !strings.Contains(colored.String(), "\x1b[31msold twice\x1b[0m") {
		t.Errorf("color moved something, or there is none:\n%s", colored.String())
	}
}

// TestFaultsNameEverySubject: who is in no other group of a scenario is among "all others".
func TestFaultsNameEverySubject(t *testing.T) {
	res := badDays()
	for _, sc := range res.Scenarios {
		all := groups(res.Of(sc.Name))
		last := all[len(all)-1]
		for _, f := range res.Of(sc.Name) {
			told := slices.ContainsFunc(all, func(g group) bool { return slices.Contains(g.subjects, f.Subject) })
			if f.Verdict == fault.NotApplicable {
				told = strings.Contains(last.why, f.Subject+" (") || strings.Contains(last.why, "all others (")
			}
			if !told {
				t.Errorf("%s does not tell of %s", sc.Name, f.Subject)
			}
		}
	}
}

func TestEveryVerdictHasACode(t *testing.T) {
	seen := map[string]fault.Verdict{}
	for _, v := range fault.Verdicts() {
		if other, twice := seen[code(v)]; twice || len(code(v)) > 2 {
			t.Errorf("%q has the code %q, as %q has, or a long one", v, code(v), other)
		}
		seen[code(v)] = v
	}
}

func TestFaultsFromElsewhere(t *testing.T) {
	res := cutShort()
	res.Findings[0].Why, res.Subjects[0] = "a\x1b[2Jb\nc", "\x1b]0;x"
	res.Findings[0].Subject = res.Subjects[0]
	for _, format := range []string{"text", "markdown"} {
		var b bytes.Buffer
		if err := WriteFaults(&b, format, res); err != nil || strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: %v, a control character is printed:\n%q", format, err, b.String())
		}
	}
	if err := WriteFaults(&bytes.Buffer{}, "csv", res); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "text, markdown, json") {
		t.Errorf("%v; want ErrFormat with the known formats", err)
	}
	for _, format := range FaultFormats() {
		if err := WriteFaults(failing{}, format, res); !errors.Is(err, errFull) {
			t.Errorf("%s: %v, want %v", format, err, errFull)
		}
	}
}
