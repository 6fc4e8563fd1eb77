package view_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/verify"
)

// row is the result of a strategy with this many purchases/s, with everything that a
// row of a closed loop records.
func row(p result.Point, trial int, perSecond float64) result.Row {
	bought := int64(10 * perSecond)
	mean := 1000 * float64(p.Mix.Buyers) / perSecond
	// Seconds of CPU time: half a core, and 1.2 cores, for 10 s.
	server, client := 0.5*10, 1.2*10

	return result.Row{
		Point:         p,
		Trial:         trial,
		Status:        stored.Complete,
		Seconds:       10,
		Listed:        bought + 400,
		Bought:        bought,
		PerBuyer:      []int64{bought / 2, bought - bought/2},
		Course:        []int64{bought / 2, bought - bought/2},
		CourseSeconds: 5,
		WaitMS:        result.Latency{Mean: mean, P50: 4.4, P90: 9.2, P99: 11, P999: 12, Max: 31, Count: bought},
		ListMS:        result.Latency{Mean: 0.8, Count: bought},
		GivenUpMS:     result.Latency{Mean: 2.5, Count: 30},
		Retries:       bought / 4,
		Refused:       map[string]int64{"not_listed": 25, "contended": 5},
		Market:        &result.Traffic{RoundTrips: 4 * bought, Commands: 9 * bought, Bytes: 700 * bought},
		ServerCPU:     &server,
		ClientCPU:     &client,
		Cores:         2,
		BusyBuyers:    4.9,
		PresentBuyer:  5,
		Audit:         result.AuditSummary{Done: true, OK: true, Items: 2 * bought, Funds: 5_000_000},
		Histogram:     histogram(bought),
	}
}

// histograms are those that were encoded, by how many waits are in them.
var histograms sync.Map

// histogram is that of n waits, encoded.
func histogram(n int64) string {
	if encoded, found := histograms.Load(n); found {
		return encoded.(string)
	}

	waits := hdrhistogram.New(1, 60_000_000, 2)
	for i := range n {
		if err := waits.RecordValue(1000 + 10*(i%1000)); err != nil {
			panic(err)
		}
	}

	encoded, err := waits.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic(err)
	}
	histograms.Store(n, string(encoded))
	return string(encoded)
}

// run is a run of n rounds of points, of which value says the purchases/s of each.
func run(trials int, points []result.Point, perSecond func(point, trial int) float64) *runs.Run {
	r := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	r.Manifest = runs.Manifest{
		Version:       "v0.1.0",
		Go:            "go1.26.0",
		OS:            "linux/amd64",
		CPU:           "A CPU",
		CPUs:          2,
		Kernel:        "6.1",
		Backend:       "local",
		Server:        "redis",
		ServerVersion: "7.0.15",
		Command:       "marketsim run",
		Seed:          1,
		Started:       time.Date(2026, 11, 22, 15, 4, 0, 0, time.UTC),
		Config:        runs.Config{Points: points, Trials: trials, DurationSeconds: 10, WarmupSeconds: 1},
	}

	for trial := 1; trial <= trials; trial++ {
		for i, p := range points {
			r.Rows = append(r.Rows, row(p, trial, perSecond(i, trial)))
		}
	}
	return r
}

// points are each strategy at each place.
func points(strategies []string, places ...result.Point) (all []result.Point) {
	for _, p := range places {
		for _, s := range strategies {
			p.Strategy = s
			all = append(all, p)
		}
	}
	return all
}

func at(sellers, buyers int) result.Point {
	return result.Point{Mix: result.Mix{Sellers: sellers, Buyers: buyers}}
}

// reproduced is a run of the book's tables without its last row, with nearly
// everything that may be wrong with one.
func reproduced() *runs.Run {
	all := points([]string{"watch", "coarse", "fine"}, at(1, 1), at(5, 1), at(5, 5))
	for i := range all {
		all[i].Empty = true
	}

	r := run(1, all[:8], func(point, _ int) float64 { return 300 * float64(1+point%3) })
	r.Manifest.Config.Points = all
	r.Manifest.Config.Reproduces = []string{"6-1", "6-2", "6-3"}
	r.Status = stored.Interrupted

	// Rows 0, 3 and 6 are of watch at 1x1, 5x1 and 5x5; row 7 is of coarse, and the last.
	r.Rows[0].Warn(result.Unsteady, 0.5, "")
	r.Rows[3].Warn(result.Unsteady, 0.71, "")
	r.Rows[6].Warn(result.KeysStay, 0, "read-only replica")
	r.Rows[6].Audit = result.AuditSummary{
		Done:         true,
		ItemProblems: 1,
		Problems:     []string{"item 7 has two owners"},
		Applied:      2,
		NotApplied:   1,
	}
	r.Rows[6].Unknown = 3

	r.Rows[7].Status = stored.Interrupted
	r.Rows[7].Seconds = 2.25
	r.Rows[7].Audit.Done = false

	low, high := 2.1, 3.4
	r.Claims = []runs.Claim{
		{
			ID:        1,
			Text:      "the lock makes more purchases than WATCH at 5 listers and 5 buyers",
			Published: "34 times",
			Measured:  "2.7 times",
			Tolerance: "more than 1.5 times",
			Verdict:   runs.Holds,
			Low:       &low,
			High:      &high,
		},
		{
			ID:        2,
			Text:      "fine waits less than coarse",
			Published: "3 ms, 14 ms",
			Measured:  "1.2 ms, 1.1 ms",
			Tolerance: "less",
			Verdict:   runs.DoesNot,
		},
		{
			ID:        7,
			Text:      "WATCH is overtaken",
			Published: "yes",
			Measured:  "too few rounds",
			Tolerance: "the interval",
			Verdict:   runs.NotDecided,
		},
	}

	return r
}

