package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
)

// A trader is a strategy under a mix: one row to be measured.
type trader struct {
	spec strategies.Spec
	mix  bench.Mix
}

// session measures rows on one server, and reports.
type session struct {
	flags  *sessionFlags
	server *backend.Server
	base   bench.Config // what all rows have in common
	rows   []bench.Config
	result bench.Result
	judged error // what the histories of rough rows show
	stdout io.Writer
	stderr io.Writer
}

// measure runs all traders with the options of base, and reports what came out, however it ended. The book's tables
// that this reproduces, if any, are named.
func (f *sessionFlags) measure(cmd *cobra.Command, args []string, traders []trader, base bench.Config, tables []string) (err error) {
	defer func() { err = conceal(err, f.server.password) }()
	if err := f.precheck(); err != nil {
		return err
	}
	if base.Keys, err = f.keys(); err != nil {
		return err
	}
	ctx := cmd.Context()
	server, end, err := f.start(ctx)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, end()) }()
	onLeave(ctx, end)

	base.Duration, base.Warmup, base.Seed = f.duration, f.warmup, f.seed
	base.Dial, base.Private = server.Dial, server.Kind != backend.KindURL
	s := &session{flags: f, server: server, base: base, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	trials := map[string]int{}
	for i, t := range traders {
		row := t.spec.String() + " " + t.mix.String()
		trials[row]++
		c := base
		c.Subject, c.Mix, c.Trial = t.spec, t.mix, trials[row]
		if f.rough != nil {
			f.rough.rough(&c, t.spec, s.stderr)
		}
		if f.histories != nil {
			c.History = f.histories[i]
		}
		s.rows = append(s.rows, c)
	}
	s.announce()
	if f.rough != nil {
		f.rough.announce(s.stderr, f.seed, traders)
	}
	if err := s.prepare(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	if err := s.describe(ctx, args, tables); err != nil {
		return interruptedOr(ctx, err)
	}
	return s.run(ctx)
}

// start starts or names the market's server. End closes it.
func (f *sessionFlags) start(ctx context.Context) (server *backend.Server, end func() error, err error) {
	if f.rough == nil {
		if server, err = f.server.start(ctx); err != nil {
			return nil, nil, err
		}
		return server, server.Close, nil
	}
	if server, err = f.rough.start(ctx); err != nil {
		return nil, nil, err
	}
	return server, f.rough.arena.Close, nil
}

// interruptedOr is errInterrupted if the user stopped what failed, told with the failure, else the failure itself.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%v)", errInterrupted, err)
	}
	return err
}

// announce says where the market runs. The prefix is told before the first key is made, so that it is known should
// the run be killed.
func (s *session) announce() {
	fmt.Fprintf(s.stderr, "backend: %s\n", s.server.Describe())
	if !s.base.Private {
		fmt.Fprintf(s.stderr, "keys: under %s, removed at the end; after a kill, by 'marketsim clean --prefix %s'\n",
			s.base.Keys.Prefix(), s.base.Keys.Prefix())
	}
}

// prepare makes sure that the prefix is free, and rehearses every strategy.
func (s *session) prepare(ctx context.Context) error {
	if err := s.vacant(ctx); err != nil {
		return err
	}
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

// vacant refuses a prefix that already holds keys. One drawn at random is vacant.
func (s *session) vacant(ctx context.Context) (err error) {
	if s.flags.prefix == "" {
		return nil
	}
	conn, err := s.server.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return market.Occupied(ctx, conn.Client, s.base.Keys)
}

// run measures row after row until one fails or the user stops it, then reports.
func (s *session) run(ctx context.Context) error {
	p := newProgress(s.stderr, isTerminal(s.stderr) && s.flags.rough == nil, s.rows)
	for _, c := range s.rows {
		if ctx.Err() != nil {
			return s.end(bench.Interrupted, nil)
		}
		end := p.row(c)
		if s.flags.rough != nil {
			if err := s.flags.rough.record(&c); err != nil {
				return s.end(bench.Incomplete, err)
			}
		}
		row, err := bench.Run(ctx, c)
		end()
		p.finished(c, row)
		s.result.Rows = append(s.result.Rows, row)
		if s.flags.rough != nil {
			s.judged = errors.Join(s.judged, s.flags.rough.judge(ctx, s.stderr, c, row, err))
		}
		if err != nil {
			return s.end(bench.Incomplete, err)
		}
		if row.Status == bench.Interrupted {
			return s.end(bench.Interrupted, nil)
		}
		if err := s.flags.out.save(&s.result); err != nil {
			return s.end(bench.Incomplete, err)
		}
	}
	return s.end(bench.Complete, nil)
}
