package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/judge"
	"github.com/marketsim/marketsim/internal/process"
	protocol "github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/judge/adapters"
)

type judgeFlags struct {
	adapter string
	promise string
	require []string
	verbose bool
	of      []string
	replay  string
	options judge.Options
	out     output
}

func newJudge(p *program) *cobra.Command {
	var f judgeFlags
	python, _ := adapters.Source("lock", "python") // cannot fail: there is one
	cmd := &cobra.Command{
		Use:  "judge [--purchase] -- COMMAND [ARG...]",
		Long: "  " + strings.ReplaceAll(strings.TrimSpace(python), "\n", "\n  "), // after help/judge.txt
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), p, args) },
	}

	group(cmd, "Bounds", func(flags *pflag.FlagSet) {
		flags.IntVar(&f.options.Bounds.Preemptions, "preemptions", 1,
			"a client that could go on waits for the other one at most `N` times")
		flags.IntVar(&f.options.Bounds.Faults, "faults", 1, "at most `N` faults happen")
		flags.StringSliceVar(&f.of, "of", nil, "`kinds` of faults, separated by commas (default all that the program\n"+
			"hears, but idle-break): "+strings.Trim(fmt.Sprint(judge.AllKinds()), "[]"))
		flags.DurationVar(&f.options.Within, "within", 90*time.Second, "the searches stop after this `duration`")
	})
	group(cmd, "Program", func(flags *pflag.FlagSet) {
		flags.BoolVar(&f.options.Purchase, "purchase", false, "the program buys, and takes no lock for others")
		// The leases are those that package judge tries: see ShortestLease there.
		flags.DurationVar(&f.options.Lease, "lease", 0,
			"`duration` of a lease (default the shortest of 500ms, 1s and 2s that the lock can have)")
		flags.IntVar(&f.options.Pairs, "pairs", 8, "`N` pairs of clients play schedules at the same time")
		flags.StringVar(&f.options.Server.Program, "server", "", "`path` of the redis-server (default from PATH)")
		flags.BoolVarP(&f.verbose, "verbose", "v", false, "show what the programs write to standard error")
		flags.StringVar(&f.replay, "replay", "", "`token` of a schedule to play again")
		flags.StringVar(&f.adapter, "adapter", "", "print a program to start from, in this `language`: "+
			strings.Join(adapters.Languages("lock"), ", ")+
			",\nor with --purchase "+strings.Join(adapters.Languages("purchase"), ", "))
		flags.StringVar(&f.promise, "promise", "", "what else the lock `promises`: notices-loss, that\n"+
			"release reports that the lock was lost")
		flags.StringSliceVar(&f.require, "require", nil, "`promises` that have to be kept, separated by commas, such as\n"+
			"exclusive,survives-a-crash, or all that the lock offers: one that\nis unchecked is exit code 1")
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.addFolder(flags, faultsFormats, exploredFile)
	})
	cmd.MarkFlagsMutuallyExclusive("promise", "purchase")
	cmd.MarkFlagsMutuallyExclusive("require", "purchase")
	cmd.MarkFlagsMutuallyExclusive("require", "replay")
	return cmd
}

// run judges the program, or plays the schedule of --replay. What was concluded is drawn and
// stored even if an error or an interrupt came after it.
func (f *judgeFlags) run(ctx context.Context, p *program, command []string) error {
	if f.adapter != "" {
		return f.printAdapter(p.stdout)
	}
	if err := f.check(command); err != nil {
		return err
	}
	if err := f.complete(p, command); err != nil {
		return err
	}

	if err := wire.UsersKnown(); err != nil {
		fmt.Fprintf(p.stderr, "marketsim: every user of this machine may connect to the servers of this search: %v\n", err)
	}
	ctx, stop := p.interruptible(ctx)
	defer stop()
	res, err := f.judged(ctx)
	switch {
	case ctx.Err() != nil && res == nil:
		return errInterrupted
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: the report holds what was judged", errInterrupted)
	case res == nil && isMistaken(err):
		return usageError{err}
	case res == nil: // otherwise something was concluded before the error
		return err
	}
	p.passwords.hideInFound(res) // before note, which makes commands of the schemes and tokens
	res.Version = version()
	f.note(res)
	return errors.Join(err, exploredBroken(res), f.unkept(res), f.out.finish(p, res))
}

