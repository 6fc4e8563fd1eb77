package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// A column is one number, name or verdict of a row. The CSV and the tables of a run are drawn from one list of them.
type column struct {
	name  string               // in the CSV; empty: not there
	in    tables               // the tables that show it
	head  heading              // its head there
	order int                  // where its tables show it: after those of a smaller order, then as listed here
	value func(row) any        // nil or a nil pointer: the run did not record it, and it is drawn as "-"
	shown func(row) any        // what the tables show, if that is not the value
	rare  bool                 // tables leave it out where no row has it
	draw  func(float64) string // how nested shows its number, if not as it is
	sure  bool                 // tables of several rounds say how sure its median is
}

// A row is a row of a run, with the run.
type row struct {
	result.Row
	run *result.Run
}

// tables is a set of the tables that a report has of all rows.
type tables int

const (
	rowsTable tables = 1 << iota
	detailsTable
	costTable
	timeTable
	loadTable
	openTable
	triesTable
	allTables = rowsTable | detailsTable | costTable | timeTable | loadTable | openTable | triesTable
)

// columns are all columns, in the order of the CSV. A new column with a name goes to the end, so that scripts that
// count columns keep working. A field that older runs lack is a pointer, so that it is not drawn as 0.
var columns = slices.Concat(
	[]column{
		{name: "run_status", value: func(r row) any { return string(r.run.Status) }},
		{name: "backend", value: func(r row) any { return r.run.Manifest.Backend }},
		{name: "server", value: func(r row) any { return r.run.Manifest.Server }},
		{name: "server_version", value: func(r row) any { return r.run.Manifest.ServerVersion }},
		{name: "seed", value: func(r row) any { return r.run.Manifest.Seed }},
		{name: "strategy", in: allTables, head: heading{text: "strategy", left: true}, order: -2,
			value: func(r row) any { return r.Strategy }},
		{in: allTables, head: heading{text: "mix", left: true}, order: -2, value: mix},
		{in: allTables, head: heading{text: "asked/s"}, order: -2, rare: true, value: askedFor},
		{name: "sellers", value: func(r row) any { return r.Sellers }},
		{name: "buyers", value: func(r row) any { return r.Buyers }},
		{name: trial, in: allTables, head: heading{text: trial}, order: -2, value: func(r row) any { return r.Trial }},
		{name: "status", value: func(r row) any { return string(r.Status) }},
		{name: "seconds", value: func(r row) any { return r.Seconds }},
		{name: "listed", in: rowsTable, head: heading{text: "listed", spare: 3}, value: func(r row) any { return r.Listed }},
		{name: "bought", in: rowsTable, head: heading{text: "bought"}, value: func(r row) any { return r.Bought }},
		{name: "retries", in: rowsTable, head: heading{text: "retries", spare: 4},
			value: func(r row) any { return r.Retries }},
		{in: rowsTable, head: heading{text: "retries/\npurchase", spare: 6}, value: retriesPerPurchase},
		{name: "list_retries", in: detailsTable, head: heading{text: "list\nretries", spare: 7},
			value: func(r row) any { return r.ListRetries }},
		{name: "gone", in: detailsTable, head: heading{text: "gone", spare: 3}, order: -1,
			value: func(r row) any { return r.Gone }},
		{name: "contended", in: detailsTable, head: heading{text: "contended", spare: 5}, order: -1,
			value: func(r row) any { return r.Contended }},
		{name: "unknown", value: func(r row) any { return r.Unknown }},
		{name: "refused", value: refused},
		{name: "leases_lost", value: func(r row) any { return r.LeasesLost }},
		{name: "purchases_per_second", in: rowsTable, head: heading{text: "purchases/s"}, order: 1, sure: true,
			value: func(r row) any { return r.PurchasesPerSecond }},
	},
	latency("wait_ms", func(r row) *result.Latency { return &r.WaitMS },
		column{name: "mean", in: rowsTable | timeTable, head: heading{text: "avg wait", spare: 2}, sure: true},
		column{name: "p50", in: rowsTable | openTable, head: heading{text: "p50", spare: 7}},
		column{name: "p99", in: rowsTable | openTable, head: heading{text: "p99", spare: 1}, sure: true},
		column{name: "p999", in: detailsTable, head: heading{text: "p99.9", spare: 2}},
		column{name: "max", in: detailsTable, head: heading{text: "longest\nwait", spare: 1}}),
	latency("list_ms", func(r row) *result.Latency { return &r.ListMS },
		column{name: "mean", in: detailsTable, head: heading{text: "list avg", spare: 4}}),
	latency("given_up_ms", func(r row) *result.Latency { return &r.GivenUpMS },
		column{name: "mean", in: detailsTable, head: heading{text: "given up\navg", spare: 6}}),
	latency("lock_wait_ms", func(r row) *result.Latency { return &r.LockWaitMS },
		column{name: "mean", in: detailsTable, head: heading{text: "lock wait\navg", spare: 2}}),
	[]column{
		{name: "polls", in: detailsTable, head: heading{text: "polls of\nbuyers +\nsellers", spare: 3},
			value: func(r row) any { return r.Polls }, shown: pollsApart},
		{name: "round_trips_per_purchase", in: costTable, head: heading{text: "round\ntrips"},
			value: func(r row) any { return ofPurchases(r, r.RoundTripsPerPurchase) }},
		{name: "commands_per_purchase", in: costTable, head: heading{text: "commands", spare: 2},
			value: func(r row) any { return ofPurchases(r, r.CommandsPerPurchase) }},
		{in: detailsTable, head: heading{text: "bought by\neach buyer", spare: 4},
			value: func(r row) any { return spread(r.PerBuyer) }},
		{in: rowsTable, head: heading{text: "audit", left: true}, order: 2, value: func(r row) any { return audit(r.Audit) }},
		{name: "audit_done", value: func(r row) any { return r.Audit.Done }},
		{name: "audit_ok", value: func(r row) any { return r.Audit.OK }},
		{name: "audit_items", value: func(r row) any { return r.Audit.Items }},
		{name: "audit_funds", value: func(r row) any { return r.Audit.Funds }},
		{name: "audit_item_problems", value: func(r row) any { return r.Audit.ItemProblems }},
		{name: "audit_money_problems", value: func(r row) any { return r.Audit.MoneyProblems }},
		{name: "audit_settled_applied", value: func(r row) any { return r.Audit.Applied }},
		{name: "audit_settled_not_applied", value: func(r row) any { return r.Audit.NotApplied }},
		{name: "browsers", value: func(r row) any { return r.Browsers }},
		{name: "browsed", value: func(r row) any { return r.Browsed }},
		{name: "torn_reads", value: func(r row) any { return r.TornReads }},
	},
	latency("browse_ms", func(r row) *result.Latency { return &r.BrowseMS }),
	[]column{
		{name: "buyer_polls", value: func(r row) any { return r.BuyerPolls }},
		{name: "seller_polls", value: func(r row) any { return r.SellerPolls }},
		{name: "failed_releases", in: detailsTable, head: heading{text: "failed\nreleases", spare: 5},
			value: func(r row) any { return r.FailedReleases }},
		{name: "longest_silence_ms", value: func(r row) any { return r.LongestSilenceMS }},
		{name: "bytes_per_purchase", in: costTable, head: heading{text: "bytes", spare: 5},
			value: func(r row) any { return r.BytesPerPurchase }},
	},
	carried("lock_servers", "per_purchase", func(r row) *result.Traffic { return r.LockServersPerPurchase },
		column{name: "round_trips", head: heading{text: "lock\nservers'\ntrips"}},
		column{name: "commands", head: heading{text: "lock\nservers'\ncommands", spare: 3}},
		column{name: "bytes", head: heading{text: "lock\nservers'\nbytes", spare: 6}}),
	carried("background", "per_second", func(r row) *result.Traffic { return r.BackgroundPerSecond },
		column{name: "round_trips"},
		column{name: "commands", head: heading{text: "background\ncommands/s", spare: 1}},
		column{name: "bytes", head: heading{text: "background\nbytes/s", spare: 4}}),
	[]column{{name: "commands_per_second", value: func(r row) any { return r.CommandsPerSecond }}},
	behind("wait_ms", func(r row) *int64 { return r.WaitMS.Count }),
	behind("list_ms", func(r row) *int64 { return r.ListMS.Count }),
	behind("given_up_ms", func(r row) *int64 { return r.GivenUpMS.Count }),
	behind("lock_wait_ms", func(r row) *int64 { return r.LockWaitMS.Count }),
	behind("browse_ms", func(r row) *int64 { return r.BrowseMS.Count }),
	nested("Series"),
	nested("Cost",
		column{name: "market_bytes_sent", in: costTable, head: heading{text: "bytes\nsent", spare: 7}},
		column{name: "market_bytes_received", in: costTable, head: heading{text: "bytes\nreceived", spare: 8}},
		column{name: "aborted_round_trips", in: costTable, head: heading{text: "trips\nin vain", spare: 4}},
		column{name: "server_us", in: costTable, head: heading{text: "server\nus"}},
		column{name: "client_us", in: costTable, head: heading{text: "client\nus", spare: 2}}),
	nested("TimeMS",
		column{name: "lock_wait", in: timeTable, head: heading{text: "lock wait"}, draw: milliseconds},
		column{name: "lock_hold", in: timeTable, head: heading{text: "lock held"}, draw: milliseconds},
		column{name: "thrown", in: timeTable, head: heading{text: "thrown\naway"}, draw: milliseconds},
		column{name: "rest", in: timeTable, head: heading{text: "rest", spare: 1}, draw: milliseconds}),
	nested("Fairness",
		column{name: "jain", in: loadTable, head: heading{text: "Jain's\nindex"}},
		column{name: "longest_gap_seconds", in: loadTable, head: heading{text: "longest\ngap", spare: 1}, draw: inSeconds}),
	nested("Client",
		column{name: "cpu", in: loadTable, head: heading{text: "client\nCPU"}, draw: wholePercent},
		column{name: "gc", in: loadTable, head: heading{text: "GC", spare: 3}, draw: wholePercent},
		column{name: "scheduler_p99_ms", in: loadTable, head: heading{text: "core wait\np99", spare: 2}, draw: milliseconds},
		column{name: "saturated", in: loadTable, head: heading{text: "client\nis limit", spare: 6}}),
	nested("Open",
		column{name: "offered_per_second", in: openTable, head: heading{text: "offered/s", spare: 6}, order: -1},
		column{name: "reached_per_second", in: openTable, head: heading{text: "reached/s"}, order: -1},
		column{name: "service_ms_p50", in: openTable, head: heading{text: "service\np50", spare: 5}, draw: milliseconds},
		column{name: "service_ms_p99", in: openTable, head: heading{text: "service\np99", spare: 4}, draw: milliseconds},
		column{name: "backlog", in: openTable, head: heading{text: "backlog"}},
		column{name: "given_up", in: openTable, head: heading{text: "given\nup", spare: 2}},
		column{name: "without_stock_seconds", in: openTable, head: heading{text: "no\nstock", spare: 3}, draw: inSeconds}),
	nested("Little",
		column{name: "busy_buyers", in: loadTable, head: heading{text: "busy\nbuyers", spare: 4}},
		column{name: "throughput_times_time", in: loadTable, head: heading{text: "rate x\ntime", spare: 5}}),
	nested("Tries",
		column{name: "mean", in: triesTable, head: heading{text: "mean"}}, column{name: "p50", in: triesTable, head: heading{text: "p50"}},
		column{name: "p99", in: triesTable, head: heading{text: "p99"}}, column{name: "max", in: triesTable, head: heading{text: "most"}}),
	[]column{
		{name: "hot", value: func(r row) any { return r.Hot }},
		{name: "stock", value: func(r row) any { return r.Stock }},
		{name: "hold_ms", value: func(r row) any { return r.HoldMS }},
		{name: "rtt_ms", value: func(r row) any { return r.RTTMS }},
		{name: "markets", value: func(r row) any { return max(1, r.Markets) }},
	},
)

