package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// sessionFlags are the flags of every command that runs rows.
type sessionFlags struct {
	server   serverFlags
	out      outputFlags
	duration time.Duration
	warmup   time.Duration
	trials   int
	seed     uint64
	prefix   string
}

// add adds the flags, whose defaults for the length of a row and the number of rounds each command has of its own.
func (f *sessionFlags) add(cmd *cobra.Command, duration, warmup time.Duration, trials int) {
	f.server.addBackend(cmd)
	f.out.add(cmd)
	f.out.addFolder(cmd, runFiles(), "run.json, report.txt, report.md and rows.csv")
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", duration, "measured time of a row")
	flags.DurationVar(&f.warmup, "warmup", warmup, "time before that, not counted")
	flags.IntVar(&f.trials, "trials", trials,
		"rounds, 1, 6, 9, 12 or 15: in each, every row is measured once, in a new order")
	flags.Uint64Var(&f.seed, "seed", bench.DefaultSeed, "seed of prices and of the orders of listings and rows")
	flags.StringVar(&f.prefix, "prefix", "", `prefix of every key, ending in ":" (default marketsim:{<random>}:)`)
}

// longest bounds the times that may be asked for: a year.
const longest = 365 * 24 * time.Hour

// drawnPrefix is how the prefixes begin that nobody chose.
const drawnPrefix = "marketsim:{"

// drawn reports whether a prefix was drawn at random, so that nobody else uses it.
func drawn(keys market.Keys) bool { return drawnForm.MatchString(keys.Prefix()) }

var drawnForm = regexp.MustCompile(`^marketsim:(?:\{[0-9a-f]{8}\}|[0-9a-f]{8}):$`)

// config checks the flags, the number of rounds with checkTrials.
func (f sessionFlags) config(checkTrials func(int) error) (sessionConfig, error) {
	switch {
	case max(f.duration, f.warmup) > longest:
		return sessionConfig{}, usageError{fmt.Errorf("--duration and --warmup take at most %s", longest)}
	case f.duration <= 0:
		return sessionConfig{}, usageError{fmt.Errorf("--duration %s: must be positive", f.duration)}
	case f.warmup < 0:
		return sessionConfig{}, usageError{fmt.Errorf("--warmup %s: must not be negative", f.warmup)}
	}
	if err := checkTrials(f.trials); err != nil {
		return sessionConfig{}, err
	}
	prefix := f.prefix
	if prefix == "" {
		var id [4]byte
		rand.Read(id[:])
		prefix = drawnPrefix + hex.EncodeToString(id[:]) + "}:"
	}
	keys, err := market.NewKeys(prefix)
	if err != nil {
		return sessionConfig{}, err
	}
	server, err := f.server.config()
	if err != nil {
		return sessionConfig{}, err
	}
	out, err := f.out.config()
	if err != nil {
		return sessionConfig{}, err
	}
	return sessionConfig{
		server: server, out: out, freshPrefix: f.prefix == "", trials: f.trials,
		base: bench.Config{
			Duration: f.duration, Warmup: f.warmup, Seed: f.seed, Funds: bench.DefaultFunds,
			Keys: keys, Private: server.target == nil,
		},
	}, nil
}

// sessionConfig is what run and reproduce are to do. Nothing in it runs.
type sessionConfig struct {
	server      serverConfig
	locks       lockConfig
	out         outputs
	base        bench.Config // what all rows have in common; the session adds the servers
	freshPrefix bool         // the prefix was drawn at random, so nobody else uses it
	specs       []rowSpec    // the rows of a round, each once
	trials      int          // how many rounds there are
	open        rateConfig   // whether the loops are open
	history     string       // the folder into which operations are recorded, or empty
	book        bool         // this reproduces the book's tables
	margin      *float64     // of no difference, if this compares strategies
	sweep       *sweepConfig // nil: this is no sweep
}

// session runs the rows of a config on servers that it starts, and reports.
type session struct {
	*program
	config  sessionConfig
	server  *backend.Server
	sites   []bench.Site // of the row with the most markets
	locks   *servers.Locks
	measure func(context.Context, bench.Config) (result.Row, error)
	started []func() error // what ends the servers
	rows    []bench.Config
	result  result.Run
	wrong   error // what audits found, and what histories show
}

// measure runs a session, and reports what came out, however it ended.
func (p *program) measure(ctx context.Context, config sessionConfig) (err error) {
	defer func() {
		err = config.server.pasteable(conceal(err, config.server.password()), config.base.Keys.Prefix())
	}()
	defer removeEmpty(missing(config.out.dir, config.history))
	if err := config.out.prepare(); err != nil {
		return err
	}
	if err := prepareHistory(config.history); err != nil {
		return err
	}
	s := &session{program: p, config: config, measure: bench.Run, rows: config.rows()}
	defer func() { err = errors.Join(err, s.close()) }()
	s.describe()
	for _, begin := range []func(context.Context) error{s.start, s.vacant, s.rehearse, s.describeServers} {
		if err := begin(ctx); err != nil && ctx.Err() != nil {
			s.config.out = s.config.out.replacingNothing()
			return s.end(result.Interrupted, nil)
		} else if err != nil {
			return err
		}
	}
	return s.run(ctx)
}

