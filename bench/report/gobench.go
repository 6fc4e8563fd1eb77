package report

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// GoBench is a format that only a run has: the Go benchmark format, a line for each row and trial, which benchstat reads
// (golang.org/x/perf/cmd/benchstat). The name of a line says which strategy and which mix:
//
//	BenchmarkMarket/strategy=fine/mix=5x5-2 23456 127886 ns/op 7819 purchases/s ...
//
// An operation is an applied purchase. ns/op is measured time over purchases, as Go does for benchmarks that run in
// parallel, mean-ns, p50-ns and p99-ns are what one of them took, and p50-tries, p99-tries and max-tries how often it was
// tried. Rows that must not be judged, because they are incomplete or failed their audit, are comments, and so are rows
// without a purchase and rows under faults. The name of a row of an open loop has its rate, too, and that of a row whose
// workload is not the book's has the workload: "mix=0x5/hot=1".
const GoBench = "gobench"

// goBench draws a run as lines of the Go benchmark format.
func goBench(b *bytes.Buffer, res *result.Run) {
	m := res.Manifest
	goos, goarch, _ := strings.Cut(m.OS, "/")
	for _, c := range []struct{ key, value string }{
		{"goos", goos}, {"goarch", goarch}, {"pkg", "github.com/marketsim/marketsim"}, {"cpu", m.CPU},
		{"server", joined(" ", m.Server, m.ServerVersion)}, {"backend", m.Backend},
	} {
		if value := clean(c.value); value != "" {
			fmt.Fprintf(b, "%s: %s\n", c.key, value)
		}
	}
	b.WriteString("Unit purchases/s better=higher\n")
	for _, r := range res.Rows {
		problem := r.Problem()
		switch {
		case problem == "" && r.Bought == 0:
			problem = "bought nothing"
		}
		if problem != "" {
			fmt.Fprintf(b, "# %s, trial %d, %s\n", clean(r.Name()), r.Trial, problem)
			continue
		}
		b.WriteString(benchmarkName(r, m.CPUs))
		fmt.Fprintf(b, " %d", r.Bought)
		for _, v := range benchmarkValues(r) {
			rounded, _ := strconv.ParseFloat(fmt.Sprintf("%.7g", v.value), 64) // its own text
			fmt.Fprintf(b, " %s %s", strconv.FormatFloat(rounded, 'f', -1, 64), v.unit)
		}
		b.WriteByte('\n')
	}
}

// benchmarkName ends in the number of CPUs, as Go's do.
func benchmarkName(r result.Row, cpus int) string {
	strategy := strings.NewReplacer(" ", "_", "/", "_").Replace(clean(r.Strategy))
	name := fmt.Sprintf("BenchmarkMarket/strategy=%s/mix=%s", strategy, strings.ReplaceAll(r.Place(), " ", "/"))
	if r.Open != nil {
		name += "/rate=" + strconv.FormatFloat(r.Open.Asked, 'f', -1, 64)
	}
	if cpus > 1 {
		name += fmt.Sprintf("-%d", cpus)
	}
	return name
}

// measurement is a number of a row that bought something.
type measurement struct {
	value float64
	unit  string
}

func benchmarkValues(r result.Row) []measurement {
	const ns = 1e6 // in a millisecond
	bought := float64(r.Bought)
	values := []measurement{
		{r.Seconds * 1e9 / bought, "ns/op"}, {r.PurchasesPerSecond, "purchases/s"},
		{r.WaitMS.Mean * ns, "mean-ns"}, {r.WaitMS.P50 * ns, "p50-ns"}, {r.WaitMS.P99 * ns, "p99-ns"},
		{float64(r.Retries) / bought, "retries/op"},
	}
	if r.CommandsPerPurchase > 0 { // or nobody could count
		values = append(values, measurement{r.RoundTripsPerPurchase, "round-trips/op"},
			measurement{r.CommandsPerPurchase, "commands/op"})
	}
	if t := r.Tries; t != nil {
		values = append(values, measurement{float64(t.P50), "p50-tries"}, measurement{float64(t.P99), "p99-tries"},
			measurement{float64(t.Max), "max-tries"})
	}
	return values
}