// behind makes the column of how many operations stand behind a distribution.
func behind(name string, of func(row) *int64) []column {
	return []column{{name: name + "_count", value: func(r row) any { return of(r) }}}
}

// carried makes the columns of what connections carried. Those with a head are in the table of costs.
func carried(name, unit string, of func(row) *result.Traffic, parts ...column) []column {
	pick := map[string]func(*result.Traffic) float64{
		"round_trips": func(t *result.Traffic) float64 { return t.RoundTrips },
		"commands":    func(t *result.Traffic) float64 { return t.Commands },
		"bytes":       func(t *result.Traffic) float64 { return t.Bytes },
	}
	for i, c := range parts {
		if c.head.text != "" {
			parts[i].in = costTable
		}
		parts[i].rare = true
		parts[i].name = name + "_" + c.name + "_" + unit
		parts[i].value = func(r row) any {
			if t := of(r); t != nil {
				return pick[c.name](t)
			}
			return nil
		}
	}
	return parts
}

// trial is a column that tables show only where there are several trials.
const trial = "trial"

// latency makes the six columns of a distribution: mean, percentiles and maximum, in milliseconds. shown holds those
// that tables show: each with its name, such as "p99", and its head.
func latency(name string, of func(row) *result.Latency, shown ...column) []column {
	parts := []struct {
		name     string
		perMille int64 // of a percentile
		pick     func(*result.Latency) float64
	}{
		{"mean", 0, func(l *result.Latency) float64 { return l.Mean }},
		{"p50", 500, func(l *result.Latency) float64 { return l.P50 }},
		{"p90", 900, func(l *result.Latency) float64 { return l.P90 }},
		{"p99", 990, func(l *result.Latency) float64 { return l.P99 }},
		{"p999", 999, func(l *result.Latency) float64 { return l.P999 }},
		{"max", 0, func(l *result.Latency) float64 { return l.Max }},
	}
	var all []column
	for _, p := range parts {
		var c column
		if i := slices.IndexFunc(shown, func(c column) bool { return c.name == p.name }); i >= 0 {
			c = shown[i]
		}
		c.name = name + "_" + p.name
		c.value = func(r row) any {
			if l := of(r); l != nil {
				return p.pick(l)
			}
			return nil
		}
		c.shown = func(r row) any {
			l := of(r)
			text := ms(p.pick(cmp.Or(l, &result.Latency{})), l != nil && *l != result.Latency{})
			if p.perMille > 0 && l != nil && uncertain(*l, p.perMille) {
				text = roughly + text
			}
			return text
		}
		all = append(all, c)
	}
	return all
}

