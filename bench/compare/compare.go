// Package compare says how fast a [Lock] or a [Purchaser] of your own is beside fine:set-px, a
// lock of marketsim's. Who only measures needs package bench alone, which links less.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	verdicts "github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify/locktest"
)

// The row beside yours, and how ratios of the two are judged.
const (
	besideSpec = "fine:set-px" // a lock per item that expires, as most people have it
	duration   = 5 * time.Second
	margin     = 0.05 // ratios within this of 1 are no difference
	rounds     = 9    // with these a difference of 10% is found half of the time
)

// Options are how a comparison is measured. The zero value measures on a server of its own,
// for two and a half minutes.
type Options struct {
	// URL is the server's, such as "redis://localhost:6379/2". If it is empty, a private
	// redis-server is started or, where there is none, miniredis, whose numbers are not
	// Redis's.
	URL string

	Load     result.Load   // zero: the usual market
	Duration time.Duration // measured time of a row; 0: 5 s
	Warmup   time.Duration // before that, not counted
	// Rounds are those that are measured, each with a row of yours and two of fine:set-px;
	// 0: 9.
	Rounds int
	// Orders of an open loop that take longer are late; 0: only those that bought nothing are.
	SLO  time.Duration
	Seed uint64 // from which prices, orders and the order of rows are drawn; 0 is 1
}

// A Comparison is what rounds of yours beside fine:set-px came to. Its String is what
// 'marketsim compare' prints of them.
type Comparison struct {
	// Verdict is "faster", "slower", "no difference" or "not decided": of yours.
	Verdict string
	Reason  string // why it is not decided; empty: the interval is too wide
	// Ratio is your purchases/s over those of fine:set-px, divided inside each round: the median.
	// Low to High is its interval, at Confidence, 0 to 1. NaN: there is none.
	Ratio, Low, High float64
	Confidence       float64

	Rows []result.Row // round by round, in the order in which they were measured
	text string
}

// String is the verdict as 'marketsim compare' prints it.
func (c *Comparison) String() string { return c.text }

// Lock says how fast a lock of your own is beside fine:set-px: purchases under a lock for
// each item, in rounds, as 'marketsim compare' measures them. What open makes is what
// locktest.Check takes.
//
// The errors are those of bench.Measure; too few Rounds for a verdict are bench.ErrPoint, and
// if ctx ends the error wraps its cause, as nothing is said of half a comparison. A market that
// an audit found wrong, because the lock does not exclude others, is no error: nothing is
// decided then, for that Reason.
func Lock(ctx context.Context, open locktest.Open, mix result.Mix, o Options) (*Comparison, error) {
	const name = "mine"
	known := strategies.Builtin()
	known.Locks = append(known.Locks, open.Kind(name))
	own, err := known.Parse("fine:" + name)
	if err != nil {
		return nil, err
	}
	return beside(ctx, own, mix, o)
}

// Purchaser is [Lock] for Purchasers of your own, which bench.Measure takes, too.
func Purchaser(ctx context.Context, open market.Open, mix result.Mix, o Options) (*Comparison, error) {
	return beside(ctx, strategies.Own("mine", open), mix, o)
}

// beside measures rounds of three rows: fine:set-px, yours, and fine:set-px again, by which
// a machine that is too busy is found out.
func beside(ctx context.Context, own strategies.Spec, mix result.Mix, o Options) (_ *Comparison, err error) {
	o.Duration = cmp.Or(o.Duration, duration)
	o.Seed = cmp.Or(o.Seed, load.DefaultSeed)
	base, err := strategies.Builtin().Parse(besideSpec)
	if err != nil {
		return nil, err
	}
	run, err := o.plan(own.String(), mix)
	if err != nil {
		return nil, err
	}

	server, err := backend.Open(ctx, o.URL)
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

	specs := []strategies.Spec{base, own, base} // in the order of the points of o.plan
	config := run.Manifest.Config
	for round := 1; round <= config.Trials; round++ {
		// Drawn from the seed and the round, as plan.order of cmd/marketsim draws it.
		for _, i := range rand.New(rand.NewPCG(o.Seed, uint64(round))).Perm(len(specs)) {
			row, err := o.measure(ctx, server, specs[i], config.Points[i], round)
			// A row that ctx has ended is no error of Measure: its status says so.
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

// plan is a run without rows: complete, since beside judges no other. It refuses rounds that
// decide nothing.
func (o Options) plan(own string, mix result.Mix) (*runs.Run, error) {
	run := &runs.Run{Schema: runs.Schema, Status: stored.Complete}
	config := &run.Manifest.Config
	config.Margin = new(margin)
	config.DurationSeconds = o.Duration.Seconds()
	config.WarmupSeconds = o.Warmup.Seconds()
	// In this order the first pair of the plan is yours with fine:set-px, which comparisonOf takes.
	// The "#2" marks a control: if it differs from what it repeats, verdicts.Of decides nothing.
	for _, name := range []string{besideSpec, own, besideSpec + "#2"} {
		config.Points = append(config.Points, result.Point{Strategy: name, Mix: mix, Load: o.Load})
	}

	fewest := verdicts.Fewest(verdicts.Intervals(*config))
	config.Trials = cmp.Or(o.Rounds, max(rounds, fewest))
	if config.Trials < fewest {
		return nil, &load.PointError{Field: "rounds", Why: fmt.Sprintf("%d: a verdict takes %d or more", o.Rounds, fewest)}
	}
	return run, nil
}

// measure measures one row.
func (o Options) measure(
	ctx context.Context, server *backend.Server, subject strategies.Spec, point result.Point, round int,
) (row result.Row, err error) {
	keys, err := load.OwnKeys(point.Markets)
	if err != nil {
		return row, err
	}

	sites, err := load.Sites(server, keys, min(point.Markets, load.MaxWorkers)) // Measure refuses more
	if err != nil {
		return row, err
	}
	return load.Measure(ctx, point, load.Options{
		Subject:  subject,
		Duration: o.Duration,
		Warmup:   o.Warmup,
		SLO:      o.SLO,
		Seed:     o.Seed + uint64(round-1), // prices are the same for all rows of a round
		Trial:    round,
		Keys:     keys,
		Servers:  connect.MarketServers{Market: server.Dialer(keys.Prefix())},
		Sites:    sites,
	})
}

// comparisonOf judges complete rounds.
func comparisonOf(run *runs.Run) (*Comparison, error) {
	// Of yours with fine:set-px, by purchases/s, as the plan names no metric. The other is of
	// fine:set-px with itself.
	judged := verdicts.Of(run)[0]

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
