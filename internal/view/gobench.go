package view

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
)

// Gobench writes a run in the Go benchmark format of golang.org/x/perf/cmd/benchstat, a
// line for each row and trial, with the names and units of BenchmarkPurchase (package bench),
// so that benchstat compares the two:
//
//	BenchmarkPurchase/strategy=fine/mix=5x5-2 23456 127886 ns/op 7819 purchases/s ...
//
// An operation is a purchase that was made: ns/op is measured time over purchases,
// as Go has it for benchmarks that run in parallel, and mean-ns, p50-ns and p99-ns
// are what one of them took. Rows that must not be judged, and rows in which
// nothing was bought, are comments.
func Gobench(w io.Writer, run *runs.Run) error {
	out := benchfmt.NewWriter(w)
	better := benchfmt.UnitMetadataKey{Key: "better"}
	err := out.Write(&benchfmt.UnitMetadata{OrigUnit: "purchases/s", UnitMetadataKey: better, Value: "higher"})

	for i := range run.Rows {
		// benchstat passes over comments, and a person sees why a row is missing.
		r := &run.Rows[i]
		problem := r.Problem()
		if problem == "" && r.Purchases() == 0 {
			problem = "bought nothing"
		}
		if problem != "" {
			// out keeps nothing back, so what is written past it stays in order.
			_, failed := fmt.Fprintf(w, "# %s, trial %d, %s\n", printable(r.Name()), r.Trial, problem)
			err = errors.Join(err, failed)
			continue
		}

		err = errors.Join(err, out.Write(&benchfmt.Result{
			Config: benchmarkConfig(run.Manifest, r.Point),
			Name:   benchmarkName(r, run.Manifest.CPUs),
			Iters:  int(r.Purchases()),
			Values: BenchmarkValues(r),
		}))
	}
	return err
}

// benchmarkConfig says where a row was measured, by the keys that package testing and writeConfig
// (bench/bench_test.go) write: with others benchstat would not show the row in one table with
// BenchmarkPurchase. Without File the writer would leave it out.
func benchmarkConfig(m runs.Manifest, p result.Point) (config []benchfmt.Config) {
	server, version := m.ServerOf(p)
	goos, goarch, _ := strings.Cut(m.OS, "/")

	for _, c := range []struct{ key, value string }{
		{"goos", goos},
		{"goarch", goarch},
		{"pkg", "github.com/marketsim/marketsim/bench"},
		{"cpu", m.CPU},
		{"server", server + " " + version},
		{"backend", m.Backend},
	} {
		if value := printable(c.value); value != "" {
			config = append(config, benchfmt.Config{Key: c.key, Value: []byte(value), File: true})
		}
	}
	return config
}

// benchmarkName ends in the number of CPUs, as Go's do.
func benchmarkName(r *result.Row, cpus int) benchfmt.Name {
	name := "Purchase/" + BenchmarkName(r.Point)
	if cpus > 1 {
		name += fmt.Sprintf("-%d", cpus)
	}
	return benchfmt.Name(name)
}

// BenchmarkName is that of a point below BenchmarkPurchase: parts NAME=VALUE between slashes, by
// which benchstat can group. The place "5x5 hot=1 at 1000/s" becomes mix=5x5/hot=1/rate=1000.
func BenchmarkName(p result.Point) string {
	strategy := strings.NewReplacer(" ", "_", "/", "_").Replace(printable(p.Strategy))
	load := strings.NewReplacer("at ", "rate=", "/s", "").Replace(p.Place())
	name := fmt.Sprintf("strategy=%s/mix=%s", strategy, strings.ReplaceAll(load, " ", "/"))
	if p.Server != "" {
		name += "/server=" + printable(p.Server)
	}
	return name
}

// BenchmarkValues are the numbers of a row in which something was bought. Units in ns are
// those that benchstat shows as times. BenchmarkPurchase reports them, too: its ns/op takes the
// place of the one that package testing computes.
func BenchmarkValues(r *result.Row) (values []benchfmt.Value) {
	const ns = 1e6 // in a millisecond
	values = []benchfmt.Value{{Value: r.Seconds * 1e9 / float64(r.Purchases()), Unit: "ns/op"}}
	for _, of := range []struct {
		metric, unit string
		times        float64
	}{
		{"purchases_per_second", "purchases/s", 1},
		{"wait_ms_mean", "mean-ns", ns}, {"wait_ms_p50", "p50-ns", ns}, {"wait_ms_p99", "p99-ns", ns},
		{"retries_per_purchase", "retries/op", 1}, {"round_trips_per_purchase", "round-trips/op", 1},
		{"commands_per_purchase", "commands/op", 1}, {"server_us", "server-ns", 1000},
	} {
		if v := runs.MetricByName(of.metric).Of(r); !math.IsNaN(v) {
			values = append(values, benchfmt.Value{Value: v * of.times, Unit: of.unit})
		}
	}

	for i, v := range values { // seven digits are more than anybody measures
		values[i].Value, _ = strconv.ParseFloat(strconv.FormatFloat(v.Value, 'g', 7, 64), 64)
	}
	return values
}
