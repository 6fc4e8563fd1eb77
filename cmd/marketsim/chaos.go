package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/chaos"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// chaosFlags are the flags for rows that run through faults.
type chaosFlags struct {
	on, plan, verbose bool
}

// poorFunds is with how many coins an account opens that several workers share: they are soon short of them.
const poorFunds = 200

// mostSeed bounds the seeds that are drawn, so that they are easy to type.
const mostSeed = 1_000_000_000

func (f *chaosFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "chaos", false,
		"run through random faults for as long as --duration says; without --seed, one is drawn and printed")
	flags.BoolVar(&f.plan, "chaos-plan", false, "print the faults that --chaos with this --seed strikes with, and run nothing")
	flags.BoolVar(&f.verbose, "chaos-verbose", false, "print each fault of --chaos as it strikes")
}

// wanted reports whether faults are to strike. Each of the flags says so.
func (f chaosFlags) wanted() bool { return f.on || f.plan || f.verbose }

// check refuses flags that do not go with faults.
func (f chaosFlags) check(server serverFlags, given func(flag string) bool) error {
	const private = "--chaos kills and stops its server, and so starts a private redis-server: %s does not go with it"
	for _, flag := range []string{"redis", "backend", "password-file", "cacert", "cert", "key", "sni", "keep"} {
		if given(flag) && (flag != "backend" || server.choice != string(backend.NameLocal) && !onCluster(server.choice)) {
			return usageError{fmt.Errorf(private, "--"+flag)}
		}
	}
	if url, from := server.source(); url != "" {
		return usageError{fmt.Errorf(private+" (--backend local overrides it)", from)}
	}
	if onCluster(server.choice) && given("history") {
		return usageError{errors.New("--chaos on a cluster kills masters, and what a replica had not got is gone: no history goes " +
			"with it; leave out --history")}
	}
	for _, flag := range []string{"warmup", "browsers", "trials", "hot", "accounts", "stock", "hold", "rtt", "markets"} {
		if given(flag) {
			return usageError{fmt.Errorf("--chaos measures nothing: --%s does not go with it", flag)}
		}
	}
	return nil
}

// onCluster reports whether a choice of a backend is a private Redis Cluster.
func onCluster(choice string) bool { return choice == string(backend.NameCluster) }

// chaosConfig says how faults are shown.
type chaosConfig struct {
	verbose bool   // print each fault
	cluster bool   // they strike a Redis Cluster
	poor    bool   // the user left funds and accounts to the driver
	repeat  string // the command that repeats the faults
}

// startChaos starts the server and the proxies that faults strike, or a Redis Cluster.
func startChaos(ctx context.Context, cluster bool) (*chaos.Setup, error) {
	start := chaos.Start
	if cluster {
		start = chaos.StartCluster
	}
	setup, err := start(ctx)
	if errors.Is(err, backend.ErrUnavailable) {
		return nil, fmt.Errorf("--chaos needs a redis-server to kill and restart (apt-get install redis-server): %w", err)
	}
	return setup, err
}

// chaosDriver is the driver of rows that run through faults.
type chaosDriver struct {
	config chaosConfig
	named  bool // the user named the folder of the histories, and keeps them
	setup  *chaos.Setup
	locks  *servers.Locks
	own    servers.Addresses // the user's
	stderr io.Writer
}

// announce says what is about to strike, and which command repeats it.
func (d *chaosDriver) announce(seed uint64, needs []lock.Need) {
	fmt.Fprintf(d.stderr, "chaos: seed %d; the same faults again: %s\n", seed, d.config.repeat)
	for _, need := range needs {
		what := "servers of the lock %s are yours: they and the connections to them are left alone"
		if lockServersOf(d.locks, need) != nil {
			what = "servers of the lock %s are killed, restarted and paused, and the connections to them are left alone"
		}
		fmt.Fprintf(d.stderr, "chaos: the "+what+"\n", need)
	}
}

