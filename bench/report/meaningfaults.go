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
		return brief(aloneMeaning(all[0]), promiseMeaning(all))
	}
	hurt := subjects(all, harmed)
	spared := subjects(all, func(f result.Finding) bool { return !harmed(f) })
	said := []string{promiseMeaning(all)}
	switch {
	case len(hurt) == 0:
		said = append(said, fmt.Sprintf("No harm to any of the %d it can happen to.", len(all)))
	case len(spared) == 0:
		said = append(said, fmt.Sprintf("Harm to all %d it can happen to.", len(all)))
	default:
		text := fmt.Sprintf("Harm to %d of the %d it can happen to", len(hurt), len(all))
		switch {
		case len(spared) <= mostNamed:
			text += ", but not to " + or(spared)
		case len(hurt) <= mostNamed:
			text += ": " + listing(hurt)
		}
		said = append(said, text+".")
	}
	if shut := subjects(all, shutOut); len(shut) > 0 {
		said = append(said, fmt.Sprintf("Nobody else got in any more with %s.", listing(shut)))
	}
	return brief(said...)
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
		kept = "; nobody else got in any more"
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
	if len(all) == 0 {
		return "Nothing of this could happen, or it was not tried."
	}
	return brief(append([]string{promiseMeaning(all)}, harmMeaning(all)...)...)
}

// harmMeaning says how often there was harm, and who was never harmed.
func harmMeaning(all []result.Finding) []string {
	hurt := subjects(all, harmed)
	if len(hurt) == 0 {
		return []string{fmt.Sprintf("No harm in any of %s.", count(int64(len(all)), "case"))}
	}
	times := map[string]int{}
	cases := 0
	for _, f := range all {
		if harmed(f) {
			times[clean(f.Subject)]++
			cases++
		}
	}
	spared := subjects(all, func(f result.Finding) bool { return times[clean(f.Subject)] == 0 })
	most := slices.MaxFunc(hurt, func(a, b string) int { return cmp.Compare(times[a], times[b]) })
	said := []string{fmt.Sprintf("Harm in %s of %s.", thousands(int64(cases)), count(int64(len(all)), "case"))}
	if len(spared) == 0 {
		said = append(said, fmt.Sprintf("None of the %d is never harmed.", len(hurt)))
	} else {
		said = append(said, fmt.Sprintf("Never harmed: %s.", listing(spared)))
	}
	if times[most] > 1 {
		said = append(said, fmt.Sprintf("Most often harmed: %s (%d times).", most, times[most]))
	}
	return said
}
