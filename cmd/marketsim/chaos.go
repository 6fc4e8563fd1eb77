package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/chaos"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// chaosFlags are those of rough rows.
type chaosFlags struct {
	on, plan, verbose bool

	named  bool         // the user named the folder of the history
	repeat string       // the command that repeats the faults
	locks  *lockServers // once they are started
	arena  *chaos.Arena // once it is started
}

// mostSeed bounds the seeds that are drawn, so that they are easy to type.
const mostSeed = 1_000_000_000

func (f *chaosFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "chaos", false, "strike the market with random faults, drawn from --seed, for as long as --duration says")
	flags.BoolVar(&f.plan, "chaos-plan", false, "print the faults that --chaos would strike with, and run nothing")
	flags.BoolVar(&f.verbose, "chaos-verbose", false, "tell each fault of --chaos as it strikes")
}

// check refuses what does not go with rough rows. It is told which flags were given.
func (f *chaosFlags) check(run *runFlags, given func(flag string) bool) error {
	if f.plan || f.verbose {
		f.on = true
	}
	if !f.on {
		return nil
	}
	for _, flag := range []string{"redis", "backend", "password-file", "cacert", "cert", "key", "sni", "keep"} {
		if given(flag) && (flag != "backend" || run.server.choice != string(backend.KindLocal)) {
			return usageError{fmt.Errorf("--chaos kills and stops its server, and so starts a private redis-server: --%s does not go with it", flag)}
		}
	}
	if url, from := run.server.source(); url != "" {
		return usageError{fmt.Errorf("--chaos kills and stops its server, and so starts a private redis-server: %s does not go with it "+
			"(--backend local overrides it)", from)}
	}
	for _, flag := range []string{"warmup", "browsers"} {
		if given(flag) {
			return usageError{fmt.Errorf("--chaos measures nothing: --%s does not go with it", flag)}
		}
	}
	run.warmup = 0
	return nil
}

// seed draws the seed unless one was given, and notes the command that repeats the faults.
func (f *chaosFlags) seed(run *runFlags, given bool, args []string) {
	f.repeat = commandLine(args)
	if !given {
		run.sessionFlags.seed = 1 + rand.Uint64N(mostSeed)
		f.repeat += " --seed " + strconv.FormatUint(run.sessionFlags.seed, 10)
	}
}

// start starts the server and the proxies.
func (f *chaosFlags) start(ctx context.Context) (*backend.Server, error) {
	arena, err := chaos.Start(ctx)
	if errors.Is(err, backend.ErrUnavailable) {
		return nil, fmt.Errorf("--chaos needs a redis-server to kill and restart (apt-get install redis-server installs it): %w", err)
	}
	if err != nil {
		return nil, err
	}
	f.arena = arena
	return arena.Server(), nil
}

// announce says what is about to strike, and what repeats it.
func (f *chaosFlags) announce(w io.Writer, seed uint64, traders []trader) {
	fmt.Fprintf(w, "chaos: seed %d; the same faults again: %s\n", seed, f.repeat)
	for _, need := range needed(traders) {
		what := "servers of the lock %s and the connections to them are left alone"
		if need == lock.NeedsZooKeeper && f.locks.keeper != nil {
			what = "server of the lock %s is killed and restarted, and the connections to it are left alone"
		}
		fmt.Fprintf(w, "chaos: the "+what+"\n", need)
	}
}

// rough makes a row a rough one.
func (f *chaosFlags) rough(c *bench.Config, spec strategies.Spec, tell io.Writer) {
	kind, locked := spec.Lock()
	start := time.Now()
	about := chaos.Traders{Locked: locked}
	if kind.Needs == lock.NeedsZooKeeper && f.locks.keeper != nil {
		about.Locks = zooKeeper{f.locks.keeper}
	}
	if f.verbose {
		about.Tell = func(fault chaos.Fault) { fmt.Fprintf(tell, "  %6.1f s  %s\n", time.Since(start).Seconds(), fault) }
	}
	c.Dial = f.arena.Dial
	c.Rough = &bench.Rough{
		Storm:     f.arena.NewStorm(plan(spec, c.Seed, c.Duration).Rounds(), about),
		Direct:    f.arena.Direct,
		FreeLocks: locked && kind.Needs == lock.NeedsNothing && !spec.Promises().SurvivesCrash,
		Tell:      func(r bench.Round) { fmt.Fprintln(tell, roundLine(r)) },
	}
}

// zooKeeper is a private standalone ZooKeeper as a victim.
type zooKeeper struct{ *zookeeper.Ensemble }

func (z zooKeeper) Kill() error                       { return z.Ensemble.Kill(0) }
func (z zooKeeper) Restart(ctx context.Context) error { return z.Ensemble.Restart(ctx, 0) }

// plan is what a row's faults follow from.
func plan(spec strategies.Spec, seed uint64, duration time.Duration) chaos.Plan {
	p := chaos.Plan{Seed: seed, Duration: duration}
	if ttl, ok := spec.Value("ttl"); ok {
		p.TTL, _ = time.ParseDuration(ttl) // it was checked when the spec was parsed
	}
	return p
}

// roundLine tells how far a rough row has come.
func roundLine(r bench.Round) string {
	text := fmt.Sprintf("round %d, %.0f s: %s so far, %d bought, %d unknown (%d applied), ", r.Number, r.Loaded.Seconds(),
		count(r.Faults, "fault"), r.Bought, r.Unknown, r.Audit.Applied)
	if r.Audit.OK {
		return text + "audit ok"
	}
	return text + "AUDIT FAILED: " + wrong(r.Audit)
}

// printPlan prints the faults of each trader's row. Mixes do not change them.
func printPlan(w io.Writer, traders []trader, seed uint64, duration time.Duration) error {
	var done []string
	for _, t := range traders {
		if slices.Contains(done, t.spec.String()) {
			continue
		}
		done = append(done, t.spec.String())
		if _, err := fmt.Fprintf(w, "%s, seed %d, %s\n", t.spec, seed, duration); err != nil {
			return err
		}
		if _, err := io.WriteString(w, planText(plan(t.spec, seed, duration).Rounds())); err != nil {
			return err
		}
	}
	return nil
}

// planText lists the faults with the time at which each strikes if breaking and healing took none.
func planText(rounds []chaos.Round) string {
	var text strings.Builder
	var at time.Duration
	for i, r := range rounds {
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
