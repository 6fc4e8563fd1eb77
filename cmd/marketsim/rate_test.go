package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{
		"500": 500, "1k": 1_000, "2.5k": 2_500, "0.5": 0.5, "1M": 1_000_000, "0.25M": 250_000, "007": 7,
	} {
		if got, err := parseRate(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "k", "1K", "1kk", "-1", "+1", ".5", "1.", "1e3", "0x10", "1_000", "NaN", "Inf", "1/s", "0", "0.0k", "1000001", "1.1M",
	} {
		if got, err := parseRate(text); !isUsage(err) {
			t.Errorf("%q: %v, %v; want an error of usage", text, got, err)
		}
	}
}

// TestRunAtRates: each rate is a row, of each strategy and mix, and a rate that cannot be reached is no failure. A busy
// machine may buy nothing in a short row: then the rows are longer.
func TestRunAtRates(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		var dir string
		var res *result.Run
		for length := 100 * time.Millisecond; ; length *= 3 {
			dir = t.TempDir()
			o := marketsim(t, "run", "--strategy", "fine,coarse", "--mix", "2x2", "--rate", "500,1M", "--arrivals", "constant",
				"--slo", "250ms", "--backend", string(s.Name), "--json", "-", "--out", dir, "--duration", length.String(),
				"--warmup", "20ms").
				exits(t, exitFine).says(t, "1/4 fine 2x2 at 500/s: ", "4/4 coarse 2x2 at 1000000/s: ")
			res = parse(t, o.stdout)
			if length > 5*time.Second || !slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.Bought == 0 }) {
				break
			}
		}
		if c := res.Manifest.Config; !slices.Equal(c.Rates, []float64{500, 1e6}) || c.Arrivals != "constant" || c.SLOMS != 250 {
			t.Errorf("configuration %+v", c)
		}
		var names []string
		for _, r := range res.Rows {
			names = append(names, r.Name())
			if r.Open == nil || r.Open.Arrivals != "constant" || !r.Audit.OK {
				t.Fatalf("%s: %+v, audit %+v", r.Name(), r.Open, r.Audit)
			}
			due := r.Open.Offered * r.Seconds
			if math.Abs(due-r.Open.Asked*r.Seconds) > 1.001 || int64(math.Round(due)) != r.Bought+r.Open.GivenUp+r.Open.Backlog {
				t.Errorf("%s: %v orders fell due in %v s; bought %d, %+v", r.Name(), due, r.Seconds, r.Bought, *r.Open)
			}
			if r.Open.Asked == 1e6 && (r.Open.Reached > 5e5 || r.Open.Backlog < 1000) {
				t.Errorf("a million purchases a second: %+v", *r.Open)
			}
		}
		want := []string{"fine 2x2 at 500/s", "fine 2x2 at 1000000/s", "coarse 2x2 at 500/s", "coarse 2x2 at 1000000/s"}
		if !slices.Equal(names, want) {
			t.Errorf("rows %q, want %q", names, want)
		}
		text := marketsim(t, "report", dir).exits(t, exitFine).stdout
		for _, part := range []string{"fine 2x2 at 1000000/s: not reached: ", "coarse 2x2: "} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q in\n%s", part, text)
			}
		}
		hgrm := marketsim(t, "report", dir, "--format", "hgrm", "--row", "fine 2x2 at 1000000/s").exits(t, exitFine).stdout
		if !strings.HasPrefix(hgrm, "#[fine 2x2 at 1000000/s: ms from when the order was due") {
			t.Errorf("percentiles:\n%s", hgrm)
		}
	})
}
