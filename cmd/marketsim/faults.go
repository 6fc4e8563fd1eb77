package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// faultsFile is the name of stored faults in their folder.
const faultsFile = "faults.json"

// faultFlags are those of the command faults.
type faultFlags struct {
	scenarios, locks []string
	out              faultOutputs
}

func newFaults() *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use:   "faults [--scenario NAME[,NAME...]] [--lock SPEC[,SPEC...]]",
		Short: "Show what strategies and locks lose on a bad day",
		Long: `Play each scenario with each lock: clients that are processes of their own are paused, killed, cut off or set back at a
chosen step, never by luck, and every coin and item is counted afterwards. The verdict is safe, stuck (for its TTL, or
for good), two holders, charged twice, coins lost or made, item lost, sold twice, or not applicable, with a line that says
why. Leases last as long as a scenario needs, so that ttl and timeout are not for you to set. The same marketsim finds
the same each time.

'marketsim list --scenarios' shows the scenarios. A lock is written as in a strategy and is put under the strategy fine:
set-px, set-px+watchdog, set-px:expiry=pxat; a strategy can be given too: watch, unsafe, coarse:set-px. By default all
scenarios are played with watch, unsafe, every lock, and some locks with other parameters.

Everything it needs is private: it starts servers of its own and ends them, and no server of yours is touched. What this
machine cannot play is marked "not played", with what to install.

Exit codes: 0 when no lock broke a promise that it made ('marketsim list --locks'), 3 when one did; harm that nobody
promised to survive is a finding and no violation. 1 the environment failed, 2 the usage, 130 interrupted: what was
found until then is printed.`,
		Example: `  marketsim faults                                       everything
  marketsim faults --lock set-px,set-px+watchdog         what a watchdog mends, and what it does not
  marketsim faults --scenario pause --lock redlock,fenced,watch
  marketsim faults --json | jq '.findings[] | select(.verdict == "sold twice")'
  marketsim faults --out results/faults-mine             to be drawn again by 'marketsim report'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "scenarios to play, separated by commas (default all)")
	flags.StringSliceVar(&f.locks, "lock", nil, "locks and strategies to play them with, separated by commas")
	f.out.add(cmd)
	completeList(cmd, "scenario", scenarioNames())
	completeList(cmd, "lock", fault.Names(catalogue.Full()))
	return cmd
}

// serveClient makes this process a client in a scenario if it was started to be one.
func serveClient() {
	fault.ServeChild(func(name string) (fault.Purchasing, error) { return catalogue.Full().Parse(name) })
}

func scenarioNames() []string {
	var names []string
	for _, sc := range fault.All() {
		names = append(names, sc.Name)
	}
	return names
}

// chosen is what was asked for, or everything.
func (f *faultFlags) chosen(given func(flag string) bool) ([]fault.Scenario, []fault.Subject, error) {
	for flag, words := range map[string][]string{"scenario": f.scenarios, "lock": f.locks} {
		if given(flag) && len(words) == 0 {
			return nil, nil, usageError{fmt.Errorf("--%s names nothing; leave it out for everything", flag)}
		}
	}
	names, locks := f.scenarios, f.locks
	if len(names) == 0 {
		names = scenarioNames()
	}
	if len(locks) == 0 {
		locks = fault.Names(catalogue.Full())
	}
	scenarios, err := fault.Named(names...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; 'marketsim list --scenarios' tells what each is", err)
	}
	subjects, err := fault.Subjects(catalogue.Full(), locks...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; 'marketsim list' shows locks, strategies and their parameters", err)
	}
	return scenarios, subjects, nil
}

func (f *faultFlags) run(cmd *cobra.Command) (err error) {
	scenarios, subjects, err := f.chosen(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	if err := f.out.prepare(); err != nil {
		return err
	}
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	lab, err := fault.OpenLab(ctx)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	onLeave(ctx, lab.Close)
	manifest, err := lab.Manifest(ctx, version())
	if err != nil {
		return interruptedOr(ctx, err)
	}
	fmt.Fprintf(stderr, "backend: %s\n", lab.Describe())
	res := fault.NewResult(manifest, scenarios, subjects)
	p := newFaultProgress(stderr, isTerminal(stderr), len(scenarios), len(subjects))
	found, failure := lab.Run(ctx, scenarios, subjects, p.told)
	p.end()
	res.Findings = found
	return f.end(ctx, cmd, res, failure)
}

// end stores and prints the result, and returns what the exit code is made of.
func (f *faultFlags) end(ctx context.Context, cmd *cobra.Command, res *fault.Result, failure error) error {
	var incomplete error
	played := fmt.Sprintf("%d of %s; the report holds what was found", len(res.Findings),
		count(int64(len(res.Scenarios)*len(res.Subjects)), "finding"))
	switch {
	case ctx.Err() != nil && failure != nil:
		res.Status, incomplete = bench.Interrupted, fmt.Errorf("%w: %s", errInterrupted, played)
	case failure != nil:
		incomplete = fmt.Errorf("incomplete: %s\n%w", played, failure)
	default:
		res.Status = bench.Complete
	}
	saved := f.out.save(res)
	shown := f.out.show(cmd.OutOrStdout(), res)
	if saved == nil && f.out.dir != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "stored in %s\n", f.out.dir)
	}
	return errors.Join(promisesBroken(res), incomplete, saved, shown)
}

// promisesBroken says which locks did not do what they promise.
func promisesBroken(res *fault.Result) error {
	var errs []error
	for _, f := range res.Broken() {
		errs = append(errs, fmt.Errorf("%w: %s promises %q, and scenario %s found it %s", errViolation, f.Subject, f.Broken,
			f.Scenario, f.Verdict))
	}
	return errors.Join(errs...)
}
