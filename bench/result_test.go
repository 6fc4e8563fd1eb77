package bench

import (
	"bytes"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestHistograms: what is stored tells the same as the numbers beside it.
func TestHistograms(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		c.Mix, c.Purchases = mix5x5, 300
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []struct {
			name, stored string
			count        int64
			beside       Latency
		}{
			{"purchase", row.Histograms.Purchase, row.Bought, row.WaitMS},
			{"list", row.Histograms.List, row.Listed, row.ListMS},
		} {
			decoded, err := hdrhistogram.Decode([]byte(h.stored))
			if err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			if decoded.TotalCount() != h.count || h.count == 0 {
				t.Errorf("%s: %d recorded, want %d", h.name, decoded.TotalCount(), h.count)
			}
			if got := latency(decoded); got != h.beside {
				t.Errorf("%s: stored %+v, beside it %+v", h.name, got, h.beside)
			}
		}
		if w := row.WaitMS; w.P50 <= 0 || w.P50 > w.P90 || w.P90 > w.P99 || w.P99 > w.P999 || w.P999 > w.Max || w.Mean > w.Max {
			t.Errorf("waits out of order: %+v", w)
		}
	})
}

// TestRoundTrip: a row as it was measured, and one with everything in it, are read as they were written.
func TestRoundTrip(t *testing.T) {
	s := backendtest.Embedded(t)
	measured, err := Run(t.Context(), config(t, s, spec(t, "watch")))
	if err != nil {
		t.Fatal(err)
	}
	holds := true
	full := Row{
		Strategy: "fine:poll=2ms", Sellers: 5, Buyers: 1, Trial: 3, Status: Incomplete, Seconds: 9.75, Listed: math.MaxInt64,
		Refused: map[string]int64{"not_listed": 1}, PerBuyer: []int64{1, 0}, Warnings: []string{"<&> \"quoted\""},
		Audit: Audit{Done: true, Problems: []string{"item 1 is nowhere"}}, WaitMS: Latency{Mean: 0.1, P999: 1e-9},
	}
	want := &Result{
		Schema: Schema, Status: Interrupted, Rows: []Row{measured, full}, Claims: []Claim{{ID: 1, Holds: &holds}, {ID: 2}},
		Manifest: Manifest{Backend: "local", ServerConfig: map[string]string{"save": ""}, Seed: math.MaxUint64, Started: time.Unix(1, 2).UTC()},
	}
	var file bytes.Buffer
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResult(&file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

func TestReadResultRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "EOF",
		"{":                                    "unexpected EOF",
		"[]":                                   "cannot unmarshal",
		"{}":                                   "schema 0",
		`{"schema":2,"status":"complete"}`:     "reads schema 1",
		`{"schema":1}`:                         `unknown status ""`,
		`{"schema":1,"status":"done"}`:         `unknown status "done"`,
		`{"schema":1,"status":"complete"}{}`:   "after the end",
		`{"schema":1,"status":"complete"} oh`:  "after the end",
		`{"schema":1,"rows":[{"bought":"1"}]}`: "cannot unmarshal",
	} {
		if _, err := ReadResult(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := ReadResult(strings.NewReader(`{"schema":1,"status":"complete","added_later":1}` + "\n")); err != nil {
		t.Errorf("a field of a later marketsim is refused: %v", err)
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errLost }

func TestWriteFails(t *testing.T) {
	if err := (&Result{}).Write(failingWriter{}); err == nil {
		t.Error("no error from a full disk")
	}
	if err := (&Result{Rows: []Row{{Seconds: math.NaN()}}}).Write(new(bytes.Buffer)); err == nil {
		t.Error("no error from a number that JSON cannot hold")
	}
}

func TestDescribe(t *testing.T) {
	var m Manifest
	m.Describe()
	if m.Go != runtime.Version() || m.OS != runtime.GOOS+"/"+runtime.GOARCH || m.CPUs < 1 {
		t.Errorf("%+v", m)
	}
	if runtime.GOOS == "linux" && m.Kernel == "" {
		t.Error("Linux without a kernel")
	}
}