// run runs a row through its faults, and records its history.
func (d *chaosDriver) run(ctx context.Context, c *bench.Config) (result.Row, error) {
	if err := d.record(c); err != nil {
		return result.Row{}, err
	}
	spec := c.Subject.(strategies.Spec) // as of every row of the command line
	kind, locked := spec.Lock()
	shares := spec.Strategy().Protects.Accounts
	if pool := min(c.Mix.Sellers, c.Mix.Buyers) / 2; d.config.poor && shares && c.Mix.Sellers > 1 && c.Mix.Buyers > 1 {
		c.Pool, c.Funds = max(2, pool), poorFunds
	}
	faults := plan(spec, *c, d.config.cluster, d.own)
	o := chaos.Options{
		Accounts: shares, Child: faults.Child, Private: d.locks.Addresses,
		Schedule: faults.Schedule(),
		Expiry:   spec.Expiry(), OwnLockServers: kind.Needs != lock.NeedsNothing,
		OnRound: func(row result.Row) { fmt.Fprintln(d.stderr, roundLine(row)) },
	}
	if locked && kind.Needs == lock.NeedsNothing && !spec.Promises().SurvivesCrash {
		o.Frees = spec.HolderKeys
	}
	if private := lockServersOf(d.locks, kind.Needs); private != nil {
		o.LockServers = private
	}
	if d.config.verbose {
		start := time.Now()
		o.OnFault = func(fault chaos.Fault) {
			fmt.Fprintf(d.stderr, "  %6.1f s  %s\n", time.Since(start).Seconds(), fault)
		}
	}
	return d.setup.Run(ctx, *c, o)
}

// lockServersOf are the private servers of a lock; nil where they are the user's, or the market's.
func lockServersOf(l *servers.Locks, need lock.Need) chaos.LockServers {
	switch {
	case need == lock.NeedsZooKeeper && l.PrivateZooKeeper != nil:
		return l.PrivateZooKeeper
	case need == lock.NeedsEtcd && l.PrivateEtcd != nil:
		return l.PrivateEtcd
	case need == lock.NeedsMasters && l.PrivateMasters != nil:
		return l.PrivateMasters
	}
	return nil
}

// plan is what the faults of a row follow from. own are the user's servers for locks, which are left alone. Their
// passwords are given to no other process. With one buyer there is none to be put into a process that is paused.
func plan(spec strategies.Spec, c bench.Config, cluster bool, own servers.Addresses) chaos.Plan {
	kind, locked := spec.Lock()
	return chaos.Plan{
		Cluster: cluster, Seed: c.Seed, Duration: c.Duration, Lease: spec.Expiry().After, Locked: locked,
		LockServers: own.Private(string(kind.Needs)),
		Child: backend.CanPause && c.Mix.Buyers > 1 &&
			(kind.Needs != lock.NeedsMasters || len(own.Masters) == 0),
	}
}

// roundLine says how far a row under faults has come.
func roundLine(r result.Row) string {
	text := fmt.Sprintf("round %d, %.0f s: %s so far, %d bought, %d unknown (%d applied), ", r.Chaos.Rounds, r.Seconds,
		english.Plural(int(r.Chaos.Struck()), "fault", ""), r.Bought, r.Unknown, r.Audit.Applied)
	if r.Audit.OK && r.Audit.Gone != nil {
		return fmt.Sprintf("%saudit ok, %s that were acknowledged are gone", text,
			english.Plural(int(r.Audit.Gone.Purchases), "purchase", ""))
	}
	if r.Audit.OK {
		return text + "audit ok"
	}
	return text + "AUDIT FAILED: " + wrong(r.Audit)
}

// printPlan prints the faults of each strategy. Of a mix they depend only on whether it has more than one buyer.
func printPlan(w io.Writer, config sessionConfig) error {
	var done []string
	for i, c := range config.rows() {
		name := c.Subject.String()
		if c.Mix.Buyers == 1 {
			name += " with one buyer"
		}
		if slices.Contains(done, name) {
			continue
		}
		done = append(done, name)
		faults := planText(plan(config.specs[i].spec, c, config.chaos.cluster, config.locks.own).Schedule())
		if _, err := fmt.Fprintf(w, "%s, seed %d, %s\n%s", name, config.base.Seed, config.base.Duration, faults); err != nil {
			return err
		}
	}
	return nil
}

