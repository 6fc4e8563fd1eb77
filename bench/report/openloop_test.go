package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
)

// atRate is a row of an open loop. Its waits are those of a queue: 1 to 1000 times the given milliseconds over 500.
func atRate(strategy string, asked, reached float64, wait float64) result.Row {
	r := measuredRow(strategy, 5, 5, int64(reached*5), int64(reached*5), 0, wait)
	h := hdrhistogram.New(1, 60_000_000, 3)
	for i := range 1000 {
		_ = h.RecordValue(int64(wait * float64(i+1) * 2))
	}
	text, _ := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	r.Histograms.Purchase = string(text)
	due := int64(asked * 5)
	r.Open = &result.Open{
		Asked: asked, Offered: asked, Reached: reached, Arrivals: "poisson", Backlog: due - r.Bought,
		ServiceMS: result.Latency{Mean: 0.4, P50: 0.4, P90: 0.6, P99: 0.9, P999: 2, Max: 3},
	}
	return r
}

// openRun is a run at four rates, of which watch reaches one and fine three.
func openRun() *result.Run {
	res := complete()
	res.Manifest.Config.Strategies = []string{"watch", "fine"}
	res.Manifest.Config.Rates = []float64{500, 1000, 2000, 4000}
	res.Manifest.Config.Arrivals, res.Manifest.Config.SLOMS = "poisson", 10
	res.Rows = []result.Row{
		atRate("watch", 500, 500, 2.1), atRate("watch", 1000, 612.4, 412), atRate("watch", 2000, 598, 1712),
		atRate("watch", 4000, 601, 2204),
		atRate("fine", 500, 500, 0.6), atRate("fine", 1000, 1000, 0.61), atRate("fine", 2000, 2000, 1.04),
		atRate("fine", 4000, 3990, 7.1),
	}
	last := res.Rows[3].Open
	last.GivenUp, last.Backlog, last.WithoutStockSeconds = 1203, last.Backlog-1203, 0.75
	return res
}

