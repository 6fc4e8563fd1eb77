package results

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// compared and measured are commands of docs/answers.md with what they find: of two strategies, or of the rows of one.
var (
	compared = regexp.MustCompile(`(?m)^(    marketsim compare (\S+) (\S+)((?: --\S+ \S+)*) +# )(.+)$`)
	measured = regexp.MustCompile(`(?m)^(    marketsim run --strategy (\S+)((?: --\S+ \S+)*) +# )(.+)$`)
	mixes    = regexp.MustCompile(`--mix (\S+)`)
)

// TestAnswersShowWhatIsStored: what docs/answers.md says that each command finds is what is stored. With -update it is
// written. Whether a command still finds it is tested where commands are.
func TestAnswersShowWhatIsStored(t *testing.T) {
	page := "../docs/answers.md"
	before := text(t, page)
	answer := func(pattern *regexp.Regexp, find func(part []string) string) func(string) string {
		return func(now string) string {
			part := pattern.FindStringSubmatch(now)
			return part[1] + find(part)
		}
	}
	runs := storedRuns(t)
	after := compared.ReplaceAllStringFunc(before, answer(compared, func(part []string) string {
		return comparedIn(t, runs, part[2], part[3], mixesOf(part[4]))
	}))
	after = measured.ReplaceAllStringFunc(after, answer(measured, func(part []string) string {
		return measuredIn(t, runs, part[2], mixesOf(part[3]))
	}))
	all := strings.Count(before, "\n    marketsim compare ") + strings.Count(before, "\n    marketsim run ")
	if said := len(compared.FindAllString(before, -1)) + len(measured.FindAllString(before, -1)); all != said {
		t.Errorf("%s has %d commands that measure, of which %d say what they find", page, all, said)
	}
	rewrite(t, page, before, after)
}

// mixesOf are the mixes of a command.
func mixesOf(flags string) []string {
	found := mixes.FindStringSubmatch(flags)
	if found == nil {
		return []string{"5x5"}
	}
	return strings.Split(found[1], ",")
}

// storedRuns are all stored runs, the oldest first.
func storedRuns(t *testing.T) []*result.Run {
	t.Helper()
	var runs []*result.Run
	for _, path := range glob(t, "*/run.json", "*/*/run.json") {
		runs = append(runs, readRun(t, path))
	}
	slices.SortFunc(runs, func(a, b *result.Run) int { return a.Manifest.Started.Compare(b.Manifest.Started) })
	return runs
}

// comparedIn is what the newest stored run that compared the two says of them, for each mix.
func comparedIn(t *testing.T, runs []*result.Run, a, b string, mixes []string) string {
	var answers []string
	for _, mix := range mixes {
		c := theComparison(t, runs, a, b, mix)
		answer := fmt.Sprintf("at %s %s", mix, c.Verdict)
		if c.Ratio != nil && c.Low != nil && c.High != nil {
			answer += fmt.Sprintf(": %s times (%s to %s)", ratio(*c.Ratio), ratio(*c.Low), ratio(*c.High))
		}
		answers = append(answers, answer)
	}
	return strings.Join(answers, "; ")
}

// ratio is a ratio with two or three digits.
func ratio(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func theComparison(t *testing.T, runs []*result.Run, a, b, mix string) result.Comparison {
	t.Helper()
	for _, run := range slices.Backward(runs) {
		for _, c := range run.Comparisons {
			switch {
			case c.Mix != mix:
			case c.A == a && c.B == b:
				return c
			case c.A == b && c.B == a:
				return c.Reversed()
			}
		}
	}
	t.Fatalf("a page compares %s with %s at %s, which no stored run does", a, b, mix)
	return result.Comparison{}
}

// measuredIn is what the newest stored run that has the rows says of them, for each mix: medians of its rounds.
func measuredIn(t *testing.T, runs []*result.Run, strategy string, mixes []string) string {
	var answers []string
	for _, mix := range mixes {
		rows := theRows(t, runs, strategy+" "+mix)
		median := func(of func(result.Row) float64) float64 {
			var values []float64
			for _, r := range rows {
				values = append(values, of(r))
			}
			return compare.Median(values).Center
		}
		answers = append(answers, fmt.Sprintf("at %s %.1f tries a purchase, p99 %.0f; wait %.1f ms, p99 %.1f; Jain's index %.2f", mix,
			median(func(r result.Row) float64 { return r.Tries.Mean }),
			median(func(r result.Row) float64 { return float64(r.Tries.P99) }),
			median(func(r result.Row) float64 { return r.WaitMS.Mean }),
			median(func(r result.Row) float64 { return r.WaitMS.P99 }),
			median(func(r result.Row) float64 { return r.Fairness.Jain })))
	}
	return strings.Join(answers, "; ")
}

func theRows(t *testing.T, runs []*result.Run, name string) []result.Row {
	t.Helper()
	for _, run := range slices.Backward(runs) {
		var rows []result.Row
		for _, r := range run.Rows {
			if r.Name() == name && r.Tries != nil && r.Fairness != nil {
				rows = append(rows, r)
			}
		}
		if len(rows) > 0 {
			return rows
		}
	}
	t.Fatalf("a page tells of the row %s, which no stored run has", name)
	return nil
}
