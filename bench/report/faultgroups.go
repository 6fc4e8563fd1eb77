package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/fault"
)

// group is the subjects to which a scenario did the same.
type group struct {
	verdict  fault.Verdict
	why      string
	broken   string // the promise that they break; empty: none
	subjects []string
}

// groups sorts the findings of one scenario, the worst verdict first, and what did not happen last.
func groups(found []fault.Finding) []group {
	var all []group
	for _, f := range found {
		same := func(g group) bool { return g.verdict == f.Verdict && g.why == f.Why && g.broken == f.Broken }
		i := slices.IndexFunc(all, same)
		if i < 0 {
			i = len(all)
			all = append(all, group{verdict: f.Verdict, why: f.Why, broken: f.Broken})
		}
		all[i].subjects = append(all[i].subjects, clean(f.Subject))
	}
	order := worstFirst()
	slices.SortStableFunc(all, func(a, b group) int {
		return cmp.Compare(slices.Index(order, a.verdict), slices.Index(order, b.verdict))
	})
	return outside(all)
}

// worstFirst lists the verdicts by their weight.
func worstFirst() []fault.Verdict {
	order := fault.Verdicts()
	slices.Reverse(order)
	return order
}

// many is from how many subjects on "all others" is said of those to whom a scenario cannot happen.
const many = 5

// outside makes one group of all to whom the scenario cannot happen, each reason behind those whose it is. The names
// of the largest of them go unsaid: they are those that are not told elsewhere.
func outside(all []group) []group {
	first := slices.IndexFunc(all, func(g group) bool { return g.verdict == fault.NotApplicable })
	if first < 0 {
		return all
	}
	reasons := slices.Clone(all[first:])
	slices.SortStableFunc(reasons, func(a, b group) int { return cmp.Compare(len(a.subjects), len(b.subjects)) })
	if last := &reasons[len(reasons)-1]; len(last.subjects) >= many {
		last.subjects = []string{"all others"}
	}
	var told []string
	for _, r := range reasons {
		told = append(told, fmt.Sprintf("%s (%s)", strings.Join(r.subjects, ", "), clean(r.why)))
	}
	return append(all[:first], group{verdict: fault.NotApplicable, why: strings.Join(told, "; ")})
}

// said is a group's explanation, with the promise that it breaks.
func (g group) said() string {
	if g.broken == "" {
		return clean(g.why)
	}
	return fmt.Sprintf("%s. BROKEN PROMISE: %q", clean(g.why), clean(g.broken))
}

// mark is how a painter with colors marks a verdict.
func mark(v fault.Verdict) verdict {
	switch {
	case v.Harm() || v == fault.StuckForGood:
		return bad
	case v == fault.Safe:
		return good
	}
	return plain
}