// note notes what was asked for, and the command that plays each schedule again.
func (f *judgeFlags) note(res *findings.Explorations) {
	res.Asked = f.replayFlags()
	if f.replay == "" {
		res.Bounds = &findings.JudgedBounds{
			Preemptions: f.options.Bounds.Preemptions,
			Faults:      f.options.Bounds.Faults,
			Of:          f.of,
			WithinMS:    f.options.Within.Milliseconds(),
			Pairs:       f.options.Pairs,
		}
	}

	for i := range res.Searches {
		if e := &res.Searches[i]; e.Token != "" {
			e.Replay = f.again(*e)
		}
	}
}

// again is the command that plays the schedule of a harm again, on one line, as a shell reads
// it. It has the lease with which judge has found it, where that is no flag.
func (f *judgeFlags) again(e findings.Exploration) string {
	flags := f.replayFlags()
	if asked := e.AskedLease(); f.options.Lease == 0 && asked > judge.ShortestLease {
		flags = append(flags, "--lease", asked.String())
	}
	flags = append(flags, "--replay", e.Token)
	return "marketsim judge " + process.ShellLine(flags...) + " -- " + e.Scheme
}

// isMistaken reports whether the program or the token that the user named is at fault.
func isMistaken(err error) bool {
	return errors.Is(err, judge.ErrAdapter) || errors.Is(err, protocol.ErrStart) || errors.Is(err, search.ErrToken)
}

// printAdapter prints a program to start from.
func (f *judgeFlags) printAdapter(out io.Writer) error {
	kind := "lock"
	if f.options.Purchase {
		kind = "purchase"
	}
	text, err := adapters.Source(kind, f.adapter)
	if err != nil {
		return usagef("--adapter: %w", err)
	}
	_, err = fmt.Fprint(out, text)
	return err
}

// check refuses what cannot be judged.
func (f *judgeFlags) check(command []string) error {
	b := f.options.Bounds
	switch {
	case len(command) == 0:
		return usagef("which program is judged? 'marketsim judge -- COMMAND'; --help tells what it has to do")
	case slices.Contains([]string{"docker", "podman", "nerdctl", "kubectl"}, filepath.Base(command[0])):
		return usagef("%s starts a container, whose processes cannot be stopped from here: "+
			"run marketsim inside it", command[0])
	case min(b.Preemptions, b.Faults) < 0 || f.options.Pairs < 1:
		return usagef("--preemptions and --faults must be at least 0; --pairs at least 1")
	case f.promise != "" && f.promise != "notices-loss":
		return usagef("--promise %q: the only one that can be named is notices-loss", f.promise)
	case f.options.Within <= 0 || f.options.Lease != 0 && f.options.Lease < 100*time.Millisecond:
		return usagef("--within must be more than 0, and --lease at least 100ms")
	}

	// A program that is not there would fail in each of 16 processes, with their words.
	if _, err := exec.LookPath(command[0]); err != nil {
		return usagef("%w: is it installed, and is there a path before a program in a folder, such as ./lock.py?", err)
	}
	if f.replay != "" { // judged parses it again, and looks at no error
		if err := judge.CheckToken(f.replay); err != nil {
			return usagef("--replay: %w", err)
		}
	}
	for _, name := range f.require {
		if name != "all" && !slices.Contains(requirable(), name) {
			return usagef("--require: there is no promise %q; there is all, %s", name, strings.Join(requirable(), ", "))
		}
	}
	for _, kind := range f.of {
		switch {
		case !slices.Contains(judge.AllKinds(), explore.Fault(kind)):
			return usagef("--of: there is no fault %q; 'marketsim judge --help' names them", kind)
		case explore.Fault(kind) == explore.Cancel && f.options.Purchase:
			return usagef("--of cancel is for locks: purchases are not cancelled")
		case explore.Fault(kind) == explore.IdleBreak && f.options.Purchase:
			return usagef("--of idle-break is for locks: a buyer always asks something")
		}
	}
	return nil
}

