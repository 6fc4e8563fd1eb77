package result

import (
	"cmp"
	"math"
	"slices"
)

// A Metric is one number of a row.
type Metric struct {
	Name    string // in CSV and figures: lower case, with its unit where it has one
	Heading string // in tables
	Unit    Unit
	Table   Table                // which shows it; empty: the CSV alone
	Of      func(r *Row) float64 // NaN: the row does not have it
}

// Unit is what a number is measured in.
type Unit string

// The units.
const (
	Number       Unit = "" // a count, or a ratio
	PerSecond    Unit = "/s"
	Milliseconds Unit = "ms"
	Microseconds Unit = "us"
	Bytes        Unit = "B"
	Share        Unit = "%" // 0 to 1, shown as percent
)

// Table is a table of a report.
type Table string

// The tables of a run, in the order in which they are shown.
const (
	Main     Table = "rows"
	Details  Table = "details"
	Cost     Table = "cost"    // of a purchase
	Machine  Table = "machine" // whether the machine kept up
	OpenLoop Table = "open"    // only rows of an open loop
)

var nan = math.NaN()

// Metrics are all numbers of a row, in the order of the CSV. A new one goes to the
// end: scripts may count columns.
func Metrics() []Metric {
	return slices.Concat([]Metric{
		{"seconds", "seconds", Number, "", func(r *Row) float64 { return r.Seconds }},
		{"listed", "listed", Number, Main, func(r *Row) float64 { return float64(r.Listed) }},
		{"bought", "bought", Number, Main, func(r *Row) float64 { return float64(r.Bought) }},
		{"purchases_per_second", "purchases/s", PerSecond, Main, (*Row).PerSecond},
		{"retries", "retries", Number, Main, func(r *Row) float64 { return told(r, r.Retries) }},
		{"retries_per_purchase", "retries/purchase", Number, Main, func(r *Row) float64 {
			return ratio(told(r, r.Retries), float64(r.WaitMS.Count))
		}},
	},
		latency("wait_ms", func(r *Row) *Latency { return &r.WaitMS },
			shown{"mean": {"avg wait", Main}, "p50": {"p50", Main}, "p99": {"p99", Main}, "p999": {"p99.9", Details},
				"max": {"longest", Details}}),
		[]Metric{
			{"given_up_share", "given up", Share, Main, func(r *Row) float64 {
				return ratio(float64(r.ContendedOrders()), float64(r.WaitMS.Count+r.GivenUpMS.Count))
			}},
			{"buyer_ms_per_purchase", "buyer time", Milliseconds, Details, func(r *Row) float64 {
				return ratio(1000*r.Seconds*float64(len(r.PerBuyer)), float64(r.Made()))
			}},
			{"steadiness", "2nd/1st half", Number, Details, (*Row).Steadiness},
			{"jain", "Jain's index", Number, Details, (*Row).Jain},
			{"gone", "gone", Number, Details, func(r *Row) float64 { return float64(r.Refused["not_listed"]) }},
			{"contended", "contended", Number, Details, func(r *Row) float64 { return float64(r.Refused["contended"]) }},
			{"refused", "refused", Number, "", func(r *Row) (all float64) {
				for _, n := range r.Refused {
					all += float64(n)
				}
				return all
			}},
			{"unknown", "unknown", Number, "", func(r *Row) float64 { return float64(r.Unknown) }},
			{"cut", "cut", Number, "", func(r *Row) float64 { return float64(r.Cut) }},
			{"list_retries", "list retries", Number, Details, func(r *Row) float64 { return told(r, r.ListRetries) }},
			{"polls", "polls", Number, Details, func(r *Row) float64 { return told(r, r.Polls) }},
			{"list_polls", "list polls", Number, Details, func(r *Row) float64 { return told(r, r.ListPolls) }},
			{"leases_lost", "leases lost", Number, "", func(r *Row) float64 { return told(r, r.LeasesLost) }},
			{"failed_releases", "failed releases", Number, Details, func(r *Row) float64 { return told(r, r.FailedReleases) }},
		},
		latency("list_ms", func(r *Row) *Latency { return &r.ListMS }, shown{"mean": {"list avg", Details}}),
		latency("given_up_ms", func(r *Row) *Latency { return &r.GivenUpMS }, nil),
		latency("lock_wait_ms", func(r *Row) *Latency { return &r.LockWaitMS }, shown{"mean": {"lock wait", Details}}),
		[]Metric{{"lock_hold_ms_mean", "lock held", Milliseconds, Details, func(r *Row) float64 {
			return cmp.Or(r.LockHoldMS, nan)
		}}},
		traffic("", "", func(r *Row) *Traffic { return r.Market }),
		traffic("lock_servers_", "lock servers' ", func(r *Row) *Traffic { return r.LockServers }),
		[]Metric{
			{"commands_per_second", "commands/s", PerSecond, Machine, where(func(r *Row) *int64 { return r.Commands },
				func(r *Row, n *int64) float64 { return ratio(float64(*n), r.Seconds) })},
			{"background_commands_per_second", "background commands/s", PerSecond, Cost, where(
				func(r *Row) *Traffic { return r.Background },
				func(r *Row, t *Traffic) float64 { return ratio(float64(t.Commands), r.Seconds) })},
			{"server_us", "server", Microseconds, Cost, perPurchase(func(r *Row) *float64 { return r.ServerCPU })},
			{"client_us", "client", Microseconds, Cost, perPurchase(func(r *Row) *float64 { return r.ClientCPU })},
			{"server_cpu", "server of a core", Share, Machine, where(func(r *Row) *float64 { return r.ServerCPU },
				func(r *Row, used *float64) float64 { return ratio(*used, r.Seconds) })},
			{"client_cpu", "client", Share, Machine, ofCores(func(r *Row) *float64 { return r.ClientCPU })},
			{"others_cpu", "others", Share, Machine, ofCores(func(r *Row) *float64 { return r.OthersCPU })},
			{"stolen_cpu", "stolen", Share, Machine, ofCores(func(r *Row) *float64 { return r.StolenCPU })},
		},
		open("offered_per_second", "offered/s", PerSecond, func(r *Row) float64 {
			return ratio(float64(r.Open.Due), r.Seconds)
		}),
		open("reached_per_second", "reached/s", PerSecond, func(r *Row) float64 {
			return ratio(float64(r.Open.Done), r.Seconds)
		}),
		latency("service_ms", func(r *Row) *Latency { return &r.ServiceMS },
			shown{"p50": {"service p50", OpenLoop}, "p99": {"service p99", OpenLoop}}),
		open("backlog", "backlog", Number, func(r *Row) float64 { return float64(r.Open.Backlog) }),
		open("given_up", "given up", Number, func(r *Row) float64 { return float64(r.Open.GivenUp) }),
		open("late_share", "late", Share, func(r *Row) float64 { return ratio(float64(r.Open.Late), float64(r.Open.Due)) }),
		open("left_over", "left over", Number, func(r *Row) float64 { return float64(r.Open.LeftOver) }),
	)
}

