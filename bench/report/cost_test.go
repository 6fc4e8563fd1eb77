package report

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/marketsim/marketsim/bench/result"
)

// costed is a run whose rows say what a purchase costs and where its time goes. In the first few purchases were made,
// and in the second the client was the limit.
func costed() *result.Run {
	res := complete()
	watch, fine := measuredRow("watch", 5, 1, 71234, 260, 6012, 24.6), measuredRow("fine", 5, 5, 40211, 39876, 0, 0.44)
	for i, r := range []*result.Row{&watch, &fine} {
		n, us, user, sys, client := r.Bought, 30.5, 20.25, 10.25, 61.4
		r.WaitMS.Count = &n
		r.Cost = &result.Cost{
			Market:   result.Bill{RoundTrips: 44.1, Commands: 120, BytesSent: 5120, BytesReceived: 811},
			Aborted:  &result.Bill{RoundTrips: 40.1, Commands: 110, BytesSent: 4700, BytesReceived: 700},
			ServerUS: &us, ServerUserUS: &user, ServerSysUS: &sys, ClientUS: &client,
			Commands: map[string]float64{"exec": 11.5, "hget": 1.25, "zscore": 1.25, "watch": 0.9, "multi": 0.3, "zrem": 2.5},
		}
		wait := r.WaitMS.Mean
		r.TimeMS = &result.Split{LockWait: wait * 0.25, LockHold: wait * 0.5, Thrown: wait * 0.125, Rest: wait * 0.125}
		r.Fairness = &result.Fairness{Jain: 0.972, Fewest: n / 6, Most: n / 5, LongestGapSeconds: 1.25}
		r.Client = &result.Client{CPU: 0.62, GC: 0.031, SchedulerP99MS: 0.131, Saturated: i == 1}
		r.Nodes = []result.Node{
			{Address: "127.0.0.1:7001", Markets: 2, Bought: n / 3, PurchasesPerSecond: float64(n/3) / 5, ServerUS: &us},
			{Address: "127.0.0.1:7002", Markets: 1, Bought: n - n/3, PurchasesPerSecond: float64(n-n/3) / 5, ServerUS: &user},
		}
		r.Little = &result.Little{BusyBuyers: 4.98, ThroughputTimesTime: 4.96}
	}
	res.Rows = []result.Row{watch, fine}
	return res
}

func TestGoldenCosts(t *testing.T) {
	text := drawn(t, Run(costed()), Text, Options{})
	golden(t, "costs.txt", []byte(text))
	golden(t, "costs.md", []byte(drawn(t, Run(costed()), Markdown, Options{})))
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > Width+len("\n") {
			t.Errorf("wider than %d columns: %q", Width, line)
		}
	}
}

func TestUncertain(t *testing.T) {
	for _, c := range []struct {
		n, perMille int64
		want        bool
	}{
		{19, 500, true}, {20, 500, false}, {999, 990, true}, {1000, 990, false}, {9999, 999, true}, {10_000, 999, false},
		{0, 990, false}, // nothing is drawn
	} {
		if got := uncertain(result.Latency{Count: &c.n}, c.perMille); got != c.want {
			t.Errorf("%d per mille of %d: %t, want %t", c.perMille, c.n, got, c.want)
		}
	}
	if uncertain(result.Latency{}, 990) {
		t.Error("an older run is marked, though nobody knows how many operations it had")
	}
}

// TestOlderRunsDraw: stored runs that lack what was added to a row later are drawn in every format, without it.
func TestOlderRunsDraw(t *testing.T) {
	files, err := filepath.Glob("../../results/*/run.json")
	if more, _ := filepath.Glob("../../results/*/*/run.json"); err == nil {
		files = append(files, more...)
	}
	older := 0
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		res, err := result.ReadRun(f)
		_ = f.Close() // it was only read
		if err != nil || res.Schema != 1 {
			t.Fatalf("%s: schema %d, %v", file, res.Schema, err)
		}
		d := Run(res)
		for _, format := range Formats() {
			text := drawn(t, d, format, Options{})
			if format == CSV {
				older += lacking(t, text, res)
			}
			timed := slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.TimeMS != nil })
			counted := slices.ContainsFunc(res.Rows, func(r result.Row) bool { return r.WaitMS.Count != nil })
			if format == Text && (!timed && strings.Contains(text, "\nTime\n") || !counted && strings.Contains(text, roughly)) {
				t.Errorf("%s is drawn with what it lacks:\n%s", file, text)
			}
		}
	}
	if older == 0 {
		t.Error("no stored run is older: nothing was tested")
	}
}

// lacking counts the rows of a CSV without a server's CPU time, and checks that it is "-" there.
func lacking(t *testing.T, text string, res *result.Run) (n int) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(all[0], "cost_server_us")
	for i, r := range res.Rows {
		if r.Cost == nil {
			n++
			if all[i+1][at] != none {
				t.Errorf("what row %d lacks is %q", i+1, all[i+1][at])
			}
		}
	}
	return n
}