// askedFor is the rate that the row of an open loop was asked for.
func askedFor(r row) any {
	if r.Open == nil {
		return nil
	}
	return r.Open.Asked
}

// retriesPerPurchase is not a number, and so not drawn as one, where nothing was bought.
func retriesPerPurchase(r row) any { return float64(r.Retries) / float64(r.Bought) }

// ofPurchases is what each purchase took on the connections. There is no such number where nothing was bought, and none
// is zero but where nobody could count.
func ofPurchases(r row, value float64) any {
	if r.Bought == 0 || value == 0 {
		return nil
	}
	return value
}

// pollsApart are the polls of buyers and of sellers, or those of all where an older run did not tell them apart.
func pollsApart(r row) any {
	if r.BuyerPolls == nil || r.SellerPolls == nil {
		return r.Polls
	}
	return thousands(*r.BuyerPolls) + " + " + thousands(*r.SellerPolls)
}

func refused(r row) any {
	var n int64
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// mix is a row's mix, and its workload unless that is the run's, which the report's head names.
func mix(r row) any {
	if r.Workload == r.run.Manifest.Config.Workload {
		return r.Mix().String()
	}
	return r.Place()
}

// audit is the verdict on a row's market in words.
func audit(a result.Audit) cell {
	switch {
	case !a.Done:
		return cell{"not done", bad}
	case a.OK:
		return cell{"ok", good}
	}
	var wrong []string
	if a.ItemProblems != 0 {
		wrong = append(wrong, count(a.ItemProblems, "item"))
	}
	if a.MoneyProblems != 0 {
		wrong = append(wrong, count(a.MoneyProblems, "account"))
	}
	return cell{joined(" ", strings.Join(wrong, ", "), "wrong"), bad}
}

// spread shows who starves: the fewest and the most purchases that one buyer made.
func spread(perBuyer []int64) any {
	if len(perBuyer) == 0 {
		return nil
	}
	least, most := slices.Min(perBuyer), slices.Max(perBuyer)
	if least == most {
		return thousands(least)
	}
	return thousands(least) + "-" + thousands(most)
}
