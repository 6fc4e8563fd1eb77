package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/history"
)

// planned is the names of the rows that a run with more arguments plans, round after round.
func planned(t *testing.T, seed uint64, trials int) [][]string {
	t.Helper()
	specs, err := published()
	if err != nil {
		t.Fatal(err)
	}
	c := sessionConfig{specs: specs, trials: trials, history: "h"}
	c.base.Seed = seed
	rounds := make([][]string, trials)
	folders := map[string]bool{}
	for _, row := range c.rows() {
		rounds[row.Trial-1] = append(rounds[row.Trial-1], row.Subject.String()+" "+row.Mix.String())
		if folders[row.History] {
			t.Errorf("two rows record into %s", row.History)
		}
		folders[row.History] = true
		if want := seed + uint64(row.Trial) - 1; row.Seed != want {
			t.Errorf("round %d has seed %d, want %d", row.Trial, row.Seed, want)
		}
	}
	return rounds
}

func TestRounds(t *testing.T) {
	asked := planned(t, 1, 1)[0]
	specs, _ := published()
	for i, s := range specs {
		if asked[i] != s.String() {
			t.Errorf("row %d of a single round is %s, want %s as it was asked for", i+1, asked[i], s)
		}
	}
	first := planned(t, 1, 9)
	orders := map[string]bool{}
	for i, round := range first {
		orders[strings.Join(round, ", ")] = true
		if got := slices.Sorted(slices.Values(round)); !slices.Equal(got, slices.Sorted(slices.Values(asked))) {
			t.Errorf("round %d does not hold every row once: %q", i+1, round)
		}
	}
	if len(orders) != 9 {
		t.Errorf("9 rounds have %d orders: %q", len(orders), slices.Collect(maps.Keys(orders)))
	}
	if again := planned(t, 1, 9); !slices.EqualFunc(first, again, slices.Equal) {
		t.Errorf("the same seed gives other orders:\n%q\n%q", first, again)
	}
	if other := planned(t, 2, 9); slices.EqualFunc(first, other, slices.Equal) {
		t.Error("another seed gives the same orders")
	}
}

func TestAhead(t *testing.T) {
	specs, err := published()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trials           int
		duration, warmup time.Duration
		want             string
	}{
		{1, time.Second, 100 * time.Millisecond, "9 rows of 1.1s, 9.9s in all"},
		{9, 900 * time.Millisecond, 200 * time.Millisecond, "9 rounds of 9 rows of 1.1s, 1m29.1s in all"},
		{9, time.Minute, time.Second, "9 rounds of 9 rows of 1m1s, 1h22m21s in all (with --trials 1: 9m9s)"},
	} {
		config := sessionConfig{specs: specs, trials: c.trials}
		config.base.Duration, config.base.Warmup = c.duration, c.warmup
		if got := config.ahead(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestTrials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := marketsim(t, "run", "--strategy", "watch,fine", "--mix", "1x1", "--trials", "6", "--duration", "20ms", "--warmup", "0s",
		"--backend", "embedded", "--history", dir, "--json", "-").exits(t, exitFine).says(t, "6 rounds of 2 rows of 20ms, 240ms in all")
	res := parse(t, o.stdout)
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
