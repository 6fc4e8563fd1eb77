package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestSubjects(t *testing.T) {
	for typed, want := range map[string]string{
		"fine:setnx coarse":      "fine coarse",
		"fine fine:poll=1ms":     "fine fine#2",
		"watch fine fine fine":   "watch fine fine#2 fine#3",
		"fine:poll=2ms coarse":   "fine:poll=2ms coarse",
		"fine:setnx fine:set-px": "fine fine:set-px",
	} {
		names, err := subjects(catalogue.Full(), strings.Fields(typed))
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", typed, got, err, want)
		}
	}
}

func TestParseRates(t *testing.T) {
	f := rowFlags{rates: []string{"500", "1k", "2.5k", "0.5", "1M"}}
	if got, err := f.parseRates(); !slices.Equal(got, []float64{500, 1000, 2500, 0.5, 1e6}) ||
		err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "k", "1kk", "-1", "NaN", "Inf", "1/s", "0", "fast"} {
		f.rates = []string{text}
		if got, err := f.parseRates(); !isUsage(err) {
			t.Errorf("%q: %v, %v; want an error of usage", text, got, err)
		}
	}
}

// TestRounds: each round has every row once, in an order drawn from the seed,
// and a history of its own.
func TestRounds(t *testing.T) {
	points := published(reference.Book)

	rounds := func(seed uint64, trials int) (orders [][]int) {
		p := &plan{config: runs.Config{Points: points, Trials: trials}}
		p.options.Seed, p.options.History = seed, "h"
		folders := map[string]bool{}

		for trial := 1; trial <= trials; trial++ {
			order := p.order(trial)
			orders = append(orders, order)
			sorted := slices.Sorted(slices.Values(order))
			if len(sorted) != len(points) || sorted[0] != 0 || len(slices.Compact(sorted)) != len(points) {
				t.Errorf("round %d is %v", trial, order)
			}
			for _, i := range order {
				folders[p.historyOf(i, trial)] = true
			}
		}
		if len(folders) != trials*len(points) {
			t.Errorf("%d folders for %d rows", len(folders), trials*len(points))
		}

		return orders
	}

	if single := rounds(1, 1)[0]; !slices.IsSorted(single) {
		t.Errorf("a single round is not in the order in which it was asked for: %v", single)
	}

	first := rounds(1, 9)
	different := map[string]bool{}
	for _, order := range first {
		different[fmt.Sprint(order)] = true
	}
	if again := rounds(1, 9); len(different) < 8 || !slices.EqualFunc(first, again, slices.Equal) {
		t.Errorf("9 rounds have %d orders, and again %v", len(different), again)
	}

	if other := rounds(2, 9); slices.EqualFunc(first, other, slices.Equal) {
		t.Error("another seed gives the same orders")
	}
}

