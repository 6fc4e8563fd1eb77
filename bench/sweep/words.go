package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
)

// findings are a sentence for each thing that a sweep has shown, what matters most first: the best, what the worst choice
// costs, and where one strategy passes another. A sweep that was cut short has shown nothing.
func findings(run *result.Run, complete int, s *result.Sweep) []string {
	var all []string
	if complete < run.Planned() {
		return []string{fmt.Sprintf("Nothing is decided: %d of %d rounds are complete.", complete, run.Planned())}
	}
	c := run.Manifest.Config
	if len(c.Strategies) > 1 {
		all = append(all, bestSentence(c, s.Points))
		all = append(all, lossSentences(c, s.Points)...)
		for _, crossing := range s.Crossings {
			all = append(all, crossingSentence(c, crossing))
		}
		if len(s.Crossings) == 0 {
			all = append(all, "Nowhere is one strategy known to pass another.")
		}
	}
	return all
}

// bestSentence says at how many points each strategy is known to be the best.
func bestSentence(c result.Config, points []result.SweepPoint) string {
	alone, maybe := map[string]int{}, map[string]int{}
	open, none := 0, 0
	for _, p := range points {
		for _, strategy := range p.Best {
			maybe[strategy]++
		}
		switch len(p.Best) {
		case 0:
			none++
		case 1:
			alone[p.Best[0]]++
		default:
			open++
		}
	}
	of := english.Plural(len(points), "point", "")
	var parts []string
	for _, strategy := range c.Strategies {
		switch n := alone[strategy]; n {
		case 0:
		case len(points):
			return fmt.Sprintf("%s is the fastest at all %s.", strategy, of)
		default:
			parts = append(parts, fmt.Sprintf("%s at %d", strategy, n))
		}
	}
	text := fmt.Sprintf("No strategy is known to be the fastest at any of the %s", of)
	switch {
	case len(parts) == 1:
		one, n, _ := strings.Cut(parts[0], " at ")
		text = fmt.Sprintf("%s is the fastest at %s of %s", one, n, of)
		if others := len(points) - none - alone[one]; open > 0 && maybe[one] == alone[one]+others {
			return fmt.Sprintf("%s, and at the other %d it may be.", text, open)
		}
	case len(parts) > 1:
		text = fmt.Sprintf("No strategy is the fastest everywhere: of the %s, %s", of, english.WordSeries(parts, "and"))
	}
	if open > 0 && len(parts) > 0 {
		text += fmt.Sprintf("; at %d several may be", open)
	}
	if none > 0 {
		text += fmt.Sprintf("; at %d none can be judged", none)
	}
	return text + "."
}

// lossSentences say where the worst choice costs most, and where least.
func lossSentences(c result.Config, points []result.SweepPoint) []string {
	sure := slices.DeleteFunc(slices.Clone(points), func(p result.SweepPoint) bool { return p.Loss == nil || !p.Loss.Sure })
	if len(sure) == 0 {
		return nil
	}
	byRatio := func(a, b result.SweepPoint) int { return cmp.Compare(a.Loss.Ratio, b.Loss.Ratio) }
	most, least := slices.MinFunc(sure, byRatio), slices.MaxFunc(sure, byRatio)
	all := []string{fmt.Sprintf("The worst choice costs most at %s: %s.", At(c, most), lossWords(*most.Loss))}
	if len(sure) > 1 {
		all = append(all, fmt.Sprintf("It costs least at %s: %s.", At(c, least), lossWords(*least.Loss)))
	}
	return all
}

// lossWords is "coarse makes 31% of the purchases/s of lua (25% to 38%)".
func lossWords(l result.Loss) string {
	text := fmt.Sprintf("%s makes %s of the purchases/s of %s", l.Worst, part(l.Ratio), l.Best)
	if l.Low != nil && l.High != nil {
		text += fmt.Sprintf(" (%s to %s)", part(*l.Low), part(*l.High))
	}
	return text
}

// part is a part of a whole in percent, with a digit after the point where it is small.
func part(v float64) string {
	if v < 0.0995 {
		return fmt.Sprintf("%.1f%%", 100*v)
	}
	return fmt.Sprintf("%.0f%%", 100*v)
}

// At names a point by its values: "8 clients", or "8 clients and a hold of 1 ms".
func At(c result.Config, p result.SweepPoint) string {
	var parts []string
	for i, axis := range c.Axes {
		parts = append(parts, axis.Name.Say(p.At[i]))
	}
	return strings.Join(parts, " and ")
}

// crossingSentence is "From 8 clients on queue passes fine, which is faster at 4 clients; at 6 clients neither is known to
// be faster."
func crossingSentence(c result.Config, x result.Crossing) string {
	with, on := "From ", "on"
	if x.Other != "" {
		with = fmt.Sprintf("With %s, from ", x.Other.Say(x.OtherValue))
	}
	if i := slices.IndexFunc(c.Axes, func(a result.Axis) bool { return a.Name == x.Axis }); i >= 0 {
		if values := c.Axes[i].Values; x.Until < values[len(values)-1] {
			on = "to " + x.Axis.Say(x.Until)
		}
	}
	text := fmt.Sprintf("%s%s %s %s passes %s, which is faster at %s; ", with, x.Axis.Say(x.After), on, x.A, x.B,
		x.Axis.Say(x.Before))
	if len(x.Between) == 0 {
		return text + "between them nothing was measured."
	}
	var at []string
	for _, v := range x.Between {
		at = append(at, x.Axis.Say(v))
	}
	return text + fmt.Sprintf("at %s neither is known to be faster.", english.WordSeries(at, "and"))
}