// complete fills in the options that no flag is bound to, and prepares the output. check has
// accepted the command and the flags. It is called once, since it adds to Bounds.Kinds, and
// before anything runs side by side, since it adds to passwords, which have no lock.
func (f *judgeFlags) complete(p *program, command []string) error {
	if err := f.out.prepare(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}

	o := &f.options
	o.Command = command
	o.Shown = p.passwords.addIn(command)
	o.StartServer = func(ctx context.Context, l backend.Local) (*backend.Server, error) {
		return starting(p, func() (*backend.Server, error) { return l.Start(ctx) })
	}
	o.Controls = []string{self, "adapter"} // package judge appends the name of a lock
	o.NoticesLoss = f.promise != ""
	if f.verbose {
		o.Stderr = p.stderr // which leaves out the passwords
	}
	f.announce(p)
	o.Bounds.Exhaustive = true // the search goes on after a harm: each promise gets a verdict
	for _, kind := range f.of {
		o.Bounds.Kinds = append(o.Bounds.Kinds, explore.Fault(kind))
	}
	return nil
}

// announce has the search say on stderr what it finds, when it is found, and how far it is: on
// a terminal every second.
func (f *judgeFlags) announce(p *program) {
	if w, _ := p.replaceable(); w != nil {
		f.options.ProgressEvery = time.Second
	}
	f.options.Found = func(program string, found search.Found) {
		p.notice("%s: %s, with %s and %s", program, found.Harm,
			english.Plural(found.Preemptions, "preemption", ""), english.Plural(found.Faults, "fault", ""))
	}
	f.options.Progress = func(soFar judge.Progress) { p.progress("%s", progressLine(soFar)) }
}

// progressLine says how far the search of a program is.
func progressLine(p judge.Progress) string {
	line := p.Program + ": the program rehearses"
	if s := p.Summary; s.Schedules > 0 {
		line = fmt.Sprintf("%s: %s so far, with %s and %s; %d left at least", p.Program,
			english.Plural(s.Schedules, "schedule", ""), english.Plural(s.Preemptions, "preemption", ""),
			english.Plural(s.Faults, "fault", ""), s.Left)
	}
	if p.Left > 0 {
		line += fmt.Sprintf("; at most %s more", p.Left.Round(time.Second))
	}
	return line
}

// requirable are the promises that --require may name: as the report has them, with hyphens.
func requirable() []string {
	names := judge.Promises()
	for i, name := range names {
		names[i] = strings.ReplaceAll(name, " ", "-")
	}
	return names
}

// unkept is an error that names the promises of --require that are not kept. A broken one
// is in another error, too. "all" leaves out those that the lock does not make, whose state is
// "not offered" or "not kept".
func (f *judgeFlags) unkept(res *findings.Explorations) error {
	var unkept []string
	for _, p := range res.Promises {
		named := slices.Contains(f.require, strings.ReplaceAll(p.Promise, " ", "-"))
		all := slices.Contains(f.require, "all") && p.State != "not offered" && p.State != "not kept"
		if p.State != "kept" && (named || all) {
			unkept = append(unkept, strings.TrimSuffix(p.Promise+" is "+p.State+": "+p.Why, ": "))
		}
	}
	if len(unkept) == 0 {
		return nil
	}
	return fmt.Errorf("--require: %s", strings.Join(unkept, "; "))
}

// replayFlags are the flags that say what is judged. A token names the program.
func (f *judgeFlags) replayFlags() (flags []string) {
	if f.options.Lease > 0 {
		flags = append(flags, "--lease", f.options.Lease.String())
	}
	if f.options.Server.Program != "" {
		flags = append(flags, "--server", f.options.Server.Program)
	}
	if f.promise != "" {
		flags = append(flags, "--promise", f.promise)
	}
	return flags
}

// judged is what the searches with the program find, or the schedule of --replay.
func (f *judgeFlags) judged(ctx context.Context) (*findings.Explorations, error) {
	if f.replay == "" {
		return judge.Judge(ctx, f.options)
	}
	one, err := judge.Replay(ctx, f.options, f.replay)
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	_, name, _, _ := search.ParseToken(f.replay) // cannot fail: check has parsed it
	of := findings.Exploration{Judged: true, Scheme: f.options.Scheme(), Program: name}
	of.Schedules = 1
	of.Harmful = one.Harmful
	found := f.options.Entry(of, one)

	return &findings.Explorations{
		Schema: findings.ExplorationsSchema, Judged: true, Replayed: f.replay,
		Searches: []findings.Exploration{found},
	}, nil
}
