package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/fault"
	"github.com/marketsim/marketsim/verify/markettest"
)

type exploreFlags struct {
	programs, of        []string
	all                 bool
	preemptions, faults int
	schedules           int
	replay              string
	add                 string // the folder whose table is completed; empty: none
	out                 output
}

func newExplore(p *program) *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:  "explore SPEC...",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), p, args) },
	}
	var kinds []string
	for _, fault := range explore.Faults() {
		kinds = append(kinds, string(fault))
	}
	group(cmd, "Bounds", func(flags *pflag.FlagSet) {
		flags.IntVar(&f.preemptions, "preemptions", 2, "a client that could go on waits for another one at most `N` times\n"+
			"(once with three clients or servers of locks)")
		flags.IntVar(&f.faults, "faults", 1, "at most `N` faults happen")
		flags.StringSliceVar(&f.of, "of", nil, "`kinds` of faults, separated by commas (default all):\n"+
			strings.Join(kinds, ", "))
		flags.IntVar(&f.schedules, "schedules", 1_000_000, "a search stops after `N` schedules")
	})
	group(cmd, "Programs", func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&f.programs, "program", nil,
			"`names` of programs, separated by commas (default all that can show something)")
		flags.BoolVar(&f.all, "all", false, "explore the other programs after a harm, too")
		flags.StringVar(&f.replay, "replay", "", "`token` of a schedule to play again")
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.add(flags, faultsFormats)
		f.out.addFolder(flags, exploredFile)
		flags.StringVar(&f.add, "add", "", "`folder` whose "+exploredFile+" is completed: explores the schemes that are\n"+
			"missing there or named, in all programs, and keeps the others")
	})
	cmd.MarkFlagsMutuallyExclusive("add", "out", "replay")
	return cmd
}

