package compare

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// onServers is a run of two strategies on two servers, each first strategy twice. The second
// server makes twice the purchases of the first, and b three times those of a.
func onServers(trials int) *runs.Run {
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	c := &run.Manifest.Config
	c.Trials, c.Margin = trials, new(0.05)
	for _, server := range []string{"redis", "valkey"} {
		for _, strategy := range []string{"a", "b", "a#2"} {
			p := result.Point{Strategy: strategy, Server: server, Mix: result.Mix{Sellers: 1, Buyers: 1}}
			c.Points = append(c.Points, p)
		}
	}

	for trial := 1; trial <= trials; trial++ {
		for _, p := range c.Points {
			bought := int64(1000 + trial)
			if p.Server == "valkey" {
				bought *= 2
			}
			if p.Strategy == "b" {
				bought *= 3
			}
			run.Rows = append(run.Rows, result.Row{
				Point: p, Trial: trial, Status: stored.Complete, Seconds: 1, Bought: bought,
				Audit: result.AuditSummary{Done: true, OK: true},
			})
		}
	}
	return run
}

// TestServersAreCompared: each strategy with the first of its server and with itself on the
// first server, in as many intervals as hold at once.
func TestServersAreCompared(t *testing.T) {
	run := onServers(9)
	var found []string
	for _, c := range Of(run) {
		found = append(found, c.A+" "+string(c.Verdict)+" "+c.B)
	}

	want := []string{
		"b on redis faster a on redis", "a on redis#2 no difference a on redis",
		"b on valkey faster a on valkey", "a on valkey#2 no difference a on valkey",
		"a on valkey faster a on redis", "b on valkey faster b on redis",
	}
	if !slices.Equal(found, want) {
		t.Errorf("verdicts\n%q, want\n%q", found, want)
	}

	if n := Intervals(run.Manifest.Config); n != 6 || Fewest(n) != 8 {
		t.Errorf("%d intervals take %d rounds", n, Fewest(n))
	}
}

// TestServerUnlikeItself: if a strategy differs from itself on one server nothing is decided.
func TestServerUnlikeItself(t *testing.T) {
	run := onServers(9)
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Strategy == "a#2" && r.Server == "valkey" {
			r.Bought /= 2
		}
	}
	for _, c := range Of(run) {
		if c.Verdict != Undecided || c.Reason != "a on valkey was slower than itself at 1x1" {
			t.Errorf("%s %s %s, because %q", c.A, c.Verdict, c.B, c.Reason)
		}
	}
}

// TestThresholdsOfServers: each server's strategies are held to the first of all.
func TestThresholdsOfServers(t *testing.T) {
	run := onServers(9)
	threshold, err := runs.ParseThreshold("purchases/s>=2.5*first")
	if err != nil {
		t.Fatal(err)
	}
	run.Manifest.Config.Thresholds = []runs.Threshold{threshold}

	var found []string
	for _, c := range CheckThresholds(run) {
		found = append(found, c.Strategy+" "+string(c.Standing))
	}
	if want := []string{"b on redis met", "a on valkey broken", "b on valkey met"}; !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}
