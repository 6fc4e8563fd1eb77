package runs

import (
	"cmp"
	"math"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// A Metric is one number of a row.
type Metric struct {
	Name    string // in CSV and figures: lower case, with its unit where it has one
	Heading string // in tables
	Unit    Unit
	Table   ReportTable                 // which shows it; empty: the CSV alone
	Of      func(r *result.Row) float64 // NaN: the row does not have it
}

// Unit is what a number is measured in.
type Unit string

// The units.
const (
	Plain        Unit = "" // a count, or a ratio
	PerSecond    Unit = "/s"
	Milliseconds Unit = "ms"
	Microseconds Unit = "us"
	Bytes        Unit = "B"
	Percent      Unit = "%" // 0 to 1, shown as percent
)

// ReportTable is a table of a report.
type ReportTable string

// The tables of a run, in the order in which they are shown.
const (
	Main     ReportTable = "rows"
	Details  ReportTable = "details"
	Cost     ReportTable = "cost"    // of a purchase
	Machine  ReportTable = "machine" // whether the machine kept up
	OpenLoop ReportTable = "open"    // only rows of an open loop
)

type row = result.Row

var nan = math.NaN()

// Metrics are the numbers of a row, in the order of the CSV, which has columns behind them.
// Scripts may count columns, so that one more number has its column at the end of all. None is
// ever negative: checkRow refuses a row that has such a number.
func Metrics() []Metric {
	return slices.Concat(
		purchaseMetrics(),
		latency("wait_ms", func(r *row) *result.Latency { return &r.WaitMS }, shown{
			"mean": {heading: "avg wait", table: Main},
			"p50":  {heading: "p50", table: Main},
			"p99":  {heading: "p99", table: Main},
			"p999": {heading: "p99.9", table: Details},
			"max":  {heading: "longest", table: Details},
		}),

		orderMetrics(),
		lockMetrics(),
		latency("list_ms", func(r *row) *result.Latency { return &r.ListMS }, shown{
			"mean": {heading: "list avg", table: Details},
		}),
		latency("given_up_ms", func(r *row) *result.Latency { return &r.GivenUpMS }, nil),
		latency("lock_wait_ms", func(r *row) *result.Latency { return &r.LockWaitMS }, shown{
			"mean": {heading: "lock wait", table: Details},
		}),
		[]Metric{{
			Name: "lock_hold_ms_mean", Heading: "lock held", Unit: Milliseconds, Table: Details,
			Of: func(r *row) float64 { return cmp.Or(r.LockHoldMS, nan) },
		}},

		traffic("", "", func(r *row) *result.Traffic { return r.Market }),
		traffic("lock_servers_", "lock servers' ", func(r *row) *result.Traffic { return r.LockServers }),
		usageMetrics(),
		openLoopMetrics(),
	)
}

// purchaseMetrics say how much was bought and listed, in the order of the CSV: see Metrics.
func purchaseMetrics() []Metric {
	return []Metric{
		{
			Name: "seconds", Heading: "seconds",
			Of: func(r *row) float64 { return r.Seconds },
		},
		{
			Name: "listed", Heading: "listed", Table: Main,
			Of: func(r *row) float64 { return float64(r.Listed) },
		},
		{
			Name: "bought", Heading: "bought", Table: Main,
			Of: func(r *row) float64 { return float64(r.Bought) },
		},

		{
			Name: "purchases_per_second", Heading: "purchases/s", Unit: PerSecond, Table: Main,
			Of: (*row).PerSecond,
		},
		{
			Name: "retries", Heading: "retries", Table: Main,
			Of: func(r *row) float64 { return reported(r, r.Retries) },
		},
		{
			Name: "retries_per_purchase", Heading: "retries/purchase", Table: Main,
			// Retries are of orders that began in the measured time, as WaitMS is. Bought counts
			// purchases that ended in it.
			Of: func(r *row) float64 { return ratio(reported(r, r.Retries), float64(r.WaitMS.Count)) },
		},
	}
}

// orderMetrics say what became of orders, and how evenly they came out over the row and
// over the buyers, in the order of the CSV: see Metrics. Refused has the names of market.Reason.
func orderMetrics() []Metric {
	return []Metric{
		{
			Name: "given_up_share", Heading: "given up", Unit: Percent, Table: Main,
			// Of orders that began in the measured time, each followed to its end.
			Of: func(r *row) float64 {
				return ratio(float64(r.ContendedOrders()), float64(r.WaitMS.Count+r.GivenUpMS.Count))
			},
		},
		{
			Name: "buyer_ms_per_purchase", Heading: "buyer time", Unit: Milliseconds, Table: Details,
			Of: func(r *row) float64 {
				return ratio(1000*r.Seconds*float64(len(r.PerBuyer)), float64(r.Purchases()))
			},
		},

		{
			Name: "steadiness", Heading: "2nd/1st half", Table: Details,
			Of: (*row).Steadiness,
		},
		{
			Name: "jain", Heading: "Jain's index", Table: Details,
			Of: (*row).Jain,
		},

		{
			Name: "gone", Heading: "gone", Table: Details,
			Of: func(r *row) float64 { return float64(r.Refused["not_listed"]) },
		},
		{
			Name: "contended", Heading: "contended", Table: Details,
			Of: func(r *row) float64 { return float64(r.Refused["contended"]) },
		},
		{
			Name: "refused", Heading: "refused",
			Of: func(r *row) (all float64) {
				for _, n := range r.Refused {
					all += float64(n)
				}
				return all
			},
		},
		{
			Name: "unknown", Heading: "unknown",
			Of: func(r *row) float64 { return float64(r.Unknown) },
		},
		{
			Name: "cut", Heading: "cut",
			Of: func(r *row) float64 { return float64(r.Cut) },
		},
	}
}

// lockMetrics say how often locks and listings were tried again, and what became of locks, in the
// order of the CSV: see Metrics.
func lockMetrics() []Metric {
	return []Metric{
		{
			Name: "list_retries", Heading: "list retries", Table: Details,
			Of: func(r *row) float64 { return reported(r, r.ListRetries) },
		},
		{
			Name: "polls", Heading: "polls", Table: Details,
			Of: func(r *row) float64 { return reported(r, r.Polls) },
		},
		{
			Name: "list_polls", Heading: "list polls", Table: Details,
			Of: func(r *row) float64 { return reported(r, r.ListPolls) },
		},

		{
			Name: "leases_lost", Heading: "leases lost",
			Of: func(r *row) float64 { return reported(r, r.LeasesLost) },
		},
		{
			Name: "failed_releases", Heading: "failed releases", Table: Details,
			Of: func(r *row) float64 { return reported(r, r.FailedReleases) },
		},
	}
}

// usageMetrics say what the server, the clients and the machine used between the two ends of the
// measured time. So they are divided by its length, or by the purchases that ended in it. They
// are in the order of the CSV: see Metrics.
func usageMetrics() []Metric {
	commands := func(r *row) *int64 { return r.Commands }
	background := func(r *row) *result.Traffic { return r.Background }
	server := func(r *row) *float64 { return r.ServerCPU }
	client := func(r *row) *float64 { return r.ClientCPU }

	return []Metric{
		{
			Name: "commands_per_second", Heading: "commands/s", Unit: PerSecond, Table: Machine,
			Of: ofPart(commands, func(r *row, n *int64) float64 { return ratio(float64(*n), r.Seconds) }),
		},
		{
			Name: "background_commands_per_second", Heading: "background commands/s",
			Unit: PerSecond, Table: Cost,
			Of: ofPart(background, func(r *row, t *result.Traffic) float64 {
				return ratio(float64(t.Commands), r.Seconds)
			}),
		},
		{
			Name: "server_us", Heading: "server", Unit: Microseconds, Table: Cost,
			Of: perPurchase(server),
		},
		{
			Name: "client_us", Heading: "client", Unit: Microseconds, Table: Cost,
			Of: perPurchase(client),
		},
		{
			Name: "server_cpu", Heading: "server of a core", Unit: Percent, Table: Machine,
			Of: ofPart(server, func(r *row, used *float64) float64 { return ratio(*used, r.Seconds) }),
		},
		{
			Name: "client_cpu", Heading: "client", Unit: Percent, Table: Machine,
			Of: ofCores(client),
		},
		{
			Name: "others_cpu", Heading: "others", Unit: Percent, Table: Machine,
			Of: ofCores(func(r *row) *float64 { return r.OthersCPU }),
		},
		{
			Name: "stolen_cpu", Heading: "stolen", Unit: Percent, Table: Machine,
			Of: ofCores(func(r *row) *float64 { return r.StolenCPU }),
		},
	}
}

// openLoopMetrics say what an open loop did. Rows of a closed loop have none of them. They are in
// the order of the CSV: see Metrics.
func openLoopMetrics() []Metric {
	// NaN for rows of a closed loop, whose service times are, too: there are none.
	ifOpen := func(of func(*row) float64) func(*row) float64 {
		part := func(r *row) *result.OpenLoop { return r.Open }
		return ofPart(part, func(r *row, _ *result.OpenLoop) float64 { return of(r) })
	}

	rates := []Metric{
		{
			Name: "offered_per_second", Heading: "offered/s", Unit: PerSecond, Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return ratio(float64(r.Open.Due), r.Seconds) }),
		},
		{
			Name: "reached_per_second", Heading: "reached/s", Unit: PerSecond, Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return ratio(float64(r.Open.Done), r.Seconds) }),
		},
	}
	service := latency("service_ms", func(r *row) *result.Latency { return &r.ServiceMS }, shown{
		"p50": {heading: "service p50", table: OpenLoop},
		"p99": {heading: "service p99", table: OpenLoop},
	})
	shortfall := []Metric{
		{
			Name: "backlog", Heading: "backlog", Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return float64(r.Open.Backlog) }),
		},
		{
			Name: "given_up", Heading: "given up", Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return float64(r.Open.GivenUp) }),
		},
		{
			Name: "late_share", Heading: "late", Unit: Percent, Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return ratio(float64(r.Open.Late), float64(r.Open.Due)) }),
		},
		{
			Name: "left_over", Heading: "left over", Table: OpenLoop,
			Of: ifOpen(func(r *row) float64 { return float64(r.Open.LeftOver) }),
		},
	}
	return slices.Concat(rates, service, shortfall)
}

