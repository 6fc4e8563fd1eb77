package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/judge"
)

// judgeFlags are those of the command judge.
type judgeFlags struct {
	adapter string
	promise string
	of      []string
	server  string
	replay  string
	options judge.Options
	out     output
}

func newJudge(p *program) *cobra.Command {
	var f judgeFlags
	cmd := &cobra.Command{
		Use:   "judge [--purchase] -- COMMAND [ARG...]",
		Short: "Have two copies of a program in any language take a lock, or buy, in every schedule of them",
		Long: `Have two copies of a program in any language take a lock, or buy, in every schedule of them: each stands behind
a gate that delivers one of its requests at a time to a private redis-server, and is stopped, killed, or loses a reply,
at each point where that can happen. What does harm is shown as the shortest schedule that does. The exit code is 3
where two are inside within their leases, where a release frees another's lock, where others are kept out for good, or
where the market's audit finds something; that a client which is stopped for longer than its lease loses it is told, and
breaks nothing. Needs Linux and redis-server.

The program reads a line, and answers it with one. When its input ends, it ends:

  acquire NAME    acquired | timeout (it is asked again) | error TEXT
  release         released | lost | done (the library does not say) | error TEXT

With --purchase it buys, for two buyers of one item, and for two purchases from an account that has funds for one:

  buy ITEM BUYER SELLER PRICE   bought | gone | price | funds | busy (it gave up, and did nothing) | error TEXT

The member ITEM.SELLER of the sorted set market: has the price as its score, the hash users:BUYER has the field funds,
and the set inventory:BUYER gets the item. An error may have bought; any other answer says what happened for certain.

It finds the server by REDIS_HOST and REDIS_PORT or by REDIS_URL: without a password, without TLS, no cluster. Its lock
lasts for LOCK_TTL_MS, and it sleeps for LOCK_RETRY_MS between two attempts. --adapter python prints a whole one.`,
		Example: `  marketsim judge --adapter python > lock.py
  marketsim judge -- python3 lock.py
  marketsim judge --faults 0 --preemptions 2 -- node lock.js
  marketsim judge --purchase -- python3 buy.py`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), p, args) },
	}
	group(cmd, "Bounds", func(flags *pflag.FlagSet) {
		flags.IntVar(&f.options.Bounds.Preemptions, "preemptions", 1,
			"a client that could go on waits for the other one at most `N` times")
		flags.IntVar(&f.options.Bounds.Faults, "faults", 1, "at most `N` faults happen")
		flags.StringSliceVar(&f.of, "of", nil, "`kinds` of faults, separated by commas (default all):\n"+
			strings.Trim(fmt.Sprint(judge.Kinds()), "[]"))
		flags.DurationVar(&f.options.Within, "within", time.Minute, "the search stops after this `duration`")
		flags.IntVar(&f.options.Bounds.Schedules, "schedules", 100_000, "the search stops after `N` schedules")
	})
	group(cmd, "Program", func(flags *pflag.FlagSet) {
		flags.BoolVar(&f.options.Purchase, "purchase", false, "the program buys, and takes no lock for others")
		flags.DurationVar(&f.options.Lease, "lease", 0,
			"`duration` of a lease (default the shortest of 500ms, 1s and 2s that the lock can have)")
		flags.IntVar(&f.options.Pairs, "pairs", 4, "`N` pairs of clients play schedules at the same time")
		flags.StringVar(&f.server, "server", "", "`path` of the redis-server (default from PATH)")
		flags.StringVar(&f.replay, "replay", "", "`token` of a schedule to play again")
		flags.StringVar(&f.adapter, "adapter", "", "print a program to start from, in this `language`: "+
			strings.Join(judge.Adapters("lock"), ", ")+",\nor with --purchase "+strings.Join(judge.Adapters("purchase"), ", "))
	})
	group(cmd, "Promises", func(flags *pflag.FlagSet) {
		flags.StringVar(&f.promise, "promise", "", "what else the lock `promises`: notices-loss, that whoever releases a lock\n"+
			"which is another's by now is told so")
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.add(flags, faultsFormats)
		f.out.addFolder(flags, exploredFile)
	})
	return cmd
}

func (f *judgeFlags) run(ctx context.Context, p *program, command []string) error {
	if f.adapter != "" {
		text, err := judge.Adapter(map[bool]string{true: "purchase", false: "lock"}[f.options.Purchase], f.adapter)
		if err != nil {
			return usageError{fmt.Errorf("--adapter: %w", err)}
		}
		_, err = fmt.Fprint(p.stdout, text)
		return err
	}
	b := &f.options.Bounds
	switch {
	case len(command) == 0:
		return usageError{errors.New("which program is judged? 'marketsim judge -- COMMAND'; --help tells what it has to do")}
	case min(b.Preemptions, b.Faults) < 0 || b.Schedules < 1 || f.options.Pairs < 1:
		return usageError{errors.New("--preemptions and --faults are 0 at least, --schedules and --pairs 1")}
	case f.promise != "" && f.promise != "notices-loss":
		return usageError{fmt.Errorf("--promise: it is notices-loss, and not %q", f.promise)}
	case f.options.Within <= 0:
		return usageError{errors.New("--within is more than 0")}
	case f.options.Lease < 0 || f.options.Lease > 0 && f.options.Lease < 100*time.Millisecond:
		return usageError{errors.New("--lease is 100ms at least")}
	}
	if _, _, _, err := explore.ParseToken(f.replay); err != nil && f.replay != "" {
		return usageError{fmt.Errorf("--replay: %w", err)}
	}
	for _, kind := range f.of {
		if !slices.Contains(judge.Kinds(), explore.Fault(kind)) {
			return usageError{fmt.Errorf("--of: there is no fault %q; 'marketsim judge --help' names them", kind)}
		}
		b.Kinds = append(b.Kinds, explore.Fault(kind))
	}
	if err := f.out.prepare(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.options.NoticesLoss = f.promise != ""
	f.options.Proof = []string{self, "adapter"}
	ctx, stop := p.interruptible(ctx)
	defer stop()
	f.options.Command, f.options.Server, b.Exhaustive = command, backend.Local{Program: f.server}, true
	res, err := f.judged(ctx)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if errors.Is(err, judge.ErrAdapter) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	res.Version = version()
	var broken error
	for _, e := range res.Broken() {
		broken = errors.Join(broken, fmt.Errorf("%w: %q is broken: %s", errViolation, e.Broken, e.Found()))
	}
	return errors.Join(broken, f.out.finish(p.stdout, p.stderr, res))
}

// judged is what is found of the program, or by a token.
func (f *judgeFlags) judged(ctx context.Context) (*verify.Explorations, error) {
	if f.replay == "" {
		return judge.Judge(ctx, f.options)
	}
	one, err := judge.Replay(ctx, f.options, f.replay)
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	_, name, _, _ := explore.ParseToken(f.replay) // which it has been
	of := verify.Explored{Scheme: strings.Join(f.options.Command, " "), Program: name, Schedules: 1}
	return &verify.Explorations{
		Schema: verify.ExploredSchema, Judged: true, Searches: []verify.Explored{f.options.Found(of, one)},
	}, nil
}