// planText lists the faults with the time at which each strikes if breaking and healing took none.
func planText(schedule chaos.Schedule) string {
	var text strings.Builder
	var at time.Duration
	for i, r := range schedule {
		fmt.Fprintf(&text, "round %d\n", i+1)
		for _, f := range r.Faults {
			at += f.Wait
			fmt.Fprintf(&text, "  %7.3f s  %s\n", at.Seconds(), f)
			at += f.Length
		}
		at += r.Rest
	}
	return text.String()
}

// checkTimeout bounds how long the history of a row is judged, and interruptedCheckTimeout how long that of a row which
// the user stopped.
const (
	checkTimeout            = 10 * time.Minute
	interruptedCheckTimeout = 3 * time.Second
)

// record names a temporary folder for the history of a row, unless the user named one. On a cluster there is none: where a
// replica is promoted, what clients were told is not what the market holds.
func (d *chaosDriver) record(c *bench.Config) error {
	if d.named || d.config.cluster {
		return nil
	}
	folder, err := os.MkdirTemp("", "marketsim-history-")
	if err != nil {
		return fmt.Errorf("making the folder of a history: %w", err)
	}
	c.History = filepath.Join(folder, "row")
	return nil
}

// judge checks the history of a row, unless the row failed or was stopped before anything was recorded, and adds to the
// row what it shows. It removes a
// history that the user did not ask for if all of it was judged and nothing is wrong; else it says where the history is
// kept.
func (d *chaosDriver) judge(ctx context.Context, c bench.Config, row *result.Row, failure error) error {
	if failure != nil || c.History == "" {
		return d.remove(c) // it has no end
	}
	h, err := history.Read(c.History)
	switch {
	case errors.Is(err, history.ErrNone) && row.Status == result.Interrupted:
		return d.remove(c)
	case err != nil: // no mistake of the user's
		err = fmt.Errorf("judging the history of %s %s: %v", row.Strategy, c.Mix, err)
	default:
		limited, cancel := limit(ctx)
		defer cancel()
		v := history.Check(limited, h)
		written := v.Write(d.stderr)
		if row.Chaos != nil {
			chaos.Conclude(row.Chaos, v)
		}
		err = errors.Join(ruleFaults(ctx, c, *row, v), written)
	}
	if err == nil && !(row.Audit.Done && !row.Audit.OK) {
		return d.remove(c)
	}
	fmt.Fprintf(d.stderr, "the history is kept in %s\n", c.History)
	return err
}

// remove removes a history that the user did not ask for.
func (d *chaosDriver) remove(c bench.Config) error {
	if d.named || c.History == "" {
		return nil
	}
	return os.RemoveAll(filepath.Dir(c.History))
}

// limit bounds a check: by its time, and by the user's Ctrl-C. If a Ctrl-C has already ended the row, the check still
// gets some seconds.
func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), interruptedCheckTimeout)
	}
	return context.WithTimeout(ctx, checkTimeout)
}

// ruleFaults is what a verdict on a row means for the exit code. A lock that expires is held by two after a pause: that
// is a finding, and no violation while all items and coins are right.
func ruleFaults(ctx context.Context, c bench.Config, row result.Row, v history.CheckResult) error {
	var errs []error
	var open []string
	for _, p := range v.Parts {
		switch {
		case p.Answer == history.Undecided:
			open = append(open, p.Name)
		case p.Answer == history.Violated && p.Name != history.LocksPart:
			errs = append(errs, fmt.Errorf("%w: the history of %s %s: %s: %d wrong",
				errViolation, row.Strategy, c.Mix, p.Name, p.Wrong))
		}
	}
	if len(open) > 0 {
		errs = append(errs, undecided(ctx, c, row, open))
	}
	return errors.Join(errs...)
}

// undecided names the parts of a verdict that are open. After a Ctrl-C that is what the user wanted.
func undecided(ctx context.Context, c bench.Config, row result.Row, parts []string) error {
	err := fmt.Errorf("the history of %s %s is not decided in time: %s; longer takes: marketsim check --timeout 1h %s",
		row.Strategy, c.Mix, strings.Join(parts, ", "), quote(c.History))
	return interruptedOr(ctx, err)
}
