package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify/locktest"
)

const (
	comparedWith     = "fine:set-px" // a lock per item that expires, as most people have it
	comparedDuration = 5 * time.Second
	comparedMargin   = 0.05 // ratios within this of 1 are no difference
)

// A Comparison is what rounds of yours beside fine:set-px came to. Its String is what
// 'marketsim compare' prints of them.
type Comparison struct {
	// Verdict is "faster", "slower", "no difference" or "not decided": of yours.
	Verdict string
	Reason  string // why it is not decided; empty: the interval is too wide
	// Ratio is the median of your purchases/s over those of fine:set-px, divided inside each
	// round, from Low to High by Confidence; NaN: there is none.
	Ratio, Low, High float64
	Confidence       float64

	Rows []result.Row // round by round, in the order in which they were measured
	text string
}

// String is the verdict as 'marketsim compare' prints it.
func (c *Comparison) String() string { return c.text }

// CompareLock says how fast a lock of your own is beside fine:set-px: purchases under a lock
// for each item, in rounds, as 'marketsim compare' measures them. What open makes is what
// locktest.Check takes. Without Options.Rounds and Duration it takes two and a half minutes.
//
// The errors are those of [Measure]. A market that an audit found wrong, because the lock
// does not exclude others, is no error: nothing is decided then, for that Reason.
func CompareLock(ctx context.Context, open locktest.Open, mix result.Mix, o Options) (*Comparison, error) {
	const name = "mine"
	known := strategies.Builtin()
	known.Locks = append(known.Locks, open.Kind(name))
	own, err := known.Parse("fine:" + name)
	if err != nil {
		return nil, err
	}
	return compareWith(ctx, own, mix, o)
}

// ComparePurchaser is [CompareLock] for Purchasers of your own, which [Measure] takes, too.
func ComparePurchaser(ctx context.Context, open market.Open, mix result.Mix, o Options) (*Comparison, error) {
	return compareWith(ctx, strategies.Own("mine", open), mix, o)
}

// compareWith measures rounds of three rows: fine:set-px, yours, and fine:set-px again, by
// which a machine that is too busy is found out.
func compareWith(ctx context.Context, own strategies.Spec, mix result.Mix, o Options) (_ *Comparison, err error) {
	if o.Keep || o.History != "" {
		return nil, &load.PointError{Field: "keep", Why: "a comparison has many rows: leave Keep and History to Measure"}
	}
	o.Duration = cmp.Or(o.Duration, comparedDuration)
	base, err := strategies.Builtin().Parse(comparedWith)
	if err != nil {
		return nil, err
	}

	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	config := &run.Manifest.Config
	config.Margin = new(comparedMargin)
	config.DurationSeconds = o.Duration.Seconds()
	config.WarmupSeconds = o.Warmup.Seconds()
	for _, name := range []string{comparedWith, own.String(), comparedWith + "#2"} {
		config.Points = append(config.Points, result.Point{Strategy: name, Mix: mix, Load: o.Load})
	}

	fewest := compare.Fewest(len(compare.Pairs(*config)))
	config.Trials = cmp.Or(o.Rounds, max(9, fewest))
	if config.Trials < fewest {
		return nil, &load.PointError{Field: "rounds", Why: fmt.Sprintf("%d: a verdict takes %d or more", o.Rounds, fewest)}
	}

	server, err := serverOf(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	info, err := server.Info(ctx)
	if err != nil {
		return nil, err
	}
	run.Manifest.Backend = string(server.Name) // a report warns of miniredis
	run.Manifest.Server, run.Manifest.ServerVersion = info.Product, info.Version

	specs := []strategies.Spec{base, own, base}
	for round := 1; round <= config.Trials; round++ {
		for _, i := range rand.New(rand.NewPCG(o.Seed, uint64(round))).Perm(len(specs)) {
			row, err := o.measure(ctx, server, specs[i], config.Points[i], round)
			if err == nil && row.Status != stored.Complete {
				err = fmt.Errorf("row %s of round %d: %w", row.Name(), round, cmp.Or(context.Cause(ctx), context.Canceled))
			}
			if err != nil {
				return nil, err
			}
			run.Rows = append(run.Rows, row)
		}
	}
	return comparisonOf(run)
}

// comparisonOf judges complete rounds.
func comparisonOf(run *runs.Run) (*Comparison, error) {
	judged := compare.Of(run)[0] // of yours with fine:set-px; the other is that with itself
	var text strings.Builder
	report := view.Run(run)
	shown := &view.Doc{Title: report.Title, Findings: report.Findings}
	for _, block := range report.Blocks {
		if block.Heading == view.ComparisonHeading {
			shown.Blocks = append(shown.Blocks, block)
		}
	}
	if err := view.Text(&text, shown); err != nil {
		return nil, fmt.Errorf("print the comparison: %w", err)
	}

	return &Comparison{
		Verdict:    string(judged.Verdict),
		Reason:     judged.Reason,
		Ratio:      judged.Ratio,
		Low:        judged.Low,
		High:       judged.High,
		Confidence: judged.Confidence,
		Rows:       run.Rows,
		text:       text.String(),
	}, nil
}