// compared is a comparison of fine with lua, which is faster, and with itself,
// in nine rounds at two places.
func compared() *runs.Run {
	hot := result.Point{Mix: result.Mix{Buyers: 5}, Load: result.Load{Hot: 1}}
	all := points([]string{"fine", "lua", "fine#2"}, at(5, 5), hot)
	r := run(9, all, func(point, trial int) float64 {
		return []float64{300, 900, 300, 200, 700, 200}[point] + float64(trial%3)
	})
	r.Manifest.Config.Margin = new(float64)
	*r.Manifest.Config.Margin = 0.05
	r.Rows[1].Warn(result.ClientLimit, 0.91, "")
	r.Rows[7].Warn(result.ClientLimit, 0.97, "")
	return r
}

// comparedByMetrics is a comparison of fine with lua by four metrics, in ten rounds: by one
// it is better, by one worse, by one no different, and one has no ratio.
func comparedByMetrics() *runs.Run {
	r := run(10, points([]string{"fine", "lua", "fine#2"}, at(5, 5)), func(point, trial int) float64 {
		return []float64{300, 900, 300}[point] + float64(trial%3)
	})
	r.Manifest.Config.Margin = new(0.05)
	r.Manifest.Config.Metrics = []string{
		"purchases_per_second", "wait_ms_p99", "server_us", "retries_per_purchase",
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Strategy == "lua" {
			row.Retries = 0
			row.ServerCPU = new(*row.ServerCPU * 4)
		}
	}
	return r
}

// limited is a run of fine and lua with thresholds that are met, broken and not decided.
func limited() *runs.Run {
	r := run(9, points([]string{"fine", "lua"}, at(5, 5)), func(point, trial int) float64 {
		return []float64{300, 600}[point] + 10*float64(trial%3)
	})

	for _, text := range []string{
		"p99<=11ms", "avg-wait<=10ms", "purchases/s>=0.95*first", "purchases/s>=310", "late<=1%",
	} {
		threshold, err := runs.ParseThreshold(text)
		if err != nil {
			panic(err)
		}
		r.Manifest.Config.Thresholds = append(r.Manifest.Config.Thresholds, threshold)
	}
	return r
}

// swept is a sweep over clients and hold, where fine passes watch from 8 clients on.
func swept() *runs.Run {
	var places []result.Point
	for _, clients := range []int{2, 4, 8} {
		for _, hold := range []float64{0, 1} {
			p := at(clients, clients)
			p.HoldMS = hold
			places = append(places, p)
		}
	}

	r := run(12, points([]string{"watch", "fine"}, places...), func(point, trial int) float64 {
		return []float64{
			600, 300, 500, 250, 400, 400, 390, 390, 200, 500, 150, 450,
		}[point] + float64(trial)
	})

	r.Manifest.Config.Margin = new(float64)
	r.Manifest.Config.Axes = []runs.Axis{
		{Name: runs.AxisClients, Values: []float64{2, 4, 8}},
		{Name: runs.AxisHold, Values: []float64{0, 1}},
	}
	return r
}

// onMasters is a sweep over markets, of which two lie on masters with cores of their own, and
// three on masters that share one host.
func onMasters() *runs.Run {
	one, two, three := at(6, 6), at(6, 6), at(6, 6)
	two.Markets, three.Markets = 2, 3
	r := run(9, points([]string{"lua"}, one, two, three), func(point, trial int) float64 {
		return float64(1000*(point+1) + trial)
	})

	r.Manifest.Backend = "cluster"
	r.Manifest.Config.Margin = new(0.05)
	r.Manifest.Config.Axes = []runs.Axis{{Name: runs.AxisMarkets, Values: []float64{1, 2, 3}}}

	for i := range r.Rows {
		row := &r.Rows[i]
		for n := range int64(row.Markets) {
			host, share := 1+n, row.Bought/int64(row.Markets)
			if row.Markets == 3 {
				host = 1
			}
			row.Masters = append(row.Masters, result.Master{
				Address:  fmt.Sprintf("10.0.0.%d:%d", host, 7000+n),
				Markets:  1,
				Bought:   share,
				Commands: new(3 * share),
				CPU:      new(float64(share) * 80e-6),
			})
		}
	}

	r.Rows[1].Masters[0].CPU = nil // it did not tell in one round
	return r
}

