package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

// title says what a document is about.
func title(d *report.Document) string {
	if faults := d.Faults(); faults != nil {
		return fmt.Sprintf("What fails: %d scenarios, %d strategies and locks", len(faults.Scenarios), len(faults.Subjects))
	}
	run := d.Run()
	if run == nil {
		return "Numbers"
	}
	c := run.Manifest.Config
	strategies := some(c.Strategies)
	switch {
	case len(c.Axes) > 0:
		var names []string
		for _, axis := range c.Axes {
			names = append(names, string(axis.Name))
		}
		return fmt.Sprintf("Sweep over %s: %s", listed(names), strategies)
	case len(c.Reproduces) == 1:
		return "Table " + c.Reproduces[0] + " of Redis in Action, measured"
	case len(c.Reproduces) > 1:
		return "Tables " + listed(c.Reproduces) + " of Redis in Action, measured"
	case len(run.Comparisons) > 0:
		return "Compared: " + strategies
	case len(c.Rates) > 0:
		return "At given rates: " + strategies
	}
	return "Measured: " + strategies
}

// mostNamed is how many names a title or a sentence holds.
const mostNamed = 6

// some lists names, and how many there are besides where they are many.
func some(names []string) string {
	if len(names) > mostNamed {
		names = append(slices.Clone(names[:mostNamed-1]), fmt.Sprintf("%d more", len(names)-mostNamed+1))
	}
	return listed(names)
}

// listed is "a, b and c".
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// missing says what a run was to measure and did not, and what older runs did not record, because a page draws what is
// there.
func missing(run *result.Run) []string {
	var said []string
	if names := notMeasured(run); len(names) > 0 {
		said = append(said, "Not measured: "+some(names)+".")
	}
	if len(run.Rows) == 0 {
		return said
	}
	var absent []string
	for _, of := range []struct {
		what     string
		recorded func(result.Row) bool
	}{
		{"waits by percentile", func(r result.Row) bool { return r.Histograms.Purchase != "" }},
		{"throughput over time", func(r result.Row) bool { return r.Series != nil }},
		{"tries for each purchase", func(r result.Row) bool { return r.Tries != nil }},
		{"what a purchase costs", func(r result.Row) bool { return r.Cost != nil }},
		{"where a purchase's time goes", func(r result.Row) bool { return r.TimeMS != nil }},
		{"fairness among buyers", func(r result.Row) bool { return r.Fairness != nil || len(r.PerBuyer) > 0 }},
	} {
		if !slices.ContainsFunc(run.Rows, of.recorded) {
			absent = append(absent, of.what)
		}
	}
	if len(absent) > 0 {
		said = append(said, "Not recorded in this run, and so not drawn: "+listed(absent)+".")
	}
	return said
}

// notMeasured names the rows that a run was asked for and has nothing of. Whatever ended it, its status says.
func notMeasured(run *result.Run) (names []string) {
	c := run.Manifest.Config
	measured := map[string]bool{}
	for _, r := range run.Rows {
		measured[r.Name()] = true
	}
	rates := c.Rates
	if len(rates) == 0 {
		rates = []float64{0}
	}
	for _, strategy := range c.Strategies {
		for _, m := range c.Mixes {
			var mix result.Mix
			if _, err := fmt.Sscanf(m, "%dx%d", &mix.Sellers, &mix.Buyers); err != nil {
				continue // of an older run, or of another program
			}
			for _, rate := range rates {
				if name := result.RowName(strategy, mix, c.Workload, rate); !measured[name] {
					names = append(names, name)
				}
			}
		}
		for _, p := range c.Points() {
			if name := result.RowName(strategy, p.Mix, p.Workload, 0); !measured[name] {
				names = append(names, name)
			}
		}
	}
	return names
}
