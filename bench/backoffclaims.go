package bench

import (
	"slices"

	"github.com/marketsim/marketsim/bench/result"
)

// The back-offs that claims are made about, and how many clients begin at once.
var (
	noBackoff, exponential   = "watch", "watch:backoff=exp"
	fullJitter, decorrelated = "watch:backoff=full", "watch:backoff=decorrelated"

	few, many, most = result.Mix{Sellers: 1, Buyers: 10}, result.Mix{Sellers: 1, Buyers: 50}, result.Mix{Sellers: 1, Buyers: 100}
	atOnce          = []result.Mix{few, many, most}
)

// AtOnceStrategies and AtOnceMixes are the rows that the claims about back-off are judged on. AtOnce measures them.
func AtOnceStrategies() []string {
	return []string{noBackoff, exponential, fullJitter, decorrelated}
}

// AtOnceMixes are the mixes of AtOnceStrategies.
func AtOnceMixes() []result.Mix { return slices.Clone(atOnce) }

// Tolerances, decided before anything was measured.
const (
	moreWork   = 2.0 // "tries grow faster than clients"; the simulation has 4.8
	inStep     = 2.0 // "grows as clients do": so many times more or less of a client's share
	littleWork = 0.5 // "saves little work": at least this part is left
)

// backoffClaims are the claims of the second part of results/reference/SOURCES.md, in its order. Their ids follow the
// book's. Each is about clients that begin at once.
var backoffClaims = []claim{
	{
		text:      "no back-off: tries grow faster than clients",
		published: "with its square (4.8 times the tries a client at 100 clients as at 10)",
		tolerance: "at least 2 times the tries a client at 100 clients as at 10",
		measure:   growing(triesEach),
		words:     byMix(" tries a client", atOnce...),
		number:    "%s times",
		holds:     func(times float64) bool { return times >= moreWork },
	}, {
		text:      "no back-off: the time until all have finished grows as clients do",
		published: "in proportion (0.54 times the time a client at 100 clients as at 10)",
		tolerance: "at most 2 times as much or as little time a client at 100 clients as at 10",
		measure: func(r round) (finding, error) {
			f, err := growing(finishEach)(r)
			if err == nil {
				f.number = max(f.number, 1/f.number)
			}
			return f, err
		},
		words:  byMix(" ms a client", atOnce...),
		number: "%s times",
		holds:  func(times float64) bool { return times <= inStep },
	}, {
		text:      "back-off without jitter saves little work",
		published: "0.76 of the tries without back-off at 100 clients",
		tolerance: "at least half the tries without back-off at 100 clients",
		measure:   dividing(triesEach, slices.Min[[]float64], noBackoff, exponential),
		words:     byStrategy(" tries a client", noBackoff, exponential),
		number:    "%s of them",
		holds:     func(part float64) bool { return part >= littleWork },
	}, {
		text:      "jitter saves more than half of that work",
		published: "0.43 of the tries of back-off without jitter at 100 clients",
		tolerance: "full jitter less than half the tries of back-off without jitter at 100 clients",
		measure:   dividing(triesEach, slices.Max[[]float64], exponential, fullJitter),
		words:     byStrategy(" tries a client", exponential, fullJitter),
		number:    "%s of them",
		holds:     func(part float64) bool { return part < littleWork },
	}, {
		text:      "jitter: all have finished sooner than without it",
		published: "0.08 of the time at 100 clients",
		tolerance: "less time at 100 clients, with either kind of jitter",
		measure:   dividing(finishEach, slices.Max[[]float64], exponential, fullJitter, decorrelated),
		words:     byStrategy(" ms a client", exponential, fullJitter, decorrelated),
		number:    "at most %s of it",
		holds:     func(part float64) bool { return part < 1 },
	}, {
		text:      "full jitter does less work than decorrelated jitter",
		published: "0.79 of its tries at 100 clients",
		tolerance: "fewer tries at 100 clients",
		measure:   dividing(triesEach, slices.Max[[]float64], decorrelated, fullJitter),
		words:     byStrategy(" tries a client", decorrelated, fullJitter),
		number:    "%s of them",
		holds:     func(part float64) bool { return part < 1 },
	}, {
		text:      "full jitter takes longer than decorrelated jitter",
		published: "1.05 times its time at 100 clients",
		tolerance: "more time at 100 clients",
		measure:   dividing(finishEach, slices.Min[[]float64], decorrelated, fullJitter),
		words:     byStrategy(" ms a client", decorrelated, fullJitter),
		number:    "%s times",
		holds:     func(times float64) bool { return times > 1 },
	},
}

// triesEach is how many tries one purchase of a row took.
func triesEach(r result.Row) float64 { return float64(r.Bought+r.Retries) / float64(r.Bought) }

// finishEach is the time until all clients of a row have bought, divided by their number, in milliseconds.
func finishEach(r result.Row) float64 { return 1000 * r.Seconds / float64(r.Bought) }

// growing compares the most clients without back-off with the fewest.
func growing(of func(result.Row) float64) func(round) (finding, error) {
	return func(r round) (finding, error) {
		rows, err := r.buying(noBackoff, atOnce...)
		if err != nil {
			return finding{}, err
		}
		var f finding
		for _, row := range rows {
			f.values = append(f.values, of(row))
		}
		f.number = f.values[len(f.values)-1] / f.values[0]
		return f, nil
	}
}

// dividing divides what most clients do with each of others by what they do with base. The worst of these is judged.
func dividing(of func(result.Row) float64, worst func([]float64) float64, base string, others ...string,
) func(round) (finding, error) {
	return func(r round) (finding, error) {
		var f finding
		var parts []float64
		for i, strategy := range append([]string{base}, others...) {
			rows, err := r.buying(strategy, most)
			if err != nil {
				return finding{}, err
			}
			f.values = append(f.values, of(rows[0]))
			if i > 0 {
				parts = append(parts, f.values[i]/f.values[0])
			}
		}
		f.number = worst(parts)
		return f, nil
	}
}
