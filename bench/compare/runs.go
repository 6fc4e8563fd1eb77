package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// ErrNothing is returned, wrapped, for two runs without a row in common.
var ErrNothing = errors.New("the runs have no row in common")

// Runs is what is known about two stored runs.
type Runs struct {
	Margin  float64             `json:"margin"`
	Differ  []Difference        `json:"differ,omitempty"`   // what else could be the cause of a difference
	Rows    []result.Comparison `json:"comparisons"`        // A is of the new run, B of the old one
	OldOnly []string            `json:"old_only,omitempty"` // rows that the other run lacks
	NewOnly []string            `json:"new_only,omitempty"`
	LeftOut []string            `json:"left_out,omitempty"` // rows whose purchases/s say nothing: of an open loop, or under faults
}

// A Difference is a setting or a circumstance in which two runs differ.
type Difference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Stored compares the rows that two runs have in common. Their rounds have nothing to do with each other: a row is
// faster or slower only where the 95% intervals of its two medians are disjoint. The error, if there is no such row,
// wraps ErrNothing.
func Stored(old, new *result.Run, margin float64) (Runs, error) {
	runs := Runs{Margin: margin, Differ: Differences(old.Manifest, new.Manifest)}
	before, names, left := grouped(old)
	after, others, leftToo := grouped(new)
	runs.LeftOut = slices.Compact(slices.Sorted(slices.Values(append(left, leftToo...))))
	for _, name := range names {
		if after[name] == nil {
			runs.OldOnly = append(runs.OldOnly, name)
			continue
		}
		runs.Rows = append(runs.Rows, unpaired(old, new, before[name], after[name], margin))
	}
	for _, name := range others {
		if before[name] == nil {
			runs.NewOnly = append(runs.NewOnly, name)
		}
	}
	if len(runs.Rows) == 0 {
		return Runs{}, fmt.Errorf("%w: the old one has %s, and the new one %s", ErrNothing, listed(names), listed(others))
	}
	return runs, nil
}

// listed names rows, or says that there are none.
func listed(names []string) string {
	const most = 9
	switch {
	case len(names) == 0:
		return "none that can be compared"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// grouped are the trials of each row that can be compared, the names in the order in which they were stored, and the
// names of rows that cannot.
func grouped(run *result.Run) (rows map[string][]result.Row, names, left []string) {
	rows = map[string][]result.Row{}
	for _, r := range run.Rows {
		name := r.Name()
		switch {
		case r.Open != nil:
			left = append(left, name)
			continue
		case rows[name] == nil:
			names = append(names, name)
		}
		rows[name] = append(rows[name], r)
	}
	return rows, names, left
}

// unpaired compares the trials of a row in two runs.
func unpaired(old, new *result.Run, before, after []result.Row, margin float64) result.Comparison {
	r := before[0]
	c := result.Comparison{
		A: r.Strategy, B: r.Strategy, Mix: r.Place(),
		Rounds: min(len(before), len(after)), Confidence: Confidence, Verdict: result.Undecided,
		Reason: cmp.Or(unknown("old", old.Status, before), unknown("new", new.Status, after)),
	}
	ofOld, ofNew := Median(rates(before)), Median(rates(after))
	c.PerSecondA, c.PerSecondB = ofNew.Center, ofOld.Center
	if ofOld.Center > 0 {
		ratio := ofNew.Center / ofOld.Center
		c.Ratio = &ratio
	}
	if c.Reason == "" {
		low, high := ofNew.Low/ofOld.High, ofNew.High/ofOld.Low
		c.Low, c.High = &low, &high
		c.Verdict = word(Interval{Low: math.Log(low), High: math.Log(high)}, margin)
	}
	return c
}

// unknown says why a row of a run has no interval, or nothing.
func unknown(which string, status result.Status, trials []result.Row) string {
	for _, r := range trials {
		if problem := unfit(r); problem != "" {
			return fmt.Sprintf("in trial %d of the %s run it %s", r.Trial, which, problem)
		}
	}
	switch n := len(trials); {
	case status != result.Complete:
		return fmt.Sprintf("the %s run is %s", which, status)
	case n < Fewest(1):
		return fmt.Sprintf("trials in the %s run: %d, where an interval takes %d", which, n, Fewest(1))
	}
	return ""
}

func rates(rows []result.Row) []float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, r.PurchasesPerSecond)
	}
	return all
}

// Differences are the settings and circumstances in which two runs differ, strategies and seed excepted.
func Differences(old, new result.Manifest) []Difference {
	var all []Difference
	differ := func(what, a, b string) {
		if a != b {
			all = append(all, Difference{what, a, b})
		}
	}
	differ("CPU", old.CPU, new.CPU)
	differ("CPUs", strconv.Itoa(old.CPUs), strconv.Itoa(new.CPUs))
	differ("system", old.OS, new.OS)
	differ("kernel", old.Kernel, new.Kernel)
	differ("Go", old.Go, new.Go)
	differ("marketsim", old.Version, new.Version)
	differ("server", old.Server+" "+old.ServerVersion, new.Server+" "+new.ServerVersion)
	differ("backend", old.Backend, new.Backend)
	if old.Backend == "url" && new.Backend == "url" { // private servers have a new address each time
		differ("address", old.Config.Target, new.Config.Target)
	}
	settings := map[string]string{}
	maps.Copy(settings, old.ServerConfig)
	maps.Copy(settings, new.ServerConfig)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		differ("server's "+name, old.ServerConfig[name], new.ServerConfig[name])
	}
	a, b := old.Config, new.Config
	differ("duration", seconds(a.DurationSeconds), seconds(b.DurationSeconds))
	differ("warm-up", seconds(a.WarmupSeconds), seconds(b.WarmupSeconds))
	differ("workload", a.Workload.String(), b.Workload.String())
	differ("mixes", strings.Join(a.Mixes, ", "), strings.Join(b.Mixes, ", "))
	differ("axes", axes(a), axes(b))
	differ("trials", strconv.Itoa(max(1, a.Trials)), strconv.Itoa(max(1, b.Trials)))
	differ("browsers", strconv.Itoa(a.Browsers), strconv.Itoa(b.Browsers))
	differ("wallets", strconv.Itoa(a.Wallets), strconv.Itoa(b.Wallets))
	differ("funds", strconv.FormatInt(a.Funds, 10), strconv.FormatInt(b.Funds, 10))
	return all
}

// axes are those of a sweep, with what has one value in it.
func axes(c result.Config) string {
	if len(c.Axes) == 0 {
		return ""
	}
	var parts []string
	for _, axis := range c.Axes {
		parts = append(parts, fmt.Sprintf("%s %v", axis.Name, axis.Values))
	}
	if c.Clients > 0 {
		parts = append(parts, fmt.Sprintf("clients %d", c.Clients))
	}
	return strings.TrimSpace(strings.Join(parts, ", ") + " " + c.Workload.String())
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) + " s" }
