package main

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestUsageOfVerdicts: what is refused before a server is started, and what to type instead.
func TestUsageOfVerdicts(t *testing.T) {
	t.Parallel()
	for says, args := range map[string]string{
		`--metric: unknown metric "p98"; known: purchases/s, avg-wait, p50,`: "compare fine lua --metric p98",
		"--metric: p99 is there twice: leave one out":                        "compare fine lua --metric p99,wait_ms_p99",
		"--metric late is of orders at a rate: give --rate, too":             "compare fine lua --metric late",
		"unknown flag: --metric":                                             "run fine lua --metric p99",
		"--trials 8: verdicts on 2 pairs by 5 metrics take 9 rounds or more": "compare fine lua --trials 8 " +
			"--metric purchases/s,p99,avg-wait,retries/purchase,server-us",

		`--threshold "p99": want METRIC<=VALUE or METRIC>=VALUE in quotes`:  "run fine --threshold p99",
		`"p99<=5": "5": p99 of it is a time with its unit: type 'p99<=5ms'`: "run fine --threshold p99<=5",
		`--threshold "p98<=5ms": unknown metric "p98"; known:`:              "run fine --threshold p98<=5ms",
		`"late<=1%" is about orders at a rate: give --rate, too`:            "run fine --threshold late<=1%",
		`which strategy is held to the first? give two SPECs`:               "run fine --threshold p99<=first",

		`--arrivals: unknown kind of arrivals "even"; known: poisson, constant`: "run fine --rate 1k --arrivals even",
		"--arrivals is of orders at a rate: give --rate, too":                   "compare fine lua --arrivals constant",

		`--threshold "p99<=5000us" is there twice: leave one out`: "run fine --threshold p99<=5ms " +
			"--threshold p99<=5000us",
		"--strict: what must be decided? give --threshold, too":       "run fine --strict",
		"--trials 1: 1 pair of thresholds and rows take 6 rounds":     "run fine --trials 1 --threshold p99<=5ms",
		"--trials 6: 2 pairs of thresholds and rows take 7 rounds or": "run fine lua --trials 6 --threshold p99<=5ms",
		"unknown flag: --threshold":                                   "sweep fine --axis hot=1 --threshold p99<=5ms",
	} {
		marketsim(t, strings.Fields(args)...).exits(t, exitUsage).says(t, says)
	}
}

// TestCompareByMetrics: each metric has its verdicts on each pair, at a rate, too, and the
// stored result repeats them.
func TestCompareByMetrics(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	o := marketsim(t, short("compare", "lua", "fine", "--mix", "1x1", "--rate", "200",
		"--slo", "5ms", "--trials", "8", "--metric", "p99,retries/purchase,late",
		"--backend", "embedded", "--out", dir)...).exits(t, exitFine)
	unbroken(o).says(t, "8 rounds of 3 rows", "the same again",
		"Lower is better of p99, retries/purchase and late.")
	if strings.Contains(o.stdout, "NaN") || strings.Contains(o.stdout, "Inf") {
		t.Errorf("a number is none:\n%s", o.stdout)
	}
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand compare drew\n%s", again.stdout, o.stdout)
	}

	run := parse(t, marketsim(t, "report", dir, "--format", "json").exits(t, exitFine).stdout)
	want := []string{"wait_ms_p99", "retries_per_purchase", "late_share"}
	if all := compare.Of(run); len(all) != 6 || !slices.Equal(run.Manifest.Config.Metrics, want) {
		t.Errorf("%d comparisons by %q", len(all), run.Manifest.Config.Metrics)
	}
}

