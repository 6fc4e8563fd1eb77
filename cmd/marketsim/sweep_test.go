package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
)

// tiny are the arguments of a sweep of four rows a round, on the embedded server.
func tiny(args ...string) []string {
	return append([]string{
		"sweep", "--strategy", "fine,lua", "--axis", "clients=1,2", "--trials", "9", "--seed", "7", "--duration", "60ms", "--warmup", "0s",
		"--backend", "embedded",
	}, args...)
}

// TestSweep: a sweep is stored after each round, also where it is interrupted; a whole one is drawn again from what is stored,
// and can be compared with another.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &until{text: "2/9 rounds of 4 rows", call: cancel}
	err := run(ctx, tiny("--out", dir), strings.NewReader(""), &stdout, stderr)
	outcome{stdout: stdout.String(), stderr: fmt.Sprint(stderr, err), code: exitCode(err)}.exits(t, exitInterrupted).
		says(t, "9 rounds of 4 rows of 60ms, 2.16s in all", "Nothing is decided: 2 of 9 rounds")
	path := filepath.Join(dir, sweepFile)
	first := parseFile(t, path)
	if first.Status != result.Interrupted || len(first.Rows) != 8 || len(first.Rounds()) != 2 || first.Sweep == nil {
		t.Fatalf("%s with %d rows and the sweep %+v", first.Status, len(first.Rows), first.Sweep)
	}

	o := marketsim(t, tiny("--out", dir, "--force")...).exits(t, exitFine)
	whole := parseFile(t, path)
	if whole.Status != result.Complete || len(whole.Rows) != 36 || len(whole.Rounds()) != 9 || whole.Manifest.Seed != 7 {
		t.Errorf("%s with %d rows and the manifest %+v", whole.Status, len(whole.Rows), whole.Manifest)
	}
	for _, rows := range whole.Rounds() {
		var names []string
		for _, r := range rows {
			names = append(names, r.Name())
		}
		slices.Sort(names)
		if got := strings.Join(names, ", "); got != "fine 1x1, fine 2x2, lua 1x1, lua 2x2" {
			t.Errorf("a round is %s", got)
		}
	}
	if whole.Sweep.Points[1].Place != "2x2" || len(whole.Claims)+len(whole.Comparisons) != 0 {
		t.Errorf("claims %+v, sweep %+v", whole.Claims, whole.Sweep)
	}
	if drawn := marketsim(t, "report", dir).exits(t, exitFine); drawn.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand sweep drew\n%s", drawn.stdout, o.stdout)
	}
	marketsim(t, "compare", dir, path).exits(t, exitFine).says(t, "lua", "2x2")
	for _, file := range []string{"report.txt", "report.md", "rows.csv"} {
		if !exists(filepath.Join(dir, file)) {
			t.Errorf("there is no %s", file)
		}
	}
}

// until is a stderr that calls a function when a text has been written to it.
type until struct {
	bytes.Buffer
	text string
	call func()
}

