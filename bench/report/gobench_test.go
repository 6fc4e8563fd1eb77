package report

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/marketsim/marketsim/bench/result"
)

// benchmarks reads what benchstat reads, and fails where it would complain.
func benchmarks(t *testing.T, text string) []*benchfmt.Result {
	t.Helper()
	var all []*benchfmt.Result
	r := benchfmt.NewReader(strings.NewReader(text), "run")
	for r.Scan() {
		switch line := r.Result().(type) {
		case *benchfmt.Result:
			all = append(all, line.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v in\n%s", line, text)
		}
	}
	if r.Err() != nil || r.Units().GetBetter("purchases/s") <= 0 {
		t.Errorf("%v; more purchases/s are not better: %d", r.Err(), r.Units().GetBetter("purchases/s"))
	}
	return all
}

// TestGoBench: a line for each row and trial, with its configuration, whatever the strategy is called.
func TestGoBench(t *testing.T) {
	res := complete()
	again := measuredRow("watch", 5, 5, 61234, 2406, 48211, 20.4)
	again.Trial = 2
	res.Rows = append(res.Rows, again)
	all := benchmarks(t, drawn(t, Run(res), GoBench, Options{}))
	if len(all) != len(res.Rows) {
		t.Fatalf("%d lines of %d rows", len(all), len(res.Rows))
	}
	for i, r := range res.Rows {
		line := all[i]
		if want := "Market/strategy=" + r.Strategy + "/mix=5x5-8"; line.Name.String() != want {
			t.Errorf("row %d is named %s, want %s", i, line.Name, want)
		}
		for unit, want := range map[string]float64{
			"purchases/s": r.PurchasesPerSecond, "sec/op": r.Seconds / float64(r.Bought), "p99-sec": r.WaitMS.P99 / 1e3,
			"mean-sec": r.WaitMS.Mean / 1e3, "retries/op": float64(r.Retries) / float64(r.Bought),
		} {
			if got, ok := line.Value(unit); !ok || got < want*0.999999 || got > want*1.000001 {
				t.Errorf("%s of %s is %v, want %v", unit, r.Strategy, got, want)
			}
		}
		if got, ok := line.Value("p99-tries"); ok != (r.Tries != nil) || ok && got != float64(r.Tries.P99) {
			t.Errorf("p99-tries of %s is %v, %t; want %v", r.Strategy, got, ok, r.Tries)
		}
		for key, want := range map[string]string{
			"goos": "linux", "goarch": "amd64", "cpu": "AMD EPYC 7B13", "server": "redis 7.2.4", "backend": "local",
		} {
			if got := line.GetConfig(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
	}
	golden(t, "run.bench", []byte(drawn(t, Run(res), GoBench, Options{})))
}

// TestGoBenchLeavesOut what must not be judged, and says so.
func TestGoBenchLeavesOut(t *testing.T) {
	text := drawn(t, Run(violated()), GoBench, Options{})
	if all := benchmarks(t, text); len(all) != 1 || !strings.Contains(text, "# unsafe 5x5, trial 1, failed its audit\n") {
		t.Errorf("%d lines of\n%s", len(all), text)
	}
	res := complete()
	res.Rows = res.Rows[:1]
	res.Rows[0].Bought = 0
	text = drawn(t, Run(res), GoBench, Options{})
	if all := benchmarks(t, text); len(all) != 0 || !strings.Contains(text, "bought nothing") {
		t.Errorf("%d lines of\n%s", len(all), text)
	}
}

// TestGoBenchOfOpenLoop: rows of several rates are several benchmarks.
func TestGoBenchOfOpenLoop(t *testing.T) {
	res := complete()
	res.Rows = res.Rows[:2]
	for i, asked := range []float64{1000, 2500.5} {
		res.Rows[i].Strategy, res.Rows[i].Open = "fine", &result.Open{Asked: asked}
	}
	all := benchmarks(t, drawn(t, Run(res), GoBench, Options{}))
	if len(all) != 2 || all[0].Name.String() != "Market/strategy=fine/mix=5x5/rate=1000-8" ||
		all[1].Name.String() != "Market/strategy=fine/mix=5x5/rate=2500.5-8" {
		t.Errorf("%d lines: %s", len(all), all[0].Name)
	}
}

// TestGoBenchOfHostileFile: what a file says cannot become a line of its own.
func TestGoBenchOfHostileFile(t *testing.T) {
	res := complete()
	res.Manifest.CPU = "x\nBenchmarkForged 1 1 ns/op"
	res.Manifest.OS = ""
	res.Rows[0].Strategy = "fine\nBenchmarkForged/b=1 1 1 ns/op"
	for _, line := range benchmarks(t, drawn(t, Run(res), GoBench, Options{})) {
		if strings.HasPrefix(line.Name.String(), "Forged") {
			t.Errorf("a benchmark was forged: %s", line.Name)
		}
	}
}

// TestGoBenchOfSeveral runs is one text; of anything else there is none.
func TestGoBenchOfSeveral(t *testing.T) {
	both := Several([]string{"a", "b"}, []*Document{Run(complete()), Run(violated())})
	names := map[string]int{}
	for _, line := range benchmarks(t, drawn(t, both, GoBench, Options{})) {
		names[line.Name.String()]++
	}
	if len(names) != 5 {
		t.Errorf("the names are %v", slices.Sorted(maps.Keys(names)))
	}
	for _, d := range []*Document{
		Faults(&result.Faults{}), Several([]string{"a", "b"}, []*Document{Run(complete()), Faults(&result.Faults{})}), {},
	} {
		if err := d.Write(&strings.Builder{}, GoBench, Options{}); err == nil || slices.Contains(d.Formats(), GoBench) {
			t.Errorf("%v has lines of benchmarks: %v", d, err)
		}
	}
}