// TestThresholdRounds: by default there are as many rounds as the intervals of all thresholds
// take.
func TestThresholdRounds(t *testing.T) {
	for args, want := range map[string]int{
		"--threshold p99<=5ms":                          7, // of two rows
		"--threshold p99<=first":                        6, // of the second
		"--threshold p99<=5ms --threshold p50<=1ms":     8,
		"--threshold p99<=5ms --trials 12":              12,
		"--threshold p99<=5ms --margin 5%":              9,
		"--threshold p99<=5ms --margin 5% --trials 7":   7,
		"--threshold p99<=first --margin 5% --trials 6": 6,
	} {
		f, cmd := planOf(t, func(f *rowFlags, cmd *cobra.Command) {
			trials := 1
			if strings.Contains(args, "--margin") {
				trials = 0
			}
			f.addMeasuring(cmd.Flags(), time.Second, 0, trials)
			f.addThresholds(cmd.Flags())
		}, strings.Fields(args)...)

		points := []result.Point{{Strategy: "fine", Mix: result.Mix{Sellers: 1, Buyers: 1}}}
		points = append(points, points[0])
		points[1].Strategy = "lua"
		if p, err := f.plan(cmd, points); err != nil || p.config.Trials != want {
			t.Errorf("%s: %v, want %d rounds", args, err, want)
		}
	}
}

// TestThresholdExits: what is broken is a violation, and what is not decided a warning or,
// if strict, a failure.
func TestThresholdExits(t *testing.T) {
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	point := result.Point{Strategy: "lua", Mix: result.Mix{Sellers: 1, Buyers: 1}}
	run.Manifest.Config.Points = []result.Point{point}
	for trial := 1; trial <= 9; trial++ {
		run.Rows = append(run.Rows, result.Row{
			Point: point, Trial: trial, Status: stored.Complete, Seconds: 1, Bought: 100,
			WaitMS: result.Latency{P99: float64(trial), Count: 100},
			Audit:  result.AuditSummary{Done: true, OK: true},
		})
	}
	run.Manifest.Config.Trials = len(run.Rows)

	for _, c := range []struct {
		threshold, says string
		strict          bool
		code            int
	}{
		{threshold: "p99<=9ms", code: exitFine},
		{
			threshold: "p99<=1ms",
			says:      "violation: p99<=1ms is broken by lua 1x1: 5 ms (2 ms to 8 ms)",
			code:      exitViolation,
		},
		{
			threshold: "p99<=5ms",
			says:      "warning: p99<=5ms is not decided of lua 1x1: 5 ms (2 ms to 8 ms)\n",
			code:      exitFine,
		},
		{
			threshold: "p99<=5ms",
			strict:    true,
			says:      "more rounds (--trials) or longer rows",
			code:      exitEnvironment,
		},
		{threshold: "p99<=1ms", strict: true, says: "is broken by", code: exitViolation},
	} {
		var stderr strings.Builder
		run.Manifest.Config.Thresholds = []runs.Threshold{
			testkit.Must(runs.ParseThreshold(c.threshold))(t),
		}
		broken, undecided := (&program{stderr: &stderr}).checkThresholds(run, c.strict)
		err := errors.Join(broken, undecided)
		if err != nil {
			stderr.WriteString(err.Error())
		}
		if exitCode(err) != c.code || !strings.Contains(stderr.String(), c.says) ||
			c.says == "" && stderr.Len() > 0 {
			t.Errorf("%s, strict %v: exit code %d and %q, want %d and %q",
				c.threshold, c.strict, exitCode(err), stderr.String(), c.code, c.says)
		}
	}
}