// start starts the servers of the locks, and starts or names the market's.
func (s *session) start(ctx context.Context) error {
	fmt.Fprintln(s.stderr, s.config.ahead())
	var err error
	if s.locks, err = s.config.locks.start(ctx); err != nil {
		return err
	}
	s.ends(s.locks.Close)
	missing, err := s.locks.Preflight(ctx, s.config.base.Keys.Lock("preflight"))
	if err != nil {
		return err
	}
	for _, without := range missing {
		fmt.Fprintf(s.stderr, "warning: %s\n", without)
	}
	if s.server, err = s.config.server.start(ctx); err != nil {
		return err
	}
	s.ends(s.server.Close)
	if err := s.place(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.stderr, "backend: %s\n", s.server.Describe())
	return nil
}

// ends registers the function that ends a server. It is called when the session ends, or at the user's second Ctrl-C.
func (s *session) ends(end func() error) {
	s.started = append(s.started, end)
	s.interrupts.atOnce(end)
}

// close ends the servers.
func (s *session) close() error {
	var errs []error
	for _, end := range slices.Backward(s.started) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// vacant refuses a prefix that already holds keys. It names the prefix before the first key is made, so that the user
// knows it if the run is killed.
func (s *session) vacant(ctx context.Context) error {
	if !s.config.freshPrefix {
		if err := s.occupied(ctx); err != nil {
			return err
		}
	}
	if !s.config.base.Private {
		prefix := s.config.base.Keys.Prefix()
		fmt.Fprintf(s.stderr, "keys: under %s, removed at the end; after a kill by: %s\n", prefix,
			s.config.server.clean(prefix))
	}
	return nil
}

// rehearse tries every command that the strategies need.
func (s *session) rehearse(ctx context.Context) error {
	seen := map[string]bool{}
	for _, c := range s.rows {
		if name := c.Subject.String(); !seen[name] {
			seen[name] = true
			if err := bench.Rehearse(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs row after row until one fails or the user stops it, then reports. It stores the result after each row,
// or after each round where there are several, so that it is not lost with the process.
func (s *session) run(ctx context.Context) error {
	p := newRowProgress(s.stderr, isTerminal(s.stderr), s.rows, max(1, s.config.trials))
	end := func(status result.Status, failure error) error {
		p.clear()
		return s.end(status, failure)
	}
	for i := range s.rows {
		if ctx.Err() != nil {
			return end(result.Interrupted, nil)
		}
		c := &s.rows[i]
		shown := p.row(*c)
		measured, err := s.measure(ctx, *c)
		shown()
		if s.config.sweep != nil { // which has many rows: with these its file would be three times as large
			measured.Series, measured.Histograms = nil, result.Histograms{}
		}
		s.result.Rows = append(s.result.Rows, measured)
		p.finished(*c, &s.result)
		row := &s.result.Rows[len(s.result.Rows)-1]
		s.wrong = errors.Join(s.wrong, s.auditError(*row))
		if err != nil {
			return end(result.Incomplete, err)
		}
		if row.Status == result.Interrupted {
			return end(result.Interrupted, nil)
		}
		if s.config.trials > 1 && len(s.result.Rows)%len(s.config.specs) != 0 {
			continue
		}
		s.conclude()
		if err := s.config.out.save(report.Run(&s.result)); err != nil {
			return end(result.Incomplete, err)
		}
	}
	return end(result.Complete, nil)
}

// conclude says what the rows so far come to.
func (s *session) conclude() {
	if s.config.sweep != nil {
		s.result.Sweep = sweep.Analyse(&s.result)
		return
	}
	s.result.Comparisons = compare.Rounds(&s.result)
}

// auditError is an error if the audit found a row wrong.
func (s *session) auditError(r result.Row) error {
	if !r.Audit.Done || r.Audit.OK {
		return nil
	}
	round := ""
	if s.config.trials > 1 {
		round = fmt.Sprintf(" in round %d", r.Trial)
	}
	return fmt.Errorf("%w: the audit of %s%s found %s", errViolation, r.Name(), round, wrong(r.Audit))
}

// end stores and prints the result, and returns an error for the exit code.
func (s *session) end(status result.Status, failure error) error {
	s.result.Status = status
	if s.config.book {
		s.result.Claims = bench.Judge(&s.result)
	}
	s.conclude()
	finished := s.config.out.finish(s.stdout, s.stderr, report.Run(&s.result))
	if s.config.base.Keep && len(s.result.Rows) > 0 {
		prefix := s.config.base.Keys.Prefix()
		fmt.Fprintf(s.stderr, "the market is kept under %s; remove it with: %s\n", prefix, s.config.server.clean(prefix))
	}
	ended := func(c bench.Config) bool { return history.Ended(c.History) }
	if s.config.history != "" && slices.ContainsFunc(s.rows, ended) {
		fmt.Fprintf(s.stderr, "history recorded; judge it with: marketsim check %s\n", quote(s.config.history))
	}
	failed := s.incomplete(status, failure)
	if status == result.Complete {
		failed = bench.NothingBought(s.result.Rows, s.config.base.Duration)
	}
	return errors.Join(s.wrong, failed, finished)
}

// incomplete says how many rows are complete, if not all are.
func (s *session) incomplete(status result.Status, failure error) error {
	done := 0
	for _, r := range s.result.Rows {
		if r.Status == result.Complete {
			done++
		}
	}
	rows := fmt.Sprintf("%d of %s complete; the report holds what was measured",
		done, english.Plural(len(s.config.specs)*max(1, s.config.trials), "row", ""))
	switch {
	case failure != nil:
		return fmt.Errorf("incomplete: %s\n%w", rows, failure)
	case status == result.Interrupted:
		return fmt.Errorf("%w: %s", errInterrupted, rows)
	}
	return nil
}
