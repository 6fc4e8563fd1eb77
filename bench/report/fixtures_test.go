package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
)

// measuredRow is a row of a plausible run: fixed numbers, so that goldens do not move.
func measuredRow(strategy string, sellers, buyers int, listed, bought, retries int64, wait float64) result.Row {
	return result.Row{
		Strategy: strategy, Sellers: sellers, Buyers: buyers, Trial: 1, Status: result.Complete, Seconds: 5,
		Listed: listed, Bought: bought, Retries: retries, ListRetries: retries / 10, Gone: bought / 50, Polls: retries * 2,
		Refused:            map[string]int64{"not_listed": bought / 50},
		PurchasesPerSecond: float64(bought) / 5,
		WaitMS: result.Latency{Mean: wait, P50: wait * 0.8, P90: wait * 2, P99: wait * 4, P999: wait * 9,
			Max: wait * 20},
		ListMS:     result.Latency{Mean: 0.21, P50: 0.2, P90: 0.3, P99: 0.6, P999: 1.1, Max: 4.2},
		GivenUpMS:  result.Latency{Mean: wait / 2, P50: wait / 2, P90: wait, P99: wait, P999: wait, Max: wait},
		LockWaitMS: result.Latency{}, RoundTripsPerPurchase: 4 + float64(retries)/float64(max(bought, 1)),
		CommandsPerPurchase: 9.5, PerBuyer: perBuyer(bought, buyers),
		Audit:      result.Audit{Done: true, OK: true, Items: listed, Funds: 1_000_000},
		Histograms: result.Histograms{Purchase: "HISTFAAAA", List: "HISTFAAAB"},
	}
}

// withTries is a row whose purchases were tried so often, which the others did not record.
func withTries(r result.Row, tries result.Tries) result.Row {
	r.Tries = &tries
	return r
}

// withTraffic is a row whose lock has servers of its own and renews itself.
func withTraffic(r result.Row) result.Row {
	buyers, sellers, failed, bytes, silence := r.Polls-r.Polls/3, r.Polls/3, int64(2), 912.4, 3042.5
	r.BuyerPolls, r.SellerPolls, r.FailedReleases, r.BytesPerPurchase = &buyers, &sellers, &failed, &bytes
	r.LockServersPerPurchase = &result.Traffic{RoundTrips: 12.25, Commands: 12.25, Bytes: 1930}
	r.BackgroundPerSecond = &result.Traffic{RoundTrips: 3, Commands: 3.5, Bytes: 410}
	r.LongestSilenceMS = &silence
	return r
}

// perBuyer shares purchases out unevenly.
func perBuyer(bought int64, buyers int) []int64 {
	each := make([]int64, buyers)
	for i := range each {
		each[i] = bought/int64(buyers) + int64(i)
	}
	return each
}

// complete is a run of four strategies, not a reproduction.
func complete() *result.Run {
	return &result.Run{
		Schema: result.Schema, Status: result.Complete,
		Manifest: result.Manifest{
			Version: "v0.1.0", Go: "go1.26.8", OS: "linux/amd64", CPU: "AMD EPYC 7B13", CPUs: 8, Kernel: "6.1.0",
			Backend: "local", Server: "redis", ServerVersion: "7.2.4", Command: "marketsim run", Seed: 42,
			ServerConfig: map[string]string{"save": "", "appendonly": "no"},
			Started:      time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC),
			Config: result.Config{
				Strategies: []string{"watch", "coarse", "fine", "fine-wallet:set-px+watchdog:ttl=500ms"},
				Mixes:      []string{"5x5"}, DurationSeconds: 5, WarmupSeconds: 0.5, Prefix: "marketsim:{golden}:",
			},
		},
		Rows: []result.Row{
			withTries(measuredRow("watch", 5, 5, 61234, 1203, 48211, 20.4), result.Tries{Mean: 40.9, P50: 28, P99: 187, Max: 312}),
			measuredRow("coarse", 5, 5, 12345, 12001, 0, 2.31),
			measuredRow("fine", 5, 5, 40211, 39876, 0, 0.44),
			withTraffic(measuredRow("fine-wallet:set-px+watchdog:ttl=500ms", 5, 5, 38111, 37002, 12, 0.61)),
		},
	}
}

