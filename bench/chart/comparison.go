package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg/draw"

	"github.com/marketsim/marketsim/bench/result"
)

// mostPairs is how many pairs under one mix are drawn. Of more, those with the fastest strategy are.
const mostPairs = 10

// comparisons are the ratios of a run that was made to compare strategies, as a forest plot: each pair the way round in
// which its ratio is above 1.
func comparisons(run *result.Run, _ []group) []Figure {
	if len(run.Comparisons) == 0 {
		return nil
	}
	margin := 0.0
	if m := run.Manifest.Config.Margin; m != nil && *m > 0 && *m < 1 {
		margin = *m
	}
	var mixes []string
	ends := []float64{1, 1 + margin, 1 / (1 + margin)}
	for _, c := range run.Comparisons {
		if !slices.Contains(mixes, c.Mix) {
			mixes = append(mixes, c.Mix)
		}
		ends = append(ends, ratioOf(upward(c)).ends()...)
	}
	ax := logAxis("purchases/s of the first over those of the second (log scale)", times, ends...)
	var parts []part
	var says []string
	var verdicts []result.Compared
	left := 0
	for _, mix := range mixes {
		pairs := pairsOf(run.Comparisons, mix)
		head, shown := clean(mix), slices.Clone(pairs)
		fastest := fastestOf(pairs)
		if len(pairs) > mostPairs {
			head += ": " + clean(fastest) + ", the fastest, to"
			shown = slices.DeleteFunc(shown, func(c result.Comparison) bool { return c.A != fastest && c.B != fastest })
			left += len(pairs) - len(shown)
		}
		slices.SortStableFunc(shown, func(a, b result.Comparison) int { return cmp.Compare(ratioOf(a).last(), ratioOf(b).last()) })
		l := list{axis: ax, bands: []span2{{1 / (1 + margin), 1 + margin}}, lines: []float64{1}}
		for _, c := range shown {
			e, text := pairEntry(c, len(pairs) > mostPairs)
			l.entries = append(l.entries, e)
			says = append(says, text)
			if !slices.Contains(verdicts, c.Verdict) {
				verdicts = append(verdicts, c.Verdict)
			}
		}
		parts = append(parts, heading(head), l.part(), space(8))
	}
	about := fmt.Sprintf("Ratios made inside each round: the median and its interval, on a log scale. Shaded: within %s, which "+
		"counts as no difference.", percent(margin))
	if left > 0 {
		about += fmt.Sprintf(" %d pairs without the fastest are not drawn.", left)
	}
	parts = append(parts, verdictKeys(verdicts))
	return []Figure{figure(run, "comparison", "How many times as fast", about, about+" "+told(says), parts...)}
}

// times is a ratio as a tick says it.
func times(v float64) string { return digits(v) + "x" }

// pairsOf are the comparisons under a mix, each upward.
func pairsOf(all []result.Comparison, mix string) (pairs []result.Comparison) {
	for _, c := range all {
		if c.Mix == mix {
			pairs = append(pairs, upward(c))
		}
	}
	return pairs
}

// upward is a comparison the way round in which its ratio is not below 1.
func upward(c result.Comparison) result.Comparison {
	if c.Ratio == nil || !(*c.Ratio < 1) || !sane(*c.Ratio) || *c.Ratio == 0 {
		return c
	}
	return c.Reversed()
}

// fastestOf is the strategy with the most purchases/s of all pairs.
func fastestOf(pairs []result.Comparison) (name string) {
	most := math.Inf(-1)
	for _, c := range pairs {
		if c.PerSecondA > most {
			name, most = c.A, c.PerSecondA
		}
		if c.PerSecondB > most {
			name, most = c.B, c.PerSecondB
		}
	}
	return name
}

// ratioOf is the ratio of a comparison as a value.
func ratioOf(c result.Comparison) value {
	if c.Ratio == nil || !sane(*c.Ratio) || *c.Ratio == 0 {
		return value{}
	}
	v := value{center: *c.Ratio, n: 1}
	if c.Low != nil && c.High != nil && sane(*c.Low) && sane(*c.High) && *c.Low > 0 {
		v.low, v.high, v.sure = *c.Low, *c.High, true
	}
	return v
}

// pairEntry is the line of a pair, and the same in words. Where the first is the same in all lines, only the second is
// named.
func pairEntry(c result.Comparison, second bool) (entry, string) {
	v := ratioOf(c)
	verdict := clean(string(c.Verdict))
	e := entry{name: clean(c.A) + " to " + clean(c.B), note: v.text(times), marks: []mark{{v, verdictGlyph(c.Verdict)}}}
	text := fmt.Sprintf("%s at %s: %s, %s", e.name, clean(c.Mix), v.text(times), verdict)
	if second {
		e.name = clean(c.B)
	}
	if v.n == 0 {
		e.note = verdict
	}
	if c.Reason != "" {
		e.warn = clean(c.Reason)
		text += " (" + clean(c.Reason) + ")"
	}
	return e, text
}

func verdictGlyph(v result.Compared) draw.GlyphStyle {
	g := draw.GlyphStyle{Radius: 3.5}
	switch v {
	case result.Faster:
		g.Color, g.Shape = series[0].color(), draw.CircleGlyph{}
	case result.Slower:
		g.Color, g.Shape = series[1].color(), draw.BoxGlyph{}
	case result.NoDifference:
		g.Color, g.Shape = series[2].color(), diamond{}
	default:
		g.Color, g.Shape = muted.color(), ring{}
	}
	return g
}

// verdictKeys explains the dots of the verdicts that there are.
func verdictKeys(there []result.Compared) part {
	var all []key
	for _, v := range []result.Compared{result.Faster, result.Slower, result.NoDifference, result.Undecided} {
		if g := verdictGlyph(v); slices.Contains(there, v) {
			all = append(all, key{glyph: &g, text: string(v)})
		}
	}
	return keys(all...)
}
