package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Planned is how many rounds the run was to have: fixed before the first, 1 in older runs.
func (r *Run) Planned() int { return max(1, r.Manifest.Config.Trials) }

// Rounds are the rows of each complete round, in the order in which they were measured. A round is complete if it has
// every row of the run and each is complete. If only one was planned it is always there, with what it has.
func (r *Run) Rounds() [][]Row {
	if r.Planned() == 1 {
		if len(r.Rows) == 0 {
			return nil
		}
		return [][]Row{r.Rows}
	}
	c := r.Manifest.Config
	size := len(c.Strategies) * len(c.Places()) * max(1, len(c.Rates))
	byTrial := map[int][]Row{}
	for _, row := range r.Rows {
		if row.Status == Complete {
			byTrial[row.Trial] = append(byTrial[row.Trial], row)
		}
	}
	var rounds [][]Row
	for _, trial := range slices.Sorted(maps.Keys(byTrial)) {
		if rows := byTrial[trial]; len(rows) == size {
			rounds = append(rounds, rows)
		}
	}
	return rounds
}

// Same groups rows that differ in nothing but their round. The groups are in the order in which the run was asked for
// them, by strategy, mix or point, and rate, whatever the order of the rows.
func (r *Run) Same(rows []Row) [][]Row {
	c := r.Manifest.Config
	var groups [][]Row
	at := map[string]int{}
	for _, row := range rows {
		i, found := at[row.Name()]
		if !found {
			i = len(groups)
			at[row.Name()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], row)
	}
	places := map[string]int{}
	for i, place := range c.Places() {
		places[place] = i + 1
	}
	asked := func(row Row) (strategy, place, rate int) {
		if row.Open != nil {
			rate = slices.Index(c.Rates, row.Open.Asked)
		}
		return slices.Index(c.Strategies, row.Strategy), places[row.Place()], rate
	}
	slices.SortStableFunc(groups, func(a, b []Row) int {
		s1, p1, r1 := asked(a[0])
		s2, p2, r2 := asked(b[0])
		return cmp.Or(cmp.Compare(s1, s2), cmp.Compare(p1, p2), cmp.Compare(r1, r2))
	})
	return groups
}

// Problem says why a row must not be judged, as in "is incomplete", or nothing.
func (r Row) Problem() string {
	possible := r.Seconds >= 1e-3 && r.Seconds <= 1e9 && r.WaitMS.Mean >= 0 && r.WaitMS.Mean <= 1e9
	for _, n := range []int64{r.Listed, r.Bought, r.Retries} {
		possible = possible && n >= 0 && n <= 1e15
	}
	switch {
	case r.Status != Complete:
		return fmt.Sprintf("is %s", r.Status)
	case !r.Audit.Done:
		return "was not audited"
	case !r.Audit.OK:
		return "failed its audit"
	case !possible:
		return "holds impossible numbers"
	}
	return ""
}
