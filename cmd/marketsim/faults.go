package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

type faultFlags struct {
	scenarios, locks []string
	scripts          scriptFlags
	catalogue        strategies.Catalogue
	add              string // the folder whose table is completed; empty: a new table is made
	out              output
}

func newFaults(p *program) *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use: "faults [SPEC...] [--scenario NAME[,NAME...]]",
		RunE: func(cmd *cobra.Command, args []string) error {
			// A SPEC may stand with or without --lock.
			f.locks = slices.Concat(words(args), f.locks)
			return f.run(cmd.Context(), p)
		},
	}

	group(cmd, "Cells", func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&f.scenarios, "scenario", nil,
			"`names` of scenarios, separated by commas (default all but those of a cluster)")
		flags.StringSliceVar(&f.locks, "lock", nil, "more `SPEC`s of locks, under the strategy fine, or of strategies "+
			"(default all, on a cluster watch, fine and lua)")
		f.scripts.add(flags)
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.addFolder(flags, faultsFormats, faultsFile)
		flags.BoolVar(&p.quiet, "quiet", false, "print results, warnings and errors only")
		flags.StringVar(&f.add, "add", "", "`folder` whose "+faultsFile+" is completed")
	})
	cmd.MarkFlagsMutuallyExclusive("add", "out")
	return cmd
}

// chosen is what was asked for; by default every scenario without a cluster, and every
// scheme, or on a cluster three.
func (f *faultFlags) chosen() (scenarios []fault.Scenario, schemes []fault.Scheme, err error) {
	scenarios, locks := fault.DefaultScenarios(), f.locks
	if len(f.scenarios) > 0 {
		scenarios, err = fault.ScenariosNamed(f.scenarios...)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; 'marketsim list --scenarios' says what each is", err)
		}
	}

	if len(locks) == 0 {
		locks = fault.SchemeNames(f.catalogue)
		if slices.ContainsFunc(scenarios, func(sc fault.Scenario) bool { return sc.OnCluster }) {
			// The help of --lock and docs/failover.md name them, too.
			locks = []string{"watch", "fine", "lua"}
		}
	}
	schemes, err = fault.Schemes(f.catalogue, locks...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; 'marketsim list' shows locks, strategies and their parameters", err)
	}
	return scenarios, schemes, nil
}

// run plays what was asked for, or with --add what the table there lacks, too. It draws and stores
// what was found even if an error or an interrupt came before the end.
func (f *faultFlags) run(ctx context.Context, p *program) error {
	known, scripts, err := f.scripts.known(f.locks)
	if err != nil {
		return err
	}
	f.catalogue = known
	scenarios, schemes, err := f.chosen()
	if err != nil {
		return err
	}
	// With --add the result has all, and what was asked for is played again. The table has no
	// scripts of the user, which f.catalogue may have.
	if f.add != "" {
		scenarios, schemes, err = (&faultFlags{catalogue: catalogue.Full()}).chosen()
		if err != nil {
			return err
		}
	}

	res := fault.NewResult(version(), scenarios, schemes)
	res.Manifest.Scripts = scripts
	p.passwords.hideInScripts(scripts)
	var before *findings.FaultTable // of --add
	if f.add != "" {
		// It also has f.out replace the table in that folder: prepare comes after this.
		before, err = f.completes(res)
		if err != nil {
			return err
		}
	}

	if err := f.out.prepare(); err != nil {
		return err
	}
	ctx, stop := p.interruptible(ctx)
	defer stop()

	p.progress("%s with %s each", english.Plural(len(scenarios), "scenario", ""),
		english.Plural(len(schemes), "lock or strategy", "locks and strategies"))
	failure := p.findFaults(ctx, res, scenarios, schemes)
	if before != nil { // before faultStatus, which counts what there is
		if n := res.Restore(before); n > 0 {
			p.notice("%s not played here, and kept as stored before", english.Plural(n, "finding was", "findings were"))
		}
	}

	unfinished := faultStatus(ctx, res, failure)
	if unfinished != nil {
		old, err := loadOnly[*findings.FaultTable](f.out.dir, faultsFile)
		if err == nil && old.Status == stored.Complete {
			f.out.file = "incomplete-" + f.out.file // does not replace the complete one
		}
	}
	return errors.Join(promisesBroken(res), unfinished, f.out.finish(p, res))
}

// completes has a result complete that of --add, and keep what need not be played again. It
// returns the stored one.
func (f *faultFlags) completes(res *findings.FaultTable) (before *findings.FaultTable, err error) {
	f.out.dir = f.add
	f.out.force = true
	before, err = loadOnly[*findings.FaultTable](f.add, faultsFile)
	if err != nil {
		return nil, usagef("--add: %w", err)
	}

	if err := res.Keep(before, f.scenarios, f.locks); err != nil {
		return nil, usagef("--add %s: %w", f.add, err)
	}
	return before, nil
}

// findFaults plays what a result lacks, on private servers that are gone when it
// returns, and adds what it finds.
func (p *program) findFaults(
	ctx context.Context, res *findings.FaultTable, scenarios []fault.Scenario, schemes []fault.Scheme,
) (err error) {
	missing := res.Missing()
	all := len(missing)
	if all == 0 {
		p.notice("nothing is missing")
		return nil
	}

	runner, err := starting(p, func() (*fault.Runner, error) { return fault.StartRunner(ctx) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	if err := runner.Identify(ctx, &res.Manifest, schemes); err != nil {
		return err
	}
	p.notice("backend: %s", runner.Market.Describe())

	// Cells of several scenarios are played beside each other: a scenario is done when its last
	// cell is. Run calls the function for one finding at a time.
	done := 0
	return runner.Run(ctx, res, scenarios, schemes, func(f findings.Finding) {
		missing[f.Scenario]--
		if missing[f.Scenario] == 0 {
			done++
			p.progress("%d/%d %s", done, all, f.Scenario)
		}
	})
}

// faultStatus notes in the result how it ended, and returns an error if not all was found. If
// the environment failed, the status stays incomplete, as fault.NewResult sets it.
func faultStatus(ctx context.Context, res *findings.FaultTable, failure error) error {
	switch {
	case failure == nil:
		res.Status = stored.Complete
		return nil
	case ctx.Err() != nil:
		res.Status = stored.Interrupted
		failure = nil
	}
	return incomplete(failure, "%d of %s; the report holds what was found", res.Found(),
		english.Plural(len(res.Scenarios)*len(res.Subjects), "finding", ""))
}

func promisesBroken(res *findings.FaultTable) (err error) {
	for _, f := range res.Broken() {
		err = errors.Join(err, fmt.Errorf("%w: %s promises %q, and scenario %s found it %s", errViolation, f.Subject,
			f.Broken, f.Scenario, f.Verdict))
	}
	return err
}