// reproduced is a run of the book's three tables, in which claim 4 does not hold.
func reproduced() *result.Run {
	res := complete()
	res.Manifest.Config.Reproduces = []string{"6-1", "6-2", "6-3"}
	res.Rows = []result.Row{
		measuredRow("watch", 1, 1, 30211, 9876, 4032, 0.61),
		measuredRow("watch", 5, 1, 71234, 201, 12987, 24.6),
		measuredRow("watch", 5, 5, 61234, 1203, 48211, 20.4),
		measuredRow("coarse", 1, 1, 12511, 12345, 0, 0.4),
		measuredRow("coarse", 5, 1, 19871, 2411, 0, 2.04),
		measuredRow("coarse", 5, 5, 12345, 12001, 0, 2.31),
		measuredRow("fine", 1, 1, 21987, 21455, 0, 0.23),
		measuredRow("fine", 5, 1, 69872, 13410, 0, 0.37),
		measuredRow("fine", 5, 5, 40211, 39876, 3, 0.44),
	}
	res.Claims = bench.Judge(res)
	return res
}

// inRounds is a reproduction of nine rounds, of which so many were measured. Each is a little faster than the one before,
// and the rows of odd ones come in the opposite order.
func inRounds(measured int) *result.Run {
	res := reproduced()
	res.Manifest.Config.Strategies, res.Manifest.Config.Mixes = []string{"watch", "coarse", "fine"}, []string{"1x1", "5x1", "5x5"}
	res.Manifest.Config.Trials = 9
	rows := res.Rows
	res.Rows = nil
	for round := 1; round <= measured; round++ {
		for _, r := range rows {
			r.Trial = round
			r.Bought += r.Bought * int64(round) / 100
			r.PurchasesPerSecond = float64(r.Bought) / r.Seconds
			r.WaitMS.Mean *= 1 - float64(round)/100
			if round > 6 && r.Strategy == "watch" {
				r.Warnings = []string{fmt.Sprintf("the market's server answered nobody for 1.%d s", round)}
			}
			res.Rows = append(res.Rows, r)
		}
		slices.Reverse(rows)
	}
	if measured < 9 {
		res.Status = result.Interrupted
		res.Rows[len(res.Rows)-1].Status = result.Interrupted
	}
	res.Claims = bench.Judge(res)
	return res
}

// partial is a reproduction that broke off in its fifth row.
func partial() *result.Run {
	res := reproduced()
	res.Status = result.Incomplete
	res.Manifest.Config.Reproduces = []string{"6-2"}
	res.Rows = res.Rows[:5]
	broken := &res.Rows[4]
	broken.Status, broken.Seconds, broken.Audit = result.Incomplete, 1.37, result.Audit{}
	broken.Listed, broken.Bought, broken.PurchasesPerSecond = 5120, 0, 0
	broken.WaitMS, broken.PerBuyer = result.Latency{}, nil
	broken.Warnings = []string{"the server closed the connection: EOF"}
	res.Claims = bench.Judge(res)
	return res
}

// violated is a run whose audits found money and items wrong, over two trials.
func violated() *result.Run {
	res := complete()
	res.Manifest.Config.Wallets = 2
	res.Rows = []result.Row{measuredRow("unsafe", 5, 5, 51211, 48765, 0, 0.31),
		measuredRow("unsafe", 5, 5, 50876, 47999, 0, 0.3)}
	bad := &res.Rows[0]
	bad.Audit = result.Audit{Done: true, Items: 51208, Funds: 998_761, ItemProblems: 3, MoneyProblems: 2, Applied: 2,
		NotApplied: 1,
		Problems:   []string{"item 17 is in 2 places", "user 3 has 120 coins, the ledger says 180"}}
	bad.Unknown, bad.LeasesLost = 3, 1
	bad.Refused = map[string]int64{"not_listed": 12, "contended": 2, "price_changed": 1204, "insufficient_funds": 7}
	bad.Warnings = []string{"every buyer was broke after 3.2 s"}
	res.Rows[1].Warnings = bad.Warnings
	res.Rows[1].Trial = 2
	return res
}

// embedded is a reproduction on miniredis, whose claims are not judged.
func embedded() *result.Run {
	res := reproduced()
	res.Manifest.Backend, res.Manifest.Server, res.Manifest.ServerVersion = "embedded", "miniredis", "2.35.0"
	res.Manifest.Config.Reproduces = []string{"6-1"}
	res.Rows = res.Rows[:3]
	res.Claims = bench.Judge(res)
	return res
}
