package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/marketsim/marketsim/bench"
)

// column is one column of the CSV.
type column struct {
	name  string
	value func(*bench.Result, bench.Row) string
}

// columns are the CSV's columns. New ones are added at the end, so that scripts that count columns keep working.
var columns = slices.Concat(
	[]column{
		{"run_status", func(res *bench.Result, _ bench.Row) string { return clean(string(res.Status)) }},
		{"backend", func(res *bench.Result, _ bench.Row) string { return clean(res.Manifest.Backend) }},
		{"server", func(res *bench.Result, _ bench.Row) string { return clean(res.Manifest.Server) }},
		{"server_version", func(res *bench.Result, _ bench.Row) string { return clean(res.Manifest.ServerVersion) }},
		{"seed", func(res *bench.Result, _ bench.Row) string { return strconv.FormatUint(res.Manifest.Seed, 10) }},
		{"strategy", func(_ *bench.Result, r bench.Row) string { return clean(r.Strategy) }},
		integer("sellers", func(r bench.Row) int64 { return int64(r.Sellers) }),
		integer("buyers", func(r bench.Row) int64 { return int64(r.Buyers) }),
		integer("trial", func(r bench.Row) int64 { return int64(r.Trial) }),
		{"status", func(_ *bench.Result, r bench.Row) string { return clean(string(r.Status)) }},
		decimal("seconds", func(r bench.Row) float64 { return r.Seconds }),
		integer("listed", func(r bench.Row) int64 { return r.Listed }),
		integer("bought", func(r bench.Row) int64 { return r.Bought }),
		integer("retries", func(r bench.Row) int64 { return r.Retries }),
		integer("list_retries", func(r bench.Row) int64 { return r.ListRetries }),
		integer("gone", func(r bench.Row) int64 { return r.Gone }),
		integer("contended", func(r bench.Row) int64 { return r.Contended }),
		integer("unknown", func(r bench.Row) int64 { return r.Unknown }),
		integer("refused", refused),
		integer("leases_lost", func(r bench.Row) int64 { return r.LeasesLost }),
		decimal("purchases_per_second", func(r bench.Row) float64 { return r.PurchasesPerSecond }),
	},
	latency("wait_ms", func(r bench.Row) bench.Latency { return r.WaitMS }),
	latency("list_ms", func(r bench.Row) bench.Latency { return r.ListMS }),
	latency("given_up_ms", func(r bench.Row) bench.Latency { return r.GivenUpMS }),
	latency("lock_wait_ms", func(r bench.Row) bench.Latency { return r.LockWaitMS }),
	[]column{
		integer("polls", func(r bench.Row) int64 { return r.Polls }),
		decimal("round_trips_per_purchase", func(r bench.Row) float64 { return r.RoundTripsPerPurchase }),
		decimal("commands_per_purchase", func(r bench.Row) float64 { return r.CommandsPerPurchase }),
		{"audit_done", func(_ *bench.Result, r bench.Row) string { return strconv.FormatBool(r.Audit.Done) }},
		{"audit_ok", func(_ *bench.Result, r bench.Row) string { return strconv.FormatBool(r.Audit.OK) }},
		integer("audit_items", func(r bench.Row) int64 { return r.Audit.Items }),
		integer("audit_funds", func(r bench.Row) int64 { return r.Audit.Funds }),
		integer("audit_item_problems", func(r bench.Row) int64 { return r.Audit.ItemProblems }),
		integer("audit_money_problems", func(r bench.Row) int64 { return r.Audit.MoneyProblems }),
		integer("audit_settled_applied", func(r bench.Row) int64 { return r.Audit.Applied }),
		integer("audit_settled_not_applied", func(r bench.Row) int64 { return r.Audit.NotApplied }),
		integer("browsers", func(r bench.Row) int64 { return int64(r.Browsers) }),
		integer("browsed", func(r bench.Row) int64 { return r.Browsed }),
		integer("torn_reads", func(r bench.Row) int64 { return r.TornReads }),
	},
	latency("browse_ms", func(r bench.Row) bench.Latency { return r.BrowseMS }),
)

// CSV writes one line a row, with every number of it in full and the unit in the column's name. The latencies are the
// mean, percentiles and maximum that the result holds.
func CSV(w io.Writer, res *bench.Result) error {
	out := csv.NewWriter(w)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.name
	}
	_ = out.Write(record) // Error reports it
	for _, r := range res.Rows {
		for i, c := range columns {
			record[i] = c.value(res, r)
		}
		_ = out.Write(record)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: csv: %w", err)
	}
	return nil
}

func integer(name string, get func(bench.Row) int64) column {
	return column{name, func(_ *bench.Result, r bench.Row) string { return strconv.FormatInt(get(r), 10) }}
}

func decimal(name string, get func(bench.Row) float64) column {
	return column{name, func(_ *bench.Result, r bench.Row) string { return strconv.FormatFloat(get(r), 'f', -1, 64) }}
}

// latency is the six columns of a distribution.
func latency(name string, get func(bench.Row) bench.Latency) []column {
	return []column{
		decimal(name+"_mean", func(r bench.Row) float64 { return get(r).Mean }),
		decimal(name+"_p50", func(r bench.Row) float64 { return get(r).P50 }),
		decimal(name+"_p90", func(r bench.Row) float64 { return get(r).P90 }),
		decimal(name+"_p99", func(r bench.Row) float64 { return get(r).P99 }),
		decimal(name+"_p999", func(r bench.Row) float64 { return get(r).P999 }),
		decimal(name+"_max", func(r bench.Row) float64 { return get(r).Max }),
	}
}

func refused(r bench.Row) int64 {
	var n int64
	for _, k := range r.Refused {
		n += k
	}
	return n
}