func (u *until) Write(b []byte) (int, error) {
	n, err := u.Buffer.Write(b)
	if strings.Contains(u.String(), u.text) {
		u.call()
	}
	return n, err
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	several := []string{"sweep", "--strategy", "fine,lua"}
	with := func(args ...string) []string { return append(slices.Clone(several), args...) }
	var thousand []string
	for i := range 1000 {
		thousand = append(thousand, fmt.Sprint(i+1))
	}
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"no axis", several, "along which axis? give --axis, such as --axis clients=1,2,4..64"},
		{"no strategy", []string{"sweep", "--axis", "clients=1"}, "which strategies? give --strategy"},
		{"strategy twice", []string{"sweep", "--axis", "clients=1", "--strategy", "fine,fine:poll=1ms"}, "fine is asked for twice"},
		{"unknown strategy", []string{"sweep", "--axis", "clients=1", "--strategy", "fin"}, `did you mean "fine"?`},
		{"empty axis", with("--axis", ""), "--axis is given nothing"},
		{"axis without values", with("--axis", "clients="), "it has no values"},
		{"descending", with("--axis", "clients=2,1"), "its values descend at 1: they must ascend"},
		{"repeated", with("--axis", "hot=1,1"), "its values are repeated at 1: they must ascend"},
		{"unknown axis", with("--axis", "cores=1"), `there is no axis "cores"; known: clients, hot, hold, rtt`},
		{"axis twice", with("--axis", "clients=1", "--axis", "clients=2"), "--axis clients is given twice"},
		{"three axes", with("--axis", "clients=1", "--axis", "hot=1", "--axis", "rtt=0"), "a sweep has at most two axes"},
		{"axis and flag", with("--axis", "clients=1", "--clients", "3"), "--clients and --axis clients=... both say what clients is"},
		{"hot and flag", with("--axis", "hot=1", "--hot", "3"), "--hot and --axis hot=... both say"},
		{"no clients", with("--axis", "hold=0", "--clients", "0"), "0 clients are 0 workers"},
		{"too many workers", with("--axis", "clients=1,1000"), "1000 clients are 2000 workers, and a row has 1 to 1000"},
		{"hold below zero", with("--axis", "clients=1", "--hold", "-1ms"), "--hold"},
		{"hold beyond the limit", with("--axis", "clients=1", "--hold", "1h"), "--hold"},
		{"few trials", with("--axis", "clients=1", "--trials", "3"), "--trials 3: give a multiple of 3 from 6"},
		{"trials that decide nothing", with("--axis", "clients=1,2,4..64", "--axis", "hold=0,1ms", "--trials", "9"), "--trials 9: these are 14 pairs"},
		{"margin", with("--axis", "clients=1", "--margin", "5"), "--margin"},
		{"a thousand points", with("--axis", "hot="+strings.Join(thousand, ",")), "18 rounds of 2,000 rows of 2.5s, 25h0m0s in all: give --yes"},
		{"more than an hour", with("--axis", "clients=1", "--duration", "10m"), "in all: give --yes to measure it"},
		{"too many points", with("--yes", "--axis", "hot="+strings.Join(thousand, ","), "--axis", "hold=0,1ms,2ms..9ms"), "these are 10000 points"},
		{"too many rows", with("--yes", "--axis", "hot="+strings.Join(thousand, ","), "--axis", "hold=0,1ms"), "sweep.json holds at most 40000"},
		{"a word", with("--axis", "clients=1", "fine"), `takes flags only, and "fine" is none`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := marketsim(t, c.args...).exits(t, exitUsage).says(t, c.says)
			if o.stdout != "" || strings.Count(o.stderr, "\n") != 1 {
				t.Errorf("that is more than one line:\n%s%s", o.stdout, o.stderr)
			}
		})
	}
}

// TestSweptRows: each strategy at each point, with what is no axis.
func TestSweptRows(t *testing.T) {
	f := sweepFlags{sessionFlags: sessionFlags{trials: 9}, strategies: []string{"fine", "lua"}}
	specs, err := f.specs()
	if err != nil {
		t.Fatal(err)
	}
	axes, err := parseAxes([]string{"clients=1,2", "hold=0,1ms"})
	if err != nil {
		t.Fatal(err)
	}
	swept := sweepConfig{axes: axes, clients: 5, workload: result.Workload{Hot: 3, RTTMS: 2}}
	rows, err := swept.rows(specs)
	var names []string
	for _, r := range rows {
		names = append(names, r.String())
	}
	want := "fine 0x1 hot=3 rtt=2ms, lua 0x1 hot=3 rtt=2ms, fine 0x1 hot=3 hold=1ms rtt=2ms, lua 0x1 hot=3 hold=1ms rtt=2ms, " +
		"fine 0x2 hot=3 rtt=2ms, lua 0x2 hot=3 rtt=2ms, fine 0x2 hot=3 hold=1ms rtt=2ms, lua 0x2 hot=3 hold=1ms rtt=2ms"
	if got := strings.Join(names, ", "); got != want || err != nil {
		t.Errorf("the rows are %s, %v", got, err)
	}
	config := sessionConfig{specs: rows, trials: 6, sweep: &swept}
	if got := config.rows(); len(got) != 48 || got[0].Name() == "" || got[0].Hot != 3 || got[0].RTTMS != 2 {
		t.Errorf("%d rows, the first %+v", len(got), got[0])
	}
}