func (f *exploreFlags) run(ctx context.Context, p *program, names []string) error {
	ctx, stop := p.interruptible(ctx)
	defer stop()
	switch {
	case f.replay != "" && len(names) > 0:
		return usageError{errors.New("--replay plays one schedule, whose token names the spec: leave SPEC out")}
	case f.replay != "":
		return f.again(ctx, p)
	case f.add != "":
		return f.complete(ctx, p, names)
	case len(names) == 0:
		return usageError{errors.New("which SPEC is explored? 'marketsim list' shows strategies and locks")}
	}
	chosen, err := f.chosen(names)
	if err != nil {
		return err
	}
	if err := f.out.prepare(); err != nil {
		return err
	}
	res := &verify.Explorations{Schema: verify.ExploredSchema, Version: version()}
	for _, e := range chosen {
		found, err := e.search(ctx, p, *f)
		res.Searches = append(res.Searches, found...)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	var incomplete error
	if ctx.Err() != nil {
		incomplete = fmt.Errorf("%w: the report holds what was explored", errInterrupted)
	}
	return errors.Join(exploredBroken(res), incomplete, f.out.finish(p.stdout, p.stderr, res))
}

func exploredBroken(res *verify.Explorations) (err error) {
	for _, e := range res.Broken() {
		err = errors.Join(err, fmt.Errorf("%w: %s promises %q, and program %s found it %s", errViolation, e.Scheme,
			e.Broken, e.Program, e.Harm))
	}
	return err
}

type exploration struct {
	scheme  fault.Scheme
	markets []markettest.Market
	why     string // it cannot be explored
}

func (f *exploreFlags) chosen(names []string) (all []exploration, err error) {
	if min(f.preemptions, f.faults) < 0 || f.schedules < 1 {
		return nil, usageError{errors.New("--preemptions and --faults are 0 at least, and --schedules 1")}
	}
	for _, kind := range f.of {
		if !slices.Contains(explore.Faults(), explore.Fault(kind)) {
			return nil, usageError{fmt.Errorf("--of: there is no fault %q; 'marketsim explore --help' names them", kind)}
		}
	}
	for _, name := range f.programs {
		if _, is := markettest.Named(name); !is {
			var known []string
			for _, m := range markettest.Markets() {
				known = append(known, m.Name)
			}
			return nil, usageError{errors.New("--program: " + strategies.UnknownName("program", name, known))}
		}
	}
	schemes, err := fault.Schemes(catalogue.Full(), names...)
	if err != nil {
		return nil, fmt.Errorf("%w; 'marketsim list' shows locks, strategies and their parameters", err)
	}
	for _, scheme := range schemes {
		e, err := f.exploration(scheme)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// exploration chooses the programs for a scheme: without names those that can show something of it.
func (f *exploreFlags) exploration(scheme fault.Scheme) (exploration, error) {
	e := exploration{scheme: scheme}
	protects := scheme.Strategy().Protects
	for _, m := range markettest.Markets() {
		idle := m.LockServers == 1 && (scheme.Lock == nil || scheme.FusesLock()) ||
			m.Name == "one-account" && !protects.Accounts
		if named := slices.Contains(f.programs, m.Name); !named && (len(f.programs) > 0 || idle) {
			continue
		}
		_, err := m.Spec(catalogue.Full(), scheme.Spec.String())
		if errors.Is(err, markettest.ErrElsewhere) {
			e.why = err.Error()
			continue
		}
		if err != nil {
			return e, usageError{err}
		}
		e.markets = append(e.markets, m)
	}
	if len(e.markets) > 0 {
		e.why = ""
	} else if len(f.programs) == 0 || e.why == "" {
		e.why = "its lock needs other servers than Redis in memory"
	}
	return e, nil
}

func (e exploration) search(ctx context.Context, p *program, f exploreFlags) (all []verify.Explored, err error) {
	if len(e.markets) == 0 {
		return []verify.Explored{{Scheme: e.scheme.Name, Why: e.why}}, nil
	}
	drawn := false
	for _, m := range e.markets {
		spec, err := m.Spec(catalogue.Full(), e.scheme.Spec.String())
		if err != nil {
			return all, err
		}
		r, err := explore.Search(ctx, m.Program(spec.String(), spec.OpenFor), f.bounds(m))
		if err != nil {
			return []verify.Explored{{Scheme: e.scheme.Name, Why: err.Error()}}, nil
		}
		found := f.explored(e.scheme.Name, r)
		if len(r.Found) > 0 {
			found.Broken = m.Broken(spec, r.Found[0])
			if !drawn {
				found.Diagram = &r.Found[0].Diagram
				drawn = true
			}
		}
		all = append(all, found)
		fmt.Fprintf(p.stderr, "%s, %s: %s, in %s within %s and %s\n", e.scheme.Name, m.Name,
			cmp.Or(string(found.Harm), found.Found()), english.Plural(found.Schedules, "schedule", ""),
			english.Plural(found.Preemptions, "preemption", ""), english.Plural(found.Faults, "fault", ""))
		if ctx.Err() != nil || found.Harm != "" && !f.all {
			break
		}
	}
	return all, nil
}

// bounds are those of a search in a market: with many requests one preemption less.
func (f exploreFlags) bounds(m markettest.Market) explore.Bounds {
	b := explore.Bounds{Preemptions: f.preemptions, Faults: f.faults, Schedules: f.schedules}
	if len(m.Traders) > 2 || m.LockServers > 1 || m.Resends {
		b.Preemptions = min(b.Preemptions, 1)
	}
	for _, kind := range f.of {
		b.Kinds = append(b.Kinds, explore.Fault(kind))
	}
	return b
}

func (f exploreFlags) explored(scheme string, r *explore.Report) verify.Explored {
	e := verify.Explored{
		Scheme: scheme, Program: r.Program.Name, Of: f.of, Preemptions: r.Preemptions, Faults: r.Faults,
		Schedules: r.Schedules, Harmful: r.Harmful, Stopped: r.Stopped,
	}
	if r.Lost > 0 {
		e.Points, e.Lost = r.Points, r.Lost
	}
	if len(r.Found) > 0 {
		one := r.Found[0]
		e.Shortest(one.Violation, one.Preemptions, one.Faults, one.Token)
	}
	return e
}

func (f *exploreFlags) again(ctx context.Context, p *program) error {
	subject, name, _, err := explore.ParseToken(f.replay)
	if err != nil {
		return usageError{fmt.Errorf("--replay: %w", err)}
	}
	m, known := markettest.Named(name)
	if !known {
		return usageError{fmt.Errorf("--replay: %q is no program of 'marketsim explore': a test has to play it", name)}
	}
	spec, err := m.Spec(catalogue.Full(), subject)
	if err != nil {
		return usageError{fmt.Errorf("--replay: %w", err)}
	}
	found, err := explore.Replay(ctx, m.Program(spec.String(), spec.OpenFor), f.replay)
	if err != nil {
		return usageError{fmt.Errorf("--replay: %w", err)}
	}
	one := verify.Explored{Scheme: subject, Program: name, Schedules: 1, Diagram: &found.Diagram}
	one.Shortest(found.Violation, found.Preemptions, found.Faults, found.Token)
	if found.Harm != "" {
		one.Broken = m.Broken(spec, found)
	}
	res := &verify.Explorations{Schema: verify.ExploredSchema, Version: version(), Searches: []verify.Explored{one}}
	return errors.Join(exploredBroken(res), f.out.finish(p.stdout, p.stderr, res))
}

// complete explores the schemes that a folder's table lacks, and those that are named, and stores the table.
func (f *exploreFlags) complete(ctx context.Context, p *program, names []string) error {
	schemes := fault.Names(catalogue.Full())
	res, err := loadOnly[*verify.Explorations](f.add, exploredFile)
	if errors.Is(err, fs.ErrNotExist) {
		res, err = &verify.Explorations{Schema: verify.ExploredSchema}, nil
	}
	if err != nil {
		return usageError{fmt.Errorf("--add: %w", err)}
	}
	for _, name := range names {
		if !slices.Contains(schemes, name) {
			return usageError{fmt.Errorf("--add: %s is not in that table: explore it by itself", name)}
		}
	}
	for _, name := range schemes {
		is := func(e verify.Explored) bool { return e.Scheme == name }
		if !slices.Contains(names, name) && !slices.ContainsFunc(res.Searches, is) {
			names = append(names, name)
		}
	}
	f.all, f.out.dir, f.out.force = true, f.add, true
	chosen, err := f.chosen(names)
	if err != nil {
		return err
	}
	if err := f.out.prepare(); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "%s\n", english.Plural(len(chosen), "scheme is explored", "schemes are explored"))
	found, err := f.inProcesses(ctx, p, chosen)
	res.Version = version()
	res.Replace(found, schemes)
	return errors.Join(err, f.out.save(res))
}

// inProcesses explores schemes side by side: a process one at a time, because what is random in it is fixed meanwhile.
func (f *exploreFlags) inProcesses(ctx context.Context, p *program, all []exploration) ([]verify.Explored, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards errs
	var errs []error
	var group sync.WaitGroup
	found, running := make([][]verify.Explored, len(all)), make(chan struct{}, runtime.NumCPU())
	for i, e := range all {
		running <- struct{}{}
		group.Go(func() {
			one, err := f.inProcess(ctx, own, e)
			mu.Lock()
			defer mu.Unlock()
			found[i], errs = one, append(errs, err)
			p.progress("%d/%d %s", len(errs), len(all), e.scheme.Name)
			<-running
		})
	}
	group.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// inProcess explores a scheme in a process of its own, whose exit code is told by what it found.
func (f *exploreFlags) inProcess(ctx context.Context, own string, e exploration) ([]verify.Explored, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, own, f.words(e)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run()
	res, err := verify.ReadExplored(&out)
	if err != nil {
		return nil, fmt.Errorf("explore %s: %w: %s", e.scheme.Name, cmp.Or(failed, err), said.String())
	}
	return res.Searches, nil
}

// words are the command that explores a scheme as these flags say, and prints what it found.
func (f *exploreFlags) words(e exploration) []string {
	words := []string{
		"explore", "--all", "--format", asJSON, fmt.Sprintf("--preemptions=%d", f.preemptions),
		fmt.Sprintf("--faults=%d", f.faults), fmt.Sprintf("--schedules=%d", f.schedules),
	}
	for _, kind := range f.of {
		words = append(words, "--of", kind)
	}
	for _, m := range e.markets {
		words = append(words, "--program", m.Name)
	}
	return append(words, e.scheme.Name)
}
