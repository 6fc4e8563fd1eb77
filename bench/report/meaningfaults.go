package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// played are the findings of what could happen and was tried.
func played(found []result.Finding) []result.Finding {
	not := []result.Verdict{result.NotApplicable, result.Unavailable, result.Stopped}
	return slices.DeleteFunc(slices.Clone(found), func(f result.Finding) bool { return slices.Contains(not, f.Verdict) })
}

// harmed reports whether coins or items went wrong, or could have.
func harmed(f result.Finding) bool { return f.Verdict.Harm() }

// shutOut reports whether others were kept out as long as the scenario watched.
func shutOut(f result.Finding) bool {
	return f.KeptOut == result.NeverIn || f.Verdict == result.StuckForGood
}

// subjects are the names of those with findings of which something is so, each once.
func subjects(found []result.Finding, so func(result.Finding) bool) (names []string) {
	for _, f := range found {
		if name := clean(f.Subject); so(f) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// scenarioMeaning says to how many a scenario did harm, and whom it shut out.
func scenarioMeaning(found []result.Finding) string {
	all := played(found)
	switch len(all) {
	case 0:
		return nobodyPlayed(found)
	case 1:
		return brief(aloneMeaning(all[0]), goneMeaning(all), promiseMeaning(all))
	}
	return brief(promiseMeaning(all), extentMeaning(all), goneMeaning(all), shutMeaning(all))
}

// goneMeaning says whose doing it is that purchases are gone, or a part of them, or is empty.
func goneMeaning(all []result.Finding) string {
	if !slices.ContainsFunc(all, func(f result.Finding) bool { return f.Harm == result.PurchasesGone || f.Gone > 0 }) {
		return ""
	}
	return "Redis replicates after it has answered: no strategy can help that."
}

// extentMeaning says to how many there was harm, of which kind for the most part, and who was spared.
func extentMeaning(all []result.Finding) string {
	hurt := subjects(all, harmed)
	spared := subjects(all, func(f result.Finding) bool { return !harmed(f) })
	if len(hurt) == 0 {
		return fmt.Sprintf("No harm to any of the %d it can happen to.", len(all))
	}
	times := map[result.Verdict]int{}
	var kinds []result.Verdict
	for _, f := range all {
		if times[f.Verdict]++; harmed(f) && times[f.Verdict] == 1 {
			kinds = append(kinds, f.Verdict)
		}
	}
	worst := slices.MaxFunc(kinds, func(a, b result.Verdict) int { return cmp.Compare(times[a], times[b]) })
	what := string(worst)
	if len(kinds) > 1 {
		what = "mostly " + what
	}
	switch {
	case len(spared) == 0:
		return fmt.Sprintf("Harm (%s) to all %d it can happen to.", what, len(all))
	case len(hurt) <= mostNamed:
		return fmt.Sprintf("Harm (%s) to %d of the %d it can happen to: %s.", what, len(hurt), len(all), listing(hurt))
	}
	return fmt.Sprintf("Harm (%s) to %d of the %d it can happen to; not to %s.", what, len(hurt), len(all), or(spared))
}

// shutMeaning names those with whom everybody else stayed shut out, or is empty.
func shutMeaning(all []result.Finding) string {
	names := subjects(all, shutOut)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Everybody else stays shut out with %s.", listing(names))
}

// nobodyPlayed says why a scenario has nothing to tell.
func nobodyPlayed(found []result.Finding) string {
	switch {
	case len(found) == 0 || slices.ContainsFunc(found, func(f result.Finding) bool { return f.Verdict == result.Stopped }):
		return "Nothing is known: the run ended before."
	case slices.ContainsFunc(found, func(f result.Finding) bool { return f.Verdict == result.Unavailable }):
		return "Nothing is known: this machine, or the lock, lacks what it needs."
	}
	return "It cannot happen here."
}

// aloneMeaning is about the only one that a scenario could happen to.
func aloneMeaning(f result.Finding) string {
	name, kept := clean(f.Subject), ""
	switch f.KeptOut {
	case "", result.NotAsked, result.NoLease:
	case result.AtOnce:
		kept = "; others got in at once"
	case result.NeverIn:
		kept = "; everybody else stayed shut out"
	default:
		kept = "; others were kept out " + string(f.KeptOut)
	}
	if harmed(f) {
		return fmt.Sprintf("It does harm with %s: %s%s.", name, f.Verdict, kept)
	}
	return fmt.Sprintf("It does no harm with %s%s.", name, kept)
}

// promiseMeaning names who had promised that this does not happen, or is empty.
func promiseMeaning(found []result.Finding) string {
	names := subjects(found, func(f result.Finding) bool { return f.Broken != "" })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s broke a promise.", listing(names))
}

// matrixMeaning sums up some scenarios: who was never harmed, and who most often.
func matrixMeaning(res *result.Faults, scenarios []result.Scenario) string {
	var all []result.Finding
	for _, sc := range scenarios {
		all = append(all, played(res.Of(sc.Name))...)
	}
	switch len(all) {
	case 0:
		return "Nothing of this could happen, or it was not tried."
	case 1:
		return scenarioMeaning(all)
	}
	return brief(append(append([]string{promiseMeaning(all)}, harmMeaning(all)...), shutMeaning(all))...)
}

// harmMeaning says how often there was harm, and who was harmed never, or least often.
func harmMeaning(all []result.Finding) []string {
	hurt := subjects(all, harmed)
	if len(hurt) == 0 {
		return []string{fmt.Sprintf("No harm in any of %s that can happen.", count(int64(len(all)), "case"))}
	}
	times, tried := map[string]int{}, map[string]int{}
	cases := 0
	for _, f := range all {
		tried[clean(f.Subject)]++
		if harmed(f) {
			times[clean(f.Subject)]++
			cases++
		}
	}
	said := fmt.Sprintf("Harm in %s of %s.", thousands(int64(cases)), count(int64(len(all)), "case"))
	if len(tried) == 1 {
		return []string{fmt.Sprintf("%s comes to harm in %d of %s.", hurt[0], cases, count(int64(len(all)), "scenario"))}
	}
	if spared := subjects(all, func(f result.Finding) bool { return times[clean(f.Subject)] == 0 }); len(spared) > 0 {
		return []string{said, fmt.Sprintf("Never harmed: %s.", listing(spared))}
	}
	often := func(name string) float64 { return float64(times[name]) / float64(tried[name]) }
	least := slices.MinFunc(hurt, func(a, b string) int { return cmp.Compare(often(a), often(b)) })
	return []string{said, fmt.Sprintf("Each of the %d comes to harm in at least one, most rarely %s (in %d of %d).", len(hurt), least,
		times[least], tried[least])}
}
