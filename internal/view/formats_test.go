package view_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

// TestCSV: every row of every run is there with all metrics in full, and what a
// row does not have is empty.
func TestCSV(t *testing.T) {
	var b bytes.Buffer
	named := []view.NamedRun{{Name: "book", Run: reproduced()}, {Name: "open", Run: open()}}
	testkit.Succeeds(t, view.CSV(&b, named...))

	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) != 1+8+2 {
		t.Fatalf("%d records, %v", len(records), err)
	}

	line := func(i int) map[string]string {
		cells := map[string]string{}
		for c, name := range records[0] {
			cells[name] = records[1+i][c]
		}
		return cells
	}

	for i, want := range map[int]map[string]string{
		6: {
			"run":                  "book",
			"run_status":           "interrupted",
			"strategy":             "watch",
			"sellers":              "5",
			"buyers":               "5",
			"empty":                "true",
			"trial":                "1",
			"audit_ok":             "false",
			"audit_item_problems":  "1",
			"purchases_per_second": "300",
			"backlog":              "",
			"rate":                 "0",
		},
		9: {
			"run":            "open",
			"backend":        "embedded",
			"seed":           "1",
			"rate":           "1000",
			"backlog":        "4000",
			"service_ms_p99": "7.1",
			"arrivals":       "constant",
			"audit_ok":       "true",
		},
	} {
		for name, value := range want {
			if got, found := line(i)[name]; !found || got != value {
				t.Errorf("%s of line %d is %q, want %q", name, i+1, got, value)
			}
		}
	}

	// What came later stands behind the metrics, so that scripts may count on the columns.
	metrics := runs.Metrics()
	first := slices.Index(records[0], metrics[0].Name)
	later := []string{"arrivals", "on_server", "markets"}
	if rest := records[0][first+len(metrics):]; !slices.Equal(rest, later) {
		t.Errorf("behind the metrics stand %q", rest)
	}

	for i, m := range metrics {
		column := first + i
		text, want := records[1][column], m.Of(&named[0].Run.Rows[0])
		got, err := strconv.ParseFloat(text, 64)
		same := err == nil && got == want
		if math.IsNaN(want) {
			same = text == ""
		}
		if records[0][column] != m.Name || !same {
			t.Errorf("column %d is %s with %q; want %s with %v",
				column, records[0][column], text, m.Name, want)
		}
	}
}

// TestGobench: benchstat's own reader finds every row that may be judged, and what it took.
func TestGobench(t *testing.T) {
	run := reproduced()
	run.Rows = append(run.Rows, open().Rows...)
	hot := at(0, 5)
	hot.Strategy, hot.Hot, hot.HoldMS = "fine:set-px:ttl=500ms", 1, 0.5
	run.Rows = append(run.Rows, row(hot, 1, 100))
	run.Rows[0].Bought = 0

	var b bytes.Buffer
	testkit.Succeeds(t, view.Gobench(&b, run))

	for _, comment := range []string{
		"# watch 1x1, trial 1, bought nothing", "# watch 5x5, trial 1, failed its audit",
		"# coarse 5x5, trial 1, not complete",
	} {
		if !strings.Contains(b.String(), comment+"\n") {
			t.Errorf("%q is not in\n%s", comment, b.String())
		}
	}

	found := map[string]*benchfmt.Result{}
	units := 0
	for reader := benchfmt.NewReader(&b, "run"); reader.Scan(); {
		switch r := reader.Result().(type) {
		case *benchfmt.Result:
			found[string(r.Name)] = r.Clone()
		case *benchfmt.UnitMetadata:
			units++
		case *benchfmt.SyntaxError:
			t.Error(r)
		}
	}

	if len(found) != 5+2+1 || units != 1 {
		t.Errorf("%d rows and %d units: %v", len(found), units, found)
	}

	r := found["Purchase/strategy=coarse/mix=1x1-2"]
	if r == nil || found["Purchase/strategy=fine/mix=5x5/arrivals=constant/rate=1000-2"] == nil ||
		found["Purchase/strategy=fine:set-px:ttl=500ms/mix=0x5/hot=1/hold=0.5ms-2"] == nil {
		t.Fatalf("the rows are %v", found)
	}
	if r.GetConfig("server") != "redis 7.0.15" || r.GetConfig("goos") != "linux" || r.Iters != 6000 {
		t.Errorf("%+v", r)
	}

	// The reader turns ns into seconds: what is written as ns/op is found as sec/op.
	for unit, want := range map[string]float64{
		"sec/op":         10. / 6000,
		"purchases/s":    600,
		"p99-sec":        0.011,
		"round-trips/op": 4,
		"retries/op":     0.25,
	} {
		if got, ok := r.Value(unit); !ok || math.Abs(got-want) > want*1e-6 {
			t.Errorf("%s is %v, want %v", unit, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	rows := reproduced().Rows
	for i, want := range map[int]string{
		1: "coarse 1x1, trial 1: 600 purchases/s, avg wait 1.67 ms, p99 11 ms, audit ok",
		7: "coarse 5x5, trial 1: 2,667 purchases/s, avg wait 8.33 ms, p99 11 ms, not audited, interrupted by the user",
	} {
		if got := view.Line(rows[i]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
