package compare

import (
	"fmt"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// overMarkets is a run of 1, 2 and 3 markets, whose purchases grow with their number, on as
// many masters. All share this many cores with the clients, or are at hosts of their own if
// that is 0.
func overMarkets(trials, cores int) *runs.Run {
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	c := &run.Manifest.Config
	c.Trials, c.Margin = trials, new(0.05)

	// 0 is one market: a load of one has no other form.
	for _, markets := range []int{0, 2, 3} {
		p := result.Point{Strategy: "lua", Mix: result.Mix{Sellers: 6, Buyers: 6}, Load: result.Load{Markets: markets}}
		c.Points = append(c.Points, p)

		for trial := 1; trial <= trials; trial++ {
			row := result.Row{
				Point: p, Trial: trial, Status: stored.Complete, Seconds: 1, Cores: max(2, cores),
				Bought: int64(max(1, markets) * (1000 + trial)),
				Audit:  result.AuditSummary{Done: true, OK: true},
			}

			for i := range markets {
				master := result.Master{Address: fmt.Sprintf("127.0.0.1:%d", 7000+i), Markets: 1, Here: true}
				if cores == 0 {
					master.Address, master.Here = fmt.Sprintf("10.0.0.%d:6379", i), false
				}
				row.Masters = append(row.Masters, master)
			}

			run.Rows = append(run.Rows, row)
		}
	}
	return run
}

// TestScalings: what more masters add is said where each has a core of its own, and the
// clients have one, too.
func TestScalings(t *testing.T) {
	for name, c := range map[string]struct {
		run   *runs.Run
		spoil func(last *result.Row)
		want  []string // of 2 and of 3 masters
	}{
		"cores for all": {run: overMarkets(9, 4), want: []string{"faster 2.00", "faster 3.00"}},
		"hosts for all": {run: overMarkets(9, 0), want: []string{"faster 2.00", "faster 3.00"}},
		"three cores": {
			run:  overMarkets(9, 3),
			want: []string{"faster 2.00", "not decided: 3 masters and the clients share 3 cores"},
		},
		"two cores": {
			run: overMarkets(9, 2),
			want: []string{
				"not decided: 2 masters and the clients share 2 cores",
				"not decided: 3 masters and the clients share 2 cores",
			},
		},
		"too few rounds": {
			run: overMarkets(6, 4),
			want: []string{
				"not decided: 6 rounds give no interval at 97.5%",
				"not decided: 6 rounds give no interval at 97.5%",
			},
		},
		"one host for some": {
			run:   overMarkets(9, 0),
			spoil: func(last *result.Row) { last.Masters[1].Address = "10.0.0.0:1" },
			want: []string{
				"faster 2.00",
				"not decided: 2 masters are at 10.0.0.0, and whether each has a core of its own is not known",
			},
		},
		"busy clients": {
			run:   overMarkets(9, 4),
			spoil: func(last *result.Row) { last.Warn(result.ClientLimit, 0.95, "") },
			want:  []string{"faster 2.00", "not decided: the clients were the limit of lua 6x6 markets=3"},
		},
		"an audit failed": {
			run:   overMarkets(9, 4),
			spoil: func(last *result.Row) { last.Audit.OK = false },
			want:  []string{"faster 2.00", "not decided: lua failed its audit in round 9"},
		},
	} {
		if c.spoil != nil {
			c.spoil(&c.run.Rows[len(c.run.Rows)-1])
		}

		var said []string
		for i, s := range Scalings(c.run) {
			if s.Masters != i+2 || s.A != fmt.Sprintf("lua 6x6 markets=%d", i+2) || s.B != "lua 6x6" {
				t.Errorf("%s: %d masters of %s over %s", name, s.Masters, s.A, s.B)
			}

			text := fmt.Sprintf("%s %.2f", s.Verdict, s.Ratio)
			if s.Reason != "" {
				text = string(s.Verdict) + ": " + s.Reason
			}
			said = append(said, text)
		}

		if !slices.Equal(said, c.want) {
			t.Errorf("%s: %q, want %q", name, said, c.want)
		}
	}
}

// TestScalingOfUnmeasuredRows: rows that were not measured do not say on how many masters they
// lie. They are compared with nothing, and nothing with them.
func TestScalingOfUnmeasuredRows(t *testing.T) {
	run := overMarkets(9, 4)
	for i := range run.Rows {
		if run.Rows[i].Markets < 2 {
			run.Rows[i].Seconds = 0
		}
	}
	if all := Scalings(run); len(all) > 0 {
		t.Errorf("beside rows that were not measured: %+v", all)
	}
}

// TestNoScaling: orders at a rate are as many on any number of masters, and markets on one
// server are on one master.
func TestNoScaling(t *testing.T) {
	atRate, oneServer := overMarkets(9, 4), overMarkets(9, 4)
	for i := range atRate.Rows {
		atRate.Rows[i].Rate = 100
		oneServer.Rows[i].Masters = nil
	}
	for name, run := range map[string]*runs.Run{"at a rate": atRate, "on one server": oneServer, "nothing": {}} {
		if all := Scalings(run); len(all) > 0 {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