// MetricNamed is the Metric of a name, one of those of Metrics.
func MetricNamed(name string) Metric {
	all := Metrics()
	return all[slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })]
}

// shown are the parts of a distribution that a table shows: the heading and the
// table, by the part's name.
type shown map[string]struct {
	heading string
	table   Table
}

func latency(name string, of func(*Row) *Latency, in shown) []Metric {
	var all []Metric
	for i, part := range []string{"mean", "p50", "p90", "p99", "p999", "max"} {
		all = append(all, Metric{name + "_" + part, in[part].heading, Milliseconds, in[part].table, func(r *Row) float64 {
			l := of(r)
			if l.Count == 0 {
				return nan
			}
			return [...]float64{l.Mean, l.P50, l.P90, l.P99, l.P999, l.Max}[i]
		}})
	}
	return append(all, Metric{name + "_count", "", Number, "", func(r *Row) float64 { return float64(of(r).Count) }})
}

// traffic makes the Metrics of what connections carried for orders that began in the
// measured time, for each purchase.
func traffic(name, heading string, of func(*Row) *Traffic) []Metric {
	per := func(pick func(*Traffic) int64) func(*Row) float64 {
		return where(of, func(r *Row, t *Traffic) float64 { return ratio(float64(pick(t)), float64(r.WaitMS.Count)) })
	}
	roundTrips := per(func(t *Traffic) int64 { return t.RoundTrips })
	commands := per(func(t *Traffic) int64 { return t.Commands })
	bytes := per(func(t *Traffic) int64 { return t.Bytes })
	return []Metric{
		{name + "round_trips_per_purchase", heading + "round trips", Number, Cost, roundTrips},
		{name + "commands_per_purchase", heading + "commands", Number, Cost, commands},
		{name + "bytes_per_purchase", heading + "bytes", Bytes, Cost, bytes},
	}
}

func open(name, heading string, unit Unit, of func(*Row) float64) []Metric {
	return []Metric{{name, heading, unit, OpenLoop,
		where(func(r *Row) *Open { return r.Open }, func(r *Row, _ *Open) float64 { return of(r) })}}
}

// told is a count that programs of --exec need not tell: NaN if they told none.
func told(r *Row, n int64) float64 {
	if n == 0 && r.Elsewhere {
		return nan
	}
	return float64(n)
}

// perPurchase turns processor time in seconds into microseconds for each purchase.
func perPurchase(of func(*Row) *float64) func(*Row) float64 {
	return where(of, func(r *Row, used *float64) float64 { return ratio(1e6**used, float64(r.Made())) })
}

// ofCores turns processor time in seconds into a share of all cores.
func ofCores(of func(*Row) *float64) func(*Row) float64 {
	return where(of, func(r *Row, used *float64) float64 { return ratio(*used, r.Seconds*float64(r.Cores)) })
}

// where makes a number from what some rows lack: for these it is NaN.
func where[T any](of func(*Row) *T, number func(*Row, *T) float64) func(*Row) float64 {
	return func(r *Row) float64 {
		if t := of(r); t != nil {
			return number(r, t)
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
