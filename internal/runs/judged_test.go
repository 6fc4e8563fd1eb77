package runs_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestParseMetrics: short names and those of the CSV are the same metric, and none is two.
func TestParseMetrics(t *testing.T) {
	shorts := map[string]bool{}
	for _, m := range runs.JudgedMetrics() {
		short, err := runs.ParseMetric(m.Short)
		inCSV, errCSV := runs.ParseMetric(m.Name)
		if err != nil || errCSV != nil || short.Name != m.Name ||
			inCSV.Name != m.Name || shorts[m.Short] {
			t.Errorf("%s (%s): %v, %v", m.Short, m.Name, err, errCSV)
		}
		shorts[m.Short] = true
	}

	for want, names := range map[string][]string{
		"":                    {"purchases/s", "p99", "avg-wait", "retries/purchase", "server-us"},
		"p99 is there twice":  {"p99", "wait_ms_p99"},
		`unknown metric "p9"`: {"p99", "p9"},
		"known: purchases/s, avg-wait, p50, p90, p99, p99.9,": {"speed"},
		`did you mean "server-us"?`:                           {"serverus"},
	} {
		all, err := runs.ParseMetrics(names)
		switch {
		case want == "" && (err != nil || len(all) != len(names)):
			t.Errorf("%q: %v, %v", names, all, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", names, err, want)
		}
	}
	if all, err := runs.ParseMetrics(nil); err != nil || len(all) != 1 ||
		all[0].Name != runs.PurchasesPerSecond {
		t.Errorf("nothing asked for: %v, %v", all, err)
	}
	better := func(m runs.JudgedMetric) bool { return m.HigherBetter }
	if all := runs.JudgedMetrics(); !slices.ContainsFunc(all, better) || better(all[4]) {
		t.Errorf("%+v", all)
	}
}

// TestOlderSchemas: a run that an older version stored is read as if it were stored now.
func TestOlderSchemas(t *testing.T) {
	for _, file := range []string{"schema2.json", "schema3.json", "schema4.json", "schema5.json"} {
		t.Run(file, func(t *testing.T) { readsOlder(t, "testdata/"+file) })
	}

	three := testkit.Must(runs.Read(bytes.NewReader(
		testkit.Must(os.ReadFile("testdata/schema3.json"))(t))))(t)
	if p := three.Rows[0].Point; p.Arrivals != result.ConstantArrivals || p.Server != "" ||
		p.Subject() != p.Strategy {
		t.Errorf("a row of schema 3 is of %+v", p)
	}
	if met := three.Manifest.Config.Thresholds; len(met) != 1 || met[0].String() != "p99<=5ms" {
		t.Errorf("its thresholds are %v", met)
	}

	four := testkit.Must(runs.Read(bytes.NewReader(
		testkit.Must(os.ReadFile("testdata/schema4.json"))(t))))(t)
	if r := four.Rows[0]; r.Server != "one" || len(r.Course) != 20 ||
		r.CourseP50MS != nil || !r.Began.IsZero() {
		t.Errorf("a row of schema 4 is %+v", r)
	}

	five := testkit.Must(runs.Read(bytes.NewReader(
		testkit.Must(os.ReadFile("testdata/schema5.json"))(t))))(t)
	if r := five.Rows[0]; len(r.CourseP50MS) != 20 || r.Began.IsZero() ||
		r.Markets != 0 || r.Masters != nil {
		t.Errorf("a row of schema 5 is %+v", r)
	}
}

func readsOlder(t *testing.T, path string) {
	run := testkit.Must(runs.Read(bytes.NewReader(testkit.Must(os.ReadFile(path))(t))))(t)
	config := run.Manifest.Config
	if run.Schema != runs.Schema || len(run.Rows) != 2 ||
		run.Rows[0].Name() != config.Points[0].Name() &&
			run.Rows[0].Name() != config.Points[1].Name() {
		t.Errorf("read as schema %d with %d rows of %v", run.Schema, len(run.Rows), config.Points)
	}
	if judged := config.Judged(); len(judged) != 1 || judged[0].Name != runs.PurchasesPerSecond {
		t.Errorf("it compares %v", judged)
	}

	var stored bytes.Buffer
	testkit.Succeeds(t, run.Write(&stored))
	if again, err := runs.Read(&stored); err != nil || again.Rows[0].Name() != run.Rows[0].Name() {
		t.Errorf("stored again it is not read: %v", err)
	}
}
