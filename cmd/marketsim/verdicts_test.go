package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/compare"
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
	} {
		marketsim(t, strings.Fields(args)...).exits(t, exitUsage).says(t, says)
	}
}

// TestCompareByMetrics: each metric has its verdicts on each pair, at a rate, too, and the
// stored result repeats them.
func TestCompareByMetrics(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	o := marketsim(t, short("compare", "lua", "fine", "--mix", "1x1", "--rate", "200", "--slo", "5ms", "--trials", "8",
		"--metric", "p99,retries/purchase,late", "--backend", "embedded", "--out", dir)...).exits(t, exitFine)
	unbroken(o).says(t, "8 rounds of 3 rows", "the same again", "Lower is better of p99, retries/purchase and late.")
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