// TestKnee: the highest rate is named that was reached with the 99th percentile (4 times the wait) under the objective.
func TestKnee(t *testing.T) {
	fine := func(rows ...result.Row) []result.Row { return rows }
	broken := atRate("fine", 2, 2, 1)
	broken.Audit.OK = false
	nothing := atRate("fine", 2, 0, 1)
	nothing.Bought = 0
	for name, c := range map[string]struct {
		rows []result.Row
		slo  float64
		want string
	}{
		"one rate alone":       {rows: fine(atRate("fine", 500, 500, 1))},
		"one rate, good":       {fine(atRate("fine", 500, 500, 1)), 10, "every rate up to the highest that was asked for was reached with a 99th percentile under 10.0 ms; at 500/s the 99th percentile is 4.00 ms"},
		"one rate, slow":       {fine(atRate("fine", 500, 500, 3)), 10, "no rate was reached with a 99th percentile under 10.0 ms; at 500/s the 99th percentile is 12.0 ms"},
		"equal is not under":   {fine(atRate("fine", 500, 500, 2.5)), 10, "no rate was reached"},
		"between":              {fine(atRate("fine", 2000, 2000, 3), atRate("fine", 1000, 1000, 2)), 10, "1,000/s is the highest rate that was reached with a 99th percentile under 10.0 ms; at 1,000/s the 99th percentile is 8.00 ms; at 2,000/s the 99th percentile is 12.0 ms"},
		"fast but not reached": {fine(atRate("fine", 1000, 1000, 1), atRate("fine", 2000, 1900, 1)), 10, "; at 2,000/s (1,900/s reached) the 99th percentile is 4.00 ms"},
		"a gap":                {fine(atRate("fine", 1, 1, 3), atRate("fine", 2, 2, 1)), 10, "at 2.00/s the 99th percentile is 4.00 ms; but at 1.00/s the 99th percentile is 12.0 ms"},
		"nothing bought":       {fine(atRate("fine", 1, 1, 1), nothing), 10, "; at 2.00/s nothing was bought"},
		"no objective":         {fine(atRate("fine", 1, 1, 90), atRate("fine", 2, 1, 99)), 0, "1.00/s is the highest rate that was reached; at 1.00/s"},
		"a failed audit":       {fine(atRate("fine", 1, 1, 1), broken), 10, "not judged"},
	} {
		t.Run(name, func(t *testing.T) {
			var each [][]result.Row
			for _, r := range c.rows {
				each = append(each, []result.Row{r})
			}
			ladders := ladders(each)
			if len(ladders) != 1 {
				t.Fatalf("%d ladders", len(ladders))
			}
			got := knee(ladders[0], c.slo)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestKneeOfRounds: it is judged on medians.
func TestKneeOfRounds(t *testing.T) {
	res := openRun()
	res.Manifest.Config.Trials = 6
	rows := res.Rows
	res.Rows = nil
	for trial := range 6 {
		for _, r := range rows {
			open := *r.Open
			r.Open, r.Trial = &open, trial+1
			if trial == 0 { // one round in which everything went wrong
				r.WaitMS.P99, r.Open.Reached = 5000, 1
			}
			res.Rows = append(res.Rows, r)
		}
	}
	text := strings.Join(strings.Fields(drawn(t, Run(res), Text, Options{})), " ")
	for _, want := range []string{
		"Open loop: medians of 6 rounds", "fine 5x5: 2,000/s is the highest rate that was reached with a 99th percentile under 10.0 ms",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// point is a line of a percentile distribution.
type point struct{ value, percentile, count float64 }

// plotted reads a distribution as HdrHistogram's plotter does: lines of four columns that do not begin with #.
func plotted(t *testing.T, text string) (all []point) {
	t.Helper()
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		columns := strings.Fields(scanner.Text())
		if len(columns) != 4 || strings.HasPrefix(columns[0], "#") {
			continue
		}
		var p point
		for i, into := range []*float64{&p.value, &p.percentile, &p.count} {
			var err error
			if *into, err = strconv.ParseFloat(columns[i], 64); err != nil && columns[0] != "Value" {
				t.Fatalf("%q: %v", scanner.Text(), err)
			}
		}
		if columns[0] != "Value" {
			all = append(all, p)
		}
	}
	return all
}

// TestHGRM: the plotter finds percentiles that rise to 1, with the values that the row has there; rounds are put
// together, and several rows are refused with the name of one.
func TestHGRM(t *testing.T) {
	two := complete()
	two.Rows = []result.Row{atRate("fine", 1000, 1000, 10), atRate("fine", 1000, 1000, 20)}
	two.Rows[1].Trial = 2
	points := plotted(t, drawn(t, Run(two), HGRM, Options{}))
	for i, p := range points {
		// Of 2,000 values, those of the first round are 0.02 ms apart and those of the second 0.04 ms.
		below := math.Min(1000, math.Floor(p.value/0.02+0.01)) + math.Min(1000, math.Floor(p.value/0.04+0.01))
		if math.Abs(p.count-below) > 3 || p.count/2000 < p.percentile-1e-6 {
			t.Errorf("%+v: about %v values are no larger", p, below)
		}
		if i > 0 && (p.value < points[i-1].value || p.percentile < points[i-1].percentile) {
			t.Errorf("%+v after %+v", p, points[i-1])
		}
	}
	if last := points[len(points)-1]; len(points) < 20 || last.percentile != 1 || last.count != 2000 || math.Abs(last.value-40) > 0.05 {
		t.Errorf("%d points, the last %+v", len(points), last)
	}

	several := Run(openRun())
	err := several.Write(io.Discard, HGRM, Options{})
	if !errors.Is(err, ErrOneRow) || !strings.Contains(err.Error(), "name one with --row, such as 'watch 5x5 at 500/s'") {
		t.Errorf("several rows: %v", err)
	}
	one, err := several.Only("fine 5x5 at 2000/s")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "waits.hgrm", []byte(drawn(t, one, HGRM, Options{})))
	for _, name := range []string{"fine 5x5", "", "fine 5x5 at 2,000/s"} {
		if _, err := several.Only(name); err == nil || !strings.Contains(err.Error(), "there is watch 5x5 at 500/s") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Faults(everyVerdict()).Only("fine 5x5"); err == nil {
		t.Error("faults have rows")
	}
	damaged := complete()
	damaged.Rows = damaged.Rows[:1]
	if err := Run(damaged).Write(io.Discard, HGRM, Options{}); err == nil || !strings.Contains(err.Error(), "watch 5x5, trial 1") {
		t.Errorf("a histogram that is none: %v", err)
	}
	both := Several([]string{"a", "b"}, []*Document{one, one})
	if err := both.Write(io.Discard, HGRM, Options{}); !errors.Is(err, ErrOneRow) {
		t.Errorf("two runs: %v", err)
	}
}

// TestRatesInNames: formats without a column for the rate have it in the name.
func TestRatesInNames(t *testing.T) {
	text := drawn(t, Run(openRun()), GoBench, Options{})
	var names []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Benchmark") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	if len(names) != 8 || len(slices.Compact(names)) != 8 || !strings.Contains(text, "/rate=2000-8 ") {
		t.Errorf("names %q", names)
	}
	if want := fmt.Sprint(openRun().Rows[6].Name()); want != "fine 5x5 at 2000/s" {
		t.Error(want)
	}
}
