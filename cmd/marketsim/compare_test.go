package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestCompare: every round has every row once, every pair has a verdict and a sentence, and report says the same again.
func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := marketsim(t, short("compare", "fine", "coarse", "--trials", "9", "--mix", "1x1,2x2", "--margin", "7.5%",
		"--backend", "embedded", "--out", dir)...).exits(t, exitFine)
	unbroken(o).says(t, "9 rounds of 4 rows", "Comparison purchases/s", "(at 97.5%, so that all hold at once with 95%)", "inside 1 +- 7.5%")
	res := parseFile(t, filepath.Join(dir, runFile))
	if len(res.Rows) != 36 || *res.Manifest.Config.Margin != 0.075 || res.Manifest.Config.Trials != 9 {
		t.Errorf("%d rows, and %+v", len(res.Rows), res.Manifest.Config)
	}
	if len(res.Comparisons) != 2 {
		t.Fatalf("the comparisons are %+v", res.Comparisons)
	}
	for i, c := range res.Comparisons {
		judged := c.Rounds == 9 && c.Low != nil || strings.Contains(c.Reason, " bought nothing in round ") // on a slow machine
		if c.A != "fine" || c.B != "coarse" || c.Mix != []string{"1x1", "2x2"}[i] || c.Verdict == "" || !judged {
			t.Errorf("%+v", c)
		}
	}
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand compare drew\n%s", again.stdout, o.stdout)
	}
}

// unbroken is an outcome without the breaks of lines.
func unbroken(o outcome) outcome {
	o.stdout = strings.Join(strings.Fields(o.stdout), " ")
	return o
}

// TestCompareWithItself: a strategy in two ways of writing it is two rows of every round.
func TestCompareWithItself(t *testing.T) {
	t.Parallel()
	o := marketsim(t, short("compare", "fine", "fine:poll=1ms", "--trials", "6", "--mix", "1x1", "--backend", "embedded",
		"--json", "-")...).exits(t, exitFine)
	res := parse(t, o.stdout)
	trials := map[string][]int{}
	for _, r := range res.Rows {
		trials[r.Strategy] = append(trials[r.Strategy], r.Trial)
	}
	want := []int{1, 2, 3, 4, 5, 6}
	if len(trials) != 2 || !slices.Equal(trials["fine"], want) || !slices.Equal(trials["fine:poll=1ms"], want) {
		t.Errorf("the rounds are %v", trials)
	}
	if c := res.Comparisons[0]; c.A != "fine" || c.B != "fine:poll=1ms" || c.Verdict == "" {
		t.Errorf("%+v", c)
	}
}

// TestSubjectNames: the canonical form, unless two have the same.
func TestSubjectNames(t *testing.T) {
	for typed, want := range map[string]string{
		"fine:setnx coarse":       "fine coarse",
		"fine fine:poll=1ms":      "fine fine:poll=1ms",
		"fine:poll=1ms fine":      "fine:poll=1ms fine",
		"fine fine":               "fine fine#2",
		"watch fine fine fine":    "watch fine fine#2 fine#3",
		"fine:poll=2ms coarse":    "fine:poll=2ms coarse",
		"fine:setnx fine:set-px ": "fine fine:set-px",
	} {
		words := strings.Fields(typed)
		var specs []strategies.Spec
		for _, word := range words {
			spec, err := catalogue.Full().Parse(word)
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, spec)
		}
		if got := strings.Join(subjectNames(specs, words), " "); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}

// TestCompareStored: what differs comes first; folders and files do.
func TestCompareStored(t *testing.T) {
	newer := filepath.Join(t.TempDir(), runFile)
	text := strings.Replace(read(t, stored), `"server_version": "7.2.4"`, `"server_version": "8.0.6"`, 1)
	if err := os.WriteFile(newer, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	o := marketsim(t, "compare", stored, filepath.Dir(newer), "--margin", "10%").exits(t, exitFine)
	unbroken(o).says(t, "old: "+stored+"; new: "+filepath.Dir(newer), "redis 7.2.4 redis 8.0.6", "inside 1 +- 10%",
		"watch 5x5 is not decided: trials in the old run: 1, where an interval takes 6.")
	if strings.Index(o.stdout, "The runs differ") > strings.Index(o.stdout, "Comparison") || o.stderr != "" {
		t.Errorf("not first what differs:\n%s%s", o.stdout, o.stderr)
	}
	marketsim(t, "compare", stored, stored, "--format", "csv").exits(t, exitFine).says(t, "\nfine,5x5,1,7975.2,7975.2,1,-,-,not decided,")
}

// TestCompareRefusesFiles that are no runs, and writes nothing.
func TestCompareRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := read(t, stored)
	other := strings.ReplaceAll(run, `"sellers": 5`, `"sellers": 6`)
	written := filepath.Join(dir, "written.json")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{stored, file("cut.json", run[:len(run)/2])}, "cut.json: read result: it is cut short; make it anew with 'marketsim run --out'"},
		{[]string{file("foreign.json", `{"a": 1}`), stored}, "foreign.json: read result: schema 0; this marketsim reads schema 1"},
		{[]string{file("text.json", `hello`), stored}, "text.json: read result: it is no JSON"},
		{[]string{stored, file("empty.json", "")}, "empty.json: read result: it is empty"},
		{[]string{stored, storedFaults}, "holds no run.json"},
		{[]string{stored, filepath.Join(storedFaults, faultsFile)}, "faults.json holds the findings of fault scenarios"},
		{[]string{stored, dir}, dir + " holds no run.json"},
		{[]string{stored, file("other.json", other)}, "the runs have no row in common: the old one has watch 5x5, "},
		{[]string{stored, filepath.Join(dir, "absent.json")}, "there is no file " + filepath.Join(dir, "absent.json")},
		{[]string{stored, "fine"}, "fine is a strategy and " + stored + " a file"},
		{[]string{stored, stored, stored}, "two stored runs are compared, and these are 3"},
		{[]string{stored, stored, "--trials", "9"}, "--trials is for strategies: stored runs are compared as they are"},
		{[]string{stored, stored, "--out", dir}, "--out is for strategies"},
	} {
		o := marketsim(t, append([]string{"compare", "--json", written}, c.args...)...).exits(t, exitUsage).says(t, c.says)
		if o.stdout != "" || exists(written) {
			t.Errorf("%v: something was written:\n%s", c.args, o.stdout)
		}
	}
}

// TestCheckRounds: enough for an interval of every pair.
func TestCheckRounds(t *testing.T) {
	for pairs, fewest := range map[int]int{1: 6, 2: 9, 3: 9, 12: 9, 13: 12, 45: 12, 400: 15} {
		for rounds := range 2 * compare.MaxRounds {
			may := rounds >= fewest && rounds%3 == 0 && rounds <= compare.MaxRounds
			if err := checkRounds(rounds, pairs); (err == nil) != may {
				t.Errorf("%d rounds for %d pairs: %v", rounds, pairs, err)
			}
		}
	}
}
