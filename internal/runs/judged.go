package runs

import (
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/internal/wording"
)

// A JudgedMetric is a Metric that says which of two rows did better: what verdicts and
// thresholds are about.
type JudgedMetric struct {
	Metric
	Short        string // as it is typed and shown; the Name of the CSV is taken, too
	HigherBetter bool
}

// PurchasesPerSecond is the name of what is compared where nothing else was asked for.
const PurchasesPerSecond = "purchases_per_second"

// JudgedMetrics are all that can be judged, by what is asked for most. Short names are stored:
// run.json has them in thresholds, see Threshold.String. So they are never changed.
func JudgedMetrics() (all []JudgedMetric) {
	// What is missing here is no better when it is more: whether "listed" or "seconds" is higher
	// says nothing for or against a strategy.
	metrics := Metrics()
	for _, j := range []struct {
		short, name  string
		higherBetter bool
	}{
		{short: "purchases/s", name: PurchasesPerSecond, higherBetter: true},
		{short: "avg-wait", name: "wait_ms_mean"},
		{short: "p50", name: "wait_ms_p50"},
		{short: "p90", name: "wait_ms_p90"},
		{short: "p99", name: "wait_ms_p99"},
		{short: "p99.9", name: "wait_ms_p999"},
		{short: "longest", name: "wait_ms_max"},
		{short: "retries/purchase", name: "retries_per_purchase"},
		{short: "given-up", name: "given_up_share"},

		{short: "round-trips/purchase", name: "round_trips_per_purchase"},
		{short: "commands/purchase", name: "commands_per_purchase"},
		{short: "bytes/purchase", name: "bytes_per_purchase"},
		{short: "server-us", name: "server_us"},
		{short: "client-us", name: "client_us"},

		{short: "reached/s", name: "reached_per_second", higherBetter: true},
		{short: "late", name: "late_share"},
	} {
		// Each name is one of Metrics: without it this would panic.
		of := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == j.name })
		all = append(all, JudgedMetric{Metric: metrics[of], Short: j.short, HigherBetter: j.higherBetter})
	}
	return all
}

// ParseMetric finds what is judged by its short name or that of the CSV.
func ParseMetric(name string) (JudgedMetric, error) {
	all := JudgedMetrics()
	i := slices.IndexFunc(all, func(m JudgedMetric) bool { return name == m.Short || name == m.Name })
	if i < 0 {
		known := wording.Names(all, func(m JudgedMetric) string { return m.Short })
		return JudgedMetric{}, fmt.Errorf("%s", wording.Unknown("metric", name, known))
	}
	return all[i], nil
}

// ParseMetrics finds several, each once. Of none it makes purchases/s.
func ParseMetrics(names []string) (all []JudgedMetric, err error) {
	if len(names) == 0 {
		names = []string{PurchasesPerSecond}
	}

	for _, name := range names {
		m, err := ParseMetric(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other JudgedMetric) bool { return other.Name == m.Name }) {
			return nil, fmt.Errorf("%s is there twice: leave one out", m.Short)
		}
		all = append(all, m)
	}
	return all, nil
}
