package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
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

// TestSweepGoesOn: a sweep that was interrupted after its second round, of which a row is missing, is gone on with from
// there, with the same rows in the same rounds, and not a third time.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &until{text: "2/9 rounds of 4 rows", call: cancel}
	err := run(ctx, tiny("--out", dir), strings.NewReader(""), &stdout, stderr)
	outcome{stdout: stdout.String(), stderr: fmt.Sprint(stderr, err), code: exitCode(err)}.exits(t, exitInterrupted).
		says(t, "9 rounds of 4 rows of 60ms, 2.16s in all", "go on with: marketsim sweep --resume "+dir+"\n", "Nothing is decided: 2 of 9 rounds")
	path := filepath.Join(dir, sweepFile)
	first := parseFile(t, path)
	if first.Status != result.Interrupted || len(first.Rows) != 8 || len(first.Rounds()) != 2 || first.Sweep == nil {
		t.Fatalf("%s with %d rows and the sweep %+v", first.Status, len(first.Rows), first.Sweep)
	}
	first.Rows = first.Rows[:7]
	rewrite(t, path, first)

	o := marketsim(t, "sweep", "--resume", dir).exits(t, exitFine).says(t, "8 rounds of 4 rows", "machine, server and settings are those",
		"the round that was cut short after 3 rows is measured anew")
	whole := parseFile(t, path)
	if whole.Status != result.Complete || len(whole.Rows) != 36 || len(whole.Rounds()) != 9 || !whole.Manifest.Started.Equal(first.Manifest.Started) ||
		whole.Manifest.Seed != 7 || whole.Manifest.Command != first.Manifest.Command {
		t.Errorf("%s with %d rows and the manifest %+v", whole.Status, len(whole.Rows), whole.Manifest)
	}
	for i := range 4 {
		if whole.Rows[i].Seconds != first.Rows[i].Seconds || whole.Rows[i].Name() != first.Rows[i].Name() {
			t.Errorf("row %d of the first round was measured again", i+1)
		}
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

	before := read(t, path)
	again := marketsim(t, "sweep", "--resume", dir).exits(t, exitFine).says(t, "is complete: all 9 rounds are there")
	if read(t, path) != before || again.stdout != o.stdout {
		t.Error("a complete sweep is changed, or drawn otherwise")
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

// rewrite stores a run.
func rewrite(t *testing.T, path string, res *result.Run) {
	t.Helper()
	var b bytes.Buffer
	if err := res.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// begun is a folder with a sweep of which a round was measured elsewhere, changed by a function.
func begun(t *testing.T, change func(*result.Run)) string {
	t.Helper()
	dir := t.TempDir()
	margin := 0.05
	res := &result.Run{Schema: result.Schema, Status: result.Interrupted}
	res.Manifest = result.Manifest{
		Version: version(), CPU: "another CPU", CPUs: 77, Backend: "embedded", Server: "miniredis", Seed: 7,
		Config: result.Config{
			Strategies: []string{"fine"}, Axes: []result.Axis{{Name: result.Clients, Values: []float64{1}}}, Trials: 6, Margin: &margin,
			DurationSeconds: 0.06, Prefix: "marketsim:{elsewhere}:",
		},
	}
	res.Rows = []result.Row{{Strategy: "fine", Sellers: 1, Buyers: 1, Trial: 1, Status: result.Complete}}
	change(res)
	rewrite(t, filepath.Join(dir, sweepFile), res)
	return dir
}

// TestSweepOfTwoMachines is refused, and stays as it is.
func TestSweepOfTwoMachines(t *testing.T) {
	t.Parallel()
	dir := begun(t, func(*result.Run) {})
	before := read(t, filepath.Join(dir, sweepFile))
	marketsim(t, "sweep", "--resume", dir).exits(t, exitUsage).says(t, "the sweep in "+dir+" began elsewhere: CPU was another CPU and is ",
		"CPUs was 77 and is ", "go on where it began, or measure a new sweep")
	if read(t, filepath.Join(dir, sweepFile)) != before {
		t.Error("it was changed")
	}
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	several := []string{"sweep", "--strategy", "fine,lua"}
	with := func(args ...string) []string { return append(slices.Clone(several), args...) }
	var thousand []string
	for i := range 1000 {
		thousand = append(thousand, fmt.Sprint(i+1))
	}
	another := t.TempDir()
	if err := os.WriteFile(filepath.Join(another, sweepFile), []byte(read(t, stored)), 0o666); err != nil {
		t.Fatal(err)
	}
	resumable := begun(t, func(*result.Run) {})
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
		{"resume of nothing", []string{"sweep", "--resume", t.TempDir()}, "holds no sweep.json"},
		{"resume of a run", []string{"sweep", "--resume", another}, "is no sweep"},
		{"resume with a duration", []string{"sweep", "--resume", resumable, "--duration", "1s"}, "--duration does not go with --resume: a sweep goes on as it began"},
		{"resume with an axis", []string{"sweep", "--resume", resumable, "--axis", "clients=1"}, "--axis does not go with --resume"},
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

// TestOnward: the command that goes on names the user's server, without its password, and the servers of locks.
func TestOnward(t *testing.T) {
	c := sessionConfig{sweep: &sweepConfig{dir: "my results", again: "--etcd a:1,b:2"}}
	if got, want := c.onward(), "marketsim sweep --resume 'my results' --etcd a:1,b:2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	server, err := serverFlags{url: "redis://:secret@h:1234"}.config()
	if err != nil {
		t.Fatal(err)
	}
	c.server = server
	if got := c.onward(); !strings.HasPrefix(got, "REDIS_PASSWORD=... marketsim sweep --resume 'my results' --redis redis://h:1234") ||
		strings.Contains(got, "secret") {
		t.Errorf("%s", got)
	}
	c.sweep.dir = ""
	if got := c.onward(); got != "" {
		t.Errorf("%s of a sweep that is not stored", got)
	}
}