// MetricByName is the Metric of a name, one of those of Metrics.
func MetricByName(name string) Metric {
	all := Metrics()
	return all[slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })]
}

// shown are the parts of a distribution that a table shows: the heading and the
// table, by the part's name.
type shown map[string]struct {
	heading string
	table   ReportTable
}

// latency makes the Metrics of a distribution: its parts, and how many times are in it. Those
// that no table shows stand in the CSV alone. Without a time all but the count are NaN. Each
// part is a column of the CSV, in this order: one more moves all columns behind it.
func latency(name string, of func(*row) *result.Latency, in shown) []Metric {
	var all []Metric
	for i, part := range []string{"mean", "p50", "p90", "p99", "p999", "max"} {
		value := func(r *row) float64 {
			l := of(r)
			if l.Count == 0 {
				return nan
			}
			return [...]float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max}[i]
		}
		all = append(all, Metric{
			Name: name + "_" + part, Heading: in[part].heading,
			Unit: Milliseconds, Table: in[part].table, Of: value,
		})
	}

	count := func(r *row) float64 { return float64(of(r).Count) }
	return append(all, Metric{Name: name + "_count", Of: count})
}

// traffic makes the Metrics of what connections carried for orders that began in the
// measured time, for each purchase. One more would move all columns of the CSV behind it.
func traffic(name, heading string, of func(*row) *result.Traffic) []Metric {
	per := func(pick func(*result.Traffic) int64) func(*row) float64 {
		return ofPart(of, func(r *row, t *result.Traffic) float64 {
			return ratio(float64(pick(t)), float64(r.WaitMS.Count))
		})
	}

	return []Metric{
		{
			Name: name + "round_trips_per_purchase", Heading: heading + "round trips", Table: Cost,
			Of: per(func(t *result.Traffic) int64 { return t.RoundTrips }),
		},
		{
			Name: name + "commands_per_purchase", Heading: heading + "commands", Table: Cost,
			Of: per(func(t *result.Traffic) int64 { return t.Commands }),
		},
		{
			Name: name + "bytes_per_purchase", Heading: heading + "bytes", Unit: Bytes, Table: Cost,
			Of: per(func(t *result.Traffic) int64 { return t.Bytes }),
		},
	}
}

// reported is a count that programs of --exec may report: NaN if they reported none.
func reported(r *row, n int64) float64 {
	if n == 0 && r.Elsewhere {
		return nan
	}
	return float64(n)
}

// perPurchase turns processor time in seconds into microseconds for each purchase.
func perPurchase(of func(*row) *float64) func(*row) float64 {
	return ofPart(of, func(r *row, used *float64) float64 { return ratio(1e6**used, float64(r.Purchases())) })
}

// ofCores turns processor time in seconds into a share of all cores.
func ofCores(of func(*row) *float64) func(*row) float64 {
	return ofPart(of, func(r *row, used *float64) float64 { return ratio(*used, r.Seconds*float64(r.Cores)) })
}

// ofPart computes a number from a part of a row. It is NaN for rows without that part.
func ofPart[T any](part func(*row) *T, number func(*row, *T) float64) func(*row) float64 {
	return func(r *row) float64 {
		if p := part(r); p != nil {
			return number(r, p)
		}
		return nan
	}
}

// ratio is NaN if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return nan
	}
	return a / b
}