func TestAhead(t *testing.T) {
	points := published(reference.Book)
	for trials, want := range map[int]string{
		1: "9 rows of 1.1s, at least 9.9s in all",
		9: "9 rounds of 9 rows of 1.1s, at least 1m29.1s in all",
	} {
		p := &plan{config: runs.Config{Points: points, Trials: trials}}
		p.options.Duration, p.options.Warmup = time.Second, 100*time.Millisecond
		if got := p.ahead(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestReproductionTakesTwoMinutes, with what a row needs besides its load, and begins
// empty as the book's market does.
func TestReproductionTakesTwoMinutes(t *testing.T) {
	points := published(reference.Book)
	took := reproduceTrials * time.Duration(len(points)) * (reproduceDuration + reproduceWarmup)
	if took > 100*time.Second {
		t.Errorf("the load alone takes %s", took)
	}

	define := func(f *rowFlags, cmd *cobra.Command) {
		f.addMeasuring(cmd.Flags(), reproduceDuration, reproduceWarmup, reproduceTrials)
	}
	for args, want := range map[string]string{
		"":                          "3 rounds of 9 rows of 1s, at least 27s in all",
		"--duration 1s --trials=12": "12 rounds of 9 rows of 1.2s, at least 2m9.6s in all",
	} {
		f, cmd := planOf(t, define, strings.Fields(args)...)
		p := testkit.Must(f.plan(cmd, points))(t)
		p.shorten()
		if got := p.ahead(); got != want {
			t.Errorf("on the embedded server with %q: %s, want %s", args, got, want)
		}
	}

	if slices.ContainsFunc(points, func(p result.Point) bool { return !p.Empty }) {
		t.Errorf("%+v", points)
	}
}

// planOf is what a command would measure.
func planOf(
	t *testing.T, define func(f *rowFlags, cmd *cobra.Command), args ...string,
) (*rowFlags, *cobra.Command) {
	t.Helper()
	f, cmd := &rowFlags{catalogue: catalogue.Full()}, &cobra.Command{}
	define(f, cmd)
	testkit.Succeeds(t, cmd.ParseFlags(args))
	return f, cmd
}

// TestComparedRounds: enough for an interval of every pair, unless fewer are
// asked for, which is refused.
func TestComparedRounds(t *testing.T) {
	for _, c := range []struct {
		strategies, trials, want int
	}{
		{2, 0, 9}, {2, 6, 6}, {2, 12, 12}, {2, 8, 8}, {2, 3, 0}, {2, 1, 0},
		{3, 6, 0}, {3, 7, 7}, {3, 0, 9},
		{20, 0, 10}, {20, 9, 0},
	} {
		var args []string
		if c.trials != 0 {
			args = []string{"--trials", fmt.Sprint(c.trials)}
		}
		f, cmd := planOf(t, func(f *rowFlags, cmd *cobra.Command) {
			f.addMeasuring(cmd.Flags(), time.Second, 0, 0)
			f.out.add(cmd.Flags(), runFormats)
		}, args...)

		names := testkit.Must(
			subjects(catalogue.Full(), slices.Repeat([]string{"fine"}, c.strategies)),
		)(t)
		var points []result.Point
		for _, name := range names {
			points = append(points, result.Point{Strategy: name, Mix: result.Mix{Sellers: 1, Buyers: 1}})
		}

		p, err := f.plan(cmd, points)
		planned := err == nil && p.config.Trials == c.want && *p.config.Margin == 0.05
		switch {
		case c.want == 0 && !isUsage(err):
			t.Errorf("%d strategies in %d rounds: %v", c.strategies, c.trials, err)
		case c.want != 0 && !planned:
			t.Errorf("%d strategies in %d rounds: %v", c.strategies, c.trials, err)
		}
	}
}

// TestTrials: rows of rounds, each with a history. What --strategy names is measured beside
// what stands alone.
func TestTrials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	res := measured(t, "run", "watch", "--strategy", "fine", "--mix", "1x1", "--trials", "6",
		"--duration", "20ms", "--warmup", "0s", "--backend", "embedded", "--history", dir)
	if len(res.Rows) != 12 || res.Manifest.Config.Trials != 6 {
		t.Errorf("%d rows in %d rounds, want 12 in 6", len(res.Rows), res.Manifest.Config.Trials)
	}

	for i, r := range res.Rows {
		if r.Trial != 1+i/2 {
			t.Errorf("row %d is of round %d", i+1, r.Trial)
		}
	}

	found, err := history.Find(dir)
	if err != nil || len(found) != 12 || found[0] != filepath.Join(dir, "round-01", "01-watch-1x1") {
		t.Errorf("%v, histories in %q", err, found)
	}
}

// TestInterruptedBeforeTheLoad: nothing is measured, and nothing of what is
// there is replaced.
func TestInterruptedBeforeTheLoad(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newExternal(t)

	for _, args := range [][]string{
		{"clean", "--prefix", "mine:", "--redis", s.url("")},
		{"run", "--strategy", "fine", "--redis", s.url(""),
			"--out", filepath.Dir(storedRun(t)), "--force"},
		{"run", "--strategy", "fine", "--backend", "embedded"},
	} {
		o := marketsimUntil(ctx, args...).exits(t, exitInterrupted).says(t, "marketsim: interrupted")
		if o.stdout != "" {
			t.Errorf("stdout holds %q", o.stdout)
		}
	}
	s.holds(t)
}
