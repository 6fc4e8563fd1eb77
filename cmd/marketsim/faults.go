package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// faultFlags are those of the command faults.
type faultFlags struct {
	scenarios, locks []string
	out              outputFlags
}

func newFaults(p *program) *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use:   "faults [--scenario NAME[,NAME...]] [--lock SPEC[,SPEC...]]",
		Short: "Show what strategies and locks lose when clients, connections and servers fail",
		Long: `Run each scenario with each lock: clients that are processes of their own are paused, killed, cut off or set
back at a chosen step, never by luck, and every coin and item is counted afterwards. A finding has two answers, both
observed: what happened to money and items (none, two holders, done twice, wrongly told no, charged twice, not paid,
overdrawn, coins lost or made, item lost, sold twice), and how long others were kept out (at once, until the dead
waiter was passed over, until the lease ran out, until the holder came back, until a counter caught up, never while
observed), with a line that says why. The JSON and the CSV sum both up in a verdict. Each scenario sets ttl and timeout
itself, because its leases last as long as it needs; you cannot set them. The same marketsim finds the same each time.

'marketsim list --scenarios' shows the scenarios. A lock is written as in a strategy and is put under the strategy
fine: set-px, set-px+watchdog, set-px:expiry=pxat; a strategy can be given too: watch, unsafe, coarse:set-px. By
default all scenarios run with every strategy, every lock, and some locks with other parameters.

Those of a Redis Cluster, slot-moved and master-promoted, -wait and -min, run where you name them, by default with
watch, fine and lua. There a purchase that was acknowledged can be gone: Redis replicates after it has answered.

Everything it needs is private: it starts servers of its own and ends them, and no server of yours is touched. What
this machine cannot run is marked "not played", with what to install.

Exit codes: 0 when no lock broke a promise that it made ('marketsim list --locks'), 3 when one did; harm that nobody
promised to survive is a finding and no violation. 1 the environment failed, 2 the usage, 130 interrupted: what was
found until then is printed and stored, and the rest is marked as stopped. A complete result in the folder of --out
stays then, and the other is stored beside it.`,
		Example: `  marketsim faults                                       everything
  marketsim faults --lock set-px,set-px+watchdog         what a watchdog prevents, and what it does not
  marketsim faults --scenario pause --lock redlock,fenced,watch
  marketsim faults --scenario slot-moved,master-promoted,master-promoted-wait --lock watch,lua
  marketsim faults --json - | jq '.findings[] | select(.verdict == "sold twice")'
  marketsim faults --out results/faults-mine             to be drawn again by 'marketsim report'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), p) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", nil, "scenarios to run, separated by commas (default all)")
	flags.StringSliceVar(&f.locks, "lock", nil, "locks and strategies to run them with, separated by commas")
	f.out.add(cmd)
	f.out.addFolder(cmd, map[string]string{
		faultsFile: report.JSON, "faults.txt": report.Text, "faults.md": report.Markdown,
	}, "faults.json, faults.txt and faults.md")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasSuffix(err.Error(), " --strategy") {
			return fmt.Errorf("%w; name the strategy with --lock, as in --lock watch", err)
		}
		return flagError(cmd, err)
	})
	completeList(cmd, "scenario", scenarioNames(everyScenario()))
	completeSpecs(cmd, "lock", true)
	return cmd
}

// serveClient makes this process a client in a scenario, if it was started for that.
func serveClient() {
	fault.ServeChild(func(name string) (fault.Purchasing, error) { return catalogue.Full().Parse(name) })
}

// everyScenario are those that run by default, and those that run where somebody names them.
func everyScenario() []fault.Scenario { return slices.Concat(fault.All(), fault.Clustered()) }

func scenarioNames(all []fault.Scenario) []string {
	var names []string
	for _, sc := range all {
		names = append(names, sc.Name)
	}
	return names
}

// chosen is what was asked for, or everything.
func (f *faultFlags) chosen() ([]fault.Scenario, []fault.Scheme, error) {
	names, locks := f.scenarios, f.locks
	if len(names) == 0 {
		names = scenarioNames(fault.All())
	}
	scenarios, err := fault.Named(names...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; 'marketsim list --scenarios' says what each is", err)
	}
	if len(locks) == 0 {
		locks = usual(scenarios)
	}
	schemes, err := fault.Schemes(catalogue.Full(), locks...)
	if err != nil {
		return nil, nil, fmt.Errorf("%w; 'marketsim list' shows locks, strategies and their parameters", err)
	}
	return scenarios, schemes, nil
}

// usual are the locks and strategies with which scenarios run where nobody names any.
func usual(scenarios []fault.Scenario) []string {
	if !slices.ContainsFunc(scenarios, fault.Scenario.OnCluster) {
		return fault.Names(catalogue.Full())
	}
	return []string{"watch", "fine", "lua"}
}

func (f *faultFlags) run(ctx context.Context, p *program) (err error) {
	scenarios, schemes, err := f.chosen()
	if err != nil {
		return err
	}
	out, err := f.out.prepared()
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "%s with %s each\n", english.Plural(len(scenarios), "scenario", ""),
		english.Plural(len(schemes), "lock or strategy", "locks and strategies"))
	p.interrupts.ends(soon)
	res := fault.NewResult(version(), scenarios, schemes)
	failure := p.findFaults(ctx, res, scenarios, schemes)
	incomplete := faultStatus(ctx, res, failure)
	if incomplete != nil && holdsComplete(f.out.dir) {
		out = out.beside("incomplete-")
	}
	return errors.Join(promisesBroken(res), incomplete, out.finish(p.stdout, p.stderr, report.Faults(res)))
}

// findFaults runs everything on private servers, which are gone when it returns, and stores in a result what it finds.
func (p *program) findFaults(ctx context.Context, res *result.Faults, scenarios []fault.Scenario, schemes []fault.Scheme,
) (err error) {
	runner, err := fault.StartRunner(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runner.Close()) }()
	if err := runner.Identify(ctx, &res.Manifest); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "backend: %s\n", runner.Describe())
	shown := newFaultProgress(p.stderr, isTerminal(p.stderr), len(scenarios), len(schemes))
	defer shown.end()
	res.Findings, err = runner.Run(ctx, scenarios, schemes, shown.finding)
	return err
}

// holdsComplete reports whether a folder holds a complete result, which one that was stopped does not replace.
func holdsComplete(dir string) bool {
	content, err := os.ReadFile(filepath.Join(dir, faultsFile))
	if err != nil {
		return false
	}
	res, err := result.ReadFaults(bytes.NewReader(content))
	return err == nil && res.Status == result.Complete
}

// faultStatus says in the result how it ended, and returns an error if not all was found.
func faultStatus(ctx context.Context, res *result.Faults, failure error) error {
	found := fmt.Sprintf("%d of %s; the report holds what was found", res.Found(),
		english.Plural(len(res.Scenarios)*len(res.Subjects), "finding", ""))
	switch {
	case failure == nil:
		res.Status = result.Complete
		return nil
	case ctx.Err() != nil:
		res.Status = result.Interrupted
		return fmt.Errorf("%w: %s", errInterrupted, found)
	}
	return fmt.Errorf("incomplete: %s\n%w", found, failure)
}

// promisesBroken names the locks that broke a promise.
func promisesBroken(res *result.Faults) error {
	var errs []error
	for _, f := range res.Broken() {
		errs = append(errs, fmt.Errorf("%w: %s promises %q, and scenario %s found it %s", errViolation, f.Subject, f.Broken,
			f.Scenario, f.Verdict))
	}
	return errors.Join(errs...)
}