// open is an open loop at two rates on an embedded server, the second of which
// it does not reach.
func open() *runs.Run {
	slow, fast := at(5, 5), at(5, 5)
	slow.Rate, fast.Rate = 200, 1000
	fast.Arrivals = result.ConstantArrivals
	r := run(1, points([]string{"fine"}, slow, fast), func(point, _ int) float64 {
		return []float64{200, 600}[point]
	})

	for i := range r.Rows {
		row := &r.Rows[i]
		row.ServiceMS = result.Latency{
			Mean: 3, P50: 2.9, P90: 4, P99: 7.1, P999: 9, Max: 10, Count: row.Bought,
		}
		due := int64(10 * row.Rate)
		row.Open = &result.OpenLoop{
			Due: due, Done: row.Bought, Backlog: due - row.Bought, Late: int64(30 * i),
		}
	}

	r.Rows[1].Open.LeftOver = 105
	r.Rows[1].Warn(result.LeftOver, 105, "")

	r.Manifest.Backend = "embedded"
	r.Manifest.Server = "miniredis"
	r.Manifest.Config.SLOMS = 50
	return r
}

// faults are findings of three schemes in three scenarios.
func faults() *findings.FaultTable {
	f := &findings.FaultTable{
		Schema:   findings.FaultSchema,
		Status:   stored.Complete,
		Subjects: []string{"watch", "setnx", "set-px"},
		Scenarios: []findings.ScenarioInfo{
			{Name: "crash-holding", Title: "A worker dies with the lock", Promise: "survives its holder"},
			{Name: "pause", Title: "A worker is paused for longer than its lease"},
			{Name: "failover", Title: "A replica is promoted"},
		},
		Manifest: findings.FaultManifest{
			Version:       "v0.1.0",
			Go:            "go1.26.0",
			OS:            "linux/amd64",
			Backend:       "local",
			Server:        "redis",
			ServerVersion: "7.0.15",
		},
	}

	add := func(scenario, subject string, harm verify.Harm, kept verify.KeptOut, why, broken string) {
		f.Findings = append(f.Findings, findings.Finding{
			Scenario: scenario,
			Subject:  subject,
			Harm:     harm,
			KeptOut:  kept,
			Verdict:  verify.VerdictOf(harm, kept),
			Why:      why,
			Broken:   broken,
		})
	}

	// Not with add: VerdictOf never says that a scenario does not apply.
	f.Findings = append(f.Findings, findings.Finding{Scenario: "crash-holding", Subject: "watch",
		Verdict: verify.NotApplicable, Why: "it takes no lock"})
	add("crash-holding", "setnx", verify.NoHarm, verify.NeverIn, "the lock has no expiry", "")
	add("crash-holding", "set-px", verify.NoHarm, verify.LeaseRanOut, "the lock expired", "")
	f.Findings[len(f.Findings)-1].Leases = 1

	add("pause", "watch", verify.NoHarm, verify.NoLease, "EXEC was aborted", "")
	add("pause", "setnx", verify.NoHarm, verify.HolderBack, "the holder came back and released", "")
	add("pause", "set-px", verify.SoldTwice, verify.LeaseRanOut,
		"the holder wrote after its lock had expired", "notices loss")
	f.Findings[len(f.Findings)-1].Leases = 1.5

	for i, s := range f.Subjects {
		add("failover", s, verify.PurchasesGone, verify.AtOnce,
			"purchases were acknowledged, and lost", "")
		last := &f.Findings[len(f.Findings)-1]
		last.Gone = i + 1
		last.SecondsWithoutService = 1.5 + float64(i)/10
	}
	return f
}

// hostile is a run whose texts come from somebody who means ill.
func hostile() *runs.Run {
	p := at(1, 1)
	p.Strategy = "<script>alert(1)</script>|\x1b[31m`x`"
	r := run(1, []result.Point{p}, func(int, int) float64 { return 30 })
	r.Manifest.CPU = "CPU\r\n\x1b]0;title\a"
	r.Rows[0].Audit.Problems = []string{fmt.Sprintf("%c<img src=x onerror=alert(1)>", 0x202e)}
	return r
}
