package bench_test

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchproc"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/strategies"
)

// TestBenchstatComparesBoth: a purchase by 'go test -bench' and one by 'marketsim run --format
// gobench' stand in one table of benchstat, in one line, with the same units.
func TestBenchstatComparesBoth(t *testing.T) {
	server := testkit.Local(t)
	spec := testkit.Must(strategies.Builtin().Parse("fine:set-px"))(t)
	p := result.Point{Strategy: spec.String(), Mix: result.Mix{Sellers: 1, Buyers: 1}}
	const cpu = "AMD EPYC"

	count := flag.Lookup("test.benchtime").Value
	before := count.String()
	testkit.Succeeds(t, count.Set("20x"))
	defer func() { testkit.Succeeds(t, count.Set(before)) }()
	measured := testing.Benchmark(func(b *testing.B) { purchase(b, server, spec, p) })

	var byGo bytes.Buffer // as package testing prints it
	fmt.Fprintf(&byGo, "goos: %s\ngoarch: %s\npkg: github.com/marketsim/marketsim/bench\ncpu: %s\n",
		runtime.GOOS, runtime.GOARCH, cpu)
	writeConfig(t, &byGo, server)
	fmt.Fprintf(&byGo, "BenchmarkPurchase/%s-2\t%s\n", view.BenchmarkName(p), measured)

	row := testkit.Must(load.Measure(t.Context(), p, load.Options{
		Subject:  spec,
		Duration: 100 * time.Millisecond,
		Keys:     testkit.Keys(t),
		Servers:  connect.MarketServers{Market: server.Dialer("")},
	}))(t)
	info := testkit.Must(server.Info(t.Context()))(t)
	run := &runs.Run{Rows: []result.Row{row}, Manifest: runs.Manifest{
		OS:            runtime.GOOS + "/" + runtime.GOARCH,
		CPU:           cpu,
		CPUs:          2,
		Backend:       string(server.Name),
		Server:        info.Product,
		ServerVersion: info.Version,
	}}
	var byCommand bytes.Buffer
	testkit.Succeeds(t, view.Gobench(&byCommand, run))

	var parser benchproc.ProjectionParser
	filter := testkit.Must(benchproc.NewFilter("*"))(t)
	table := testkit.Must(parser.Parse(".config", filter))(t)
	line := testkit.Must(parser.Parse(".fullname", filter))(t)
	type place struct {
		table, line benchproc.Key
		units       string
	}
	var places []place
	for _, text := range []string{byGo.String(), byCommand.String()} {
		for reader := benchfmt.NewReader(strings.NewReader(text), "both"); reader.Scan(); {
			switch r := reader.Result().(type) {
			case *benchfmt.Result:
				var units []string
				for _, v := range r.Values {
					units = append(units, v.Unit)
				}
				slices.Sort(units)
				places = append(places, place{table.Project(r), line.Project(r), strings.Join(units, " ")})
			case *benchfmt.SyntaxError:
				t.Error(r)
			}
		}
	}
	if len(places) != 2 || places[0] != places[1] {
		t.Errorf("benchstat has them at\n%v\nof\n%s\n%s", places, &byGo, &byCommand)
	}
}