// TestVerdictsInJSON: JSON has what is concluded of a run, a number that does not exist is
// absent, and what was printed is a result that can be reported again.
func TestVerdictsInJSON(t *testing.T) {
	t.Parallel()
	const rounds = 9
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	config := &run.Manifest.Config
	config.Trials, config.Margin = rounds, new(0.05)
	config.Thresholds = []runs.Threshold{testkit.Must(runs.ParseThreshold("p99<=2ms"))(t)}

	for _, strategy := range []string{"fine", "lua", "fine#2"} {
		point := result.Point{Strategy: strategy, Mix: result.Mix{Sellers: 1, Buyers: 1}}
		config.Points = append(config.Points, point)
		bought := map[string]int64{"fine": 100, "lua": 200, "fine#2": 100}[strategy]
		for trial := 1; trial <= rounds; trial++ {
			run.Rows = append(run.Rows, result.Row{
				Point: point, Trial: trial, Status: stored.Complete, Seconds: 1, Bought: bought,
				WaitMS: result.Latency{P99: 4, Count: bought}, Audit: result.AuditSummary{Done: true, OK: true},
			})
		}
	}

	first := filepath.Join(t.TempDir(), runFile)
	testkit.Succeeds(t, store(first, false, run.Write))
	if strings.Contains(read(t, first), "verdicts") {
		t.Error("what follows from the rows is stored with them")
	}

	second := filepath.Join(t.TempDir(), runFile)
	marketsim(t, "report", first, "--format", "json", "-o", second).exits(t, exitFine)
	text := read(t, second)
	for _, want := range []string{
		`{"at":"1x1","metric":"purchases_per_second","a":"lua","b":"fine","verdict":"faster","rounds":9,` +
			`"median_a":200,"median_b":100,"ratio":`,
		`"ratio":1,"low":1,"high":1,"confidence":0.975}`,
		`"a":"fine#2","b":"fine","verdict":"no difference"`,
		`{"threshold":"p99\u003c=2ms","at":"1x1","subject":"lua","standing":"broken","rounds":9,` +
			`"measured":4,"low":4,"high":4,`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text[strings.Index(text, `"verdicts"`):])
		}
	}

	again := marketsim(t, "report", second, "--format", "json").exits(t, exitFine).stdout
	if again != text {
		t.Error("reported again it is another")
	}

	// Only fine's first row is left: no round has both strategies, so 0 of 9 are compared.
	run.Rows = run.Rows[:1]
	run.Status = stored.Interrupted
	undecided := filepath.Join(t.TempDir(), runFile)
	testkit.Succeeds(t, store(undecided, false, run.Write))

	o := marketsim(t, "report", undecided, "--format", "json").exits(t, exitFine)
	want := `{"at":"1x1","metric":"purchases_per_second","a":"lua","b":"fine","verdict":"not decided",` +
		`"reason":"0 of 9 rounds","rounds":0,"confidence":0.975}`
	if !strings.Contains(o.stdout, want) {
		t.Errorf("%s is not in\n%s", want, o.stdout)
	}
}

// TestRunWithThresholds: the report says how each stands, and the stored result repeats it.
// Whether one is decided is up to the machine.
func TestRunWithThresholds(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	o := marketsim(t, short("run", "lua", "--mix", "1x1",
		"--threshold", "p99>=0ms", "--threshold", "purchases/s<=1M",
		"--backend", "embedded", "--out", dir)...).
		exits(t, exitFine).says(t, "7 rounds of 1 row", "Thresholds\n", "p99>=0ms")
	if again := marketsim(t, "report", dir).exits(t, exitFine); again.stdout != o.stdout {
		t.Errorf("report draws\n%s\nand run drew\n%s", again.stdout, o.stdout)
	}
	all := parse(t, marketsim(t, "report", dir, "--format", "json").exits(t, exitFine).stdout).
		Manifest.Config.Thresholds
	if len(all) != 2 || all[1].String() != "purchases/s<=1000000" {
		t.Errorf("stored are %v", all)
	}
}

// TestConstantArrivals: they are part of a row's name, and of what is stored; those of a
// Poisson process are the usual.
func TestConstantArrivals(t *testing.T) {
	t.Parallel()
	for arrivals, want := range map[string]string{
		"constant": "lua 1x2 arrivals=constant at 100/s", "poisson": "lua 1x2 at 100/s",
	} {
		r := measured(t, short("run", "lua", "--mix", "1x2", "--rate", "100", "--arrivals", arrivals,
			"--backend", "embedded")...).Rows[0]
		if r.Name() != want || r.Open == nil {
			t.Errorf("%s: the row is %s: %+v", arrivals, r.Name(), r.Open)
		}
		due := r.Rate * r.Seconds
		if arrivals == "constant" && math.Abs(float64(r.Open.Due)-due) > 1 {
			t.Errorf("%d orders fell due, want %.1f", r.Open.Due, due)
		}
	}
}
