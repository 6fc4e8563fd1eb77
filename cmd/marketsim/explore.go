package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify/explore"
)

type exploreFlags struct {
	programs, of []string
	all          bool
	limits       explore.Bounds // as flags say; see chosen, which fills in the others
	replay       string
	scripts      scriptFlags
	catalogue    strategies.Catalogue
	out          output
}

func newExplore(p *program) *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:  "explore SPEC...",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), p, words(args)) },
	}

	group(cmd, "Bounds", func(flags *pflag.FlagSet) {
		// Market.Within of package suite bounds relisted and three-masters, which the text names.
		f.limits.Preemptions = explore.Unbounded // help shows it as the default
		flags.Var((*preemptions)(&f.limits.Preemptions), "preemptions",
			"a client that could go on waits for another one at most `N` times;\n"+
				"any: every order of their requests is gone through\n"+
				"(in relisted and three-masters: at most once)")
		flags.IntVar(&f.limits.Faults, "faults", 1, "at most `N` faults happen")
		flags.StringSliceVar(&f.of, "of", nil, "`kinds` of faults, separated by commas (default all):\n"+
			strings.Trim(fmt.Sprint(explore.Faults()), "[]")+";\n"+
			"and where they are named "+string(explore.Cancel)+" "+string(explore.IdleBreak))
		flags.IntVar(&f.limits.Schedules, "schedules", 1_000_000, "a search stops after `N` schedules")
		flags.DurationVar(&f.limits.Time, "within", 0,
			"a search stops after this `duration` (default: it takes what it needs)")
	})
	group(cmd, "Programs", func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&f.programs, "program", nil,
			"`names` of programs, separated by commas (default all that can show something)")
		flags.BoolVar(&f.all, "all", false, "explore the other programs even after one has shown harm")
		f.scripts.add(flags)
		flags.StringVar(&f.replay, "replay", "", "`token` of a schedule to play again")
	})
	group(cmd, "Output", func(flags *pflag.FlagSet) {
		f.out.addFolder(flags, faultsFormats, exploredFile)
	})
	cmd.MarkFlagsMutuallyExclusive("out", "replay")
	return cmd
}

// run explores the schemes of names, or plays the schedule of --replay. After an interrupt it
// draws and stores what was explored until then.
func (f *exploreFlags) run(ctx context.Context, p *program, names []string) (err error) {
	ctx, stop := p.interruptible(ctx)
	defer stop()

	res := &findings.Explorations{Schema: findings.ExplorationsSchema, Version: version()}
	f.catalogue, res.Scripts, err = f.scripts.known(names)
	if err != nil {
		return err
	}
	p.passwords.hideInScripts(res.Scripts)

	// A token names the scheme, the program and the schedule, so that nothing is left to choose.
	switch {
	case f.replay != "" && len(names) > 0:
		return usagef("--replay plays one schedule, whose token names the spec: leave SPEC out")
	case f.replay != "":
		res.Searches, err = f.replayed(ctx)
		if err != nil {
			return usagef("--replay: %w", err)
		}
		return errors.Join(exploredBroken(res), f.out.finish(p, res))
	case len(names) == 0:
		return usagef("which SPEC is explored? 'marketsim list' shows strategies and locks")
	}

	chosen, err := f.chosen(names)
	if err != nil {
		return err
	}
	if err := f.out.prepare(); err != nil {
		return err
	}

	// After an interrupt, too: the search of each scheme that is left then ends after its first
	// schedules, and its entry says why.
	for _, e := range chosen {
		e.again = res.Again
		res.Searches = append(res.Searches, e.search(ctx, p, *f)...)
	}

	var incomplete error
	if ctx.Err() != nil {
		incomplete = fmt.Errorf("%w: the report holds what was explored", errInterrupted)
	}
	return errors.Join(exploredBroken(res), incomplete, f.out.finish(p, res))
}

func exploredBroken(res *findings.Explorations) (err error) {
	for _, e := range res.Broken() {
		if res.Judged {
			err = errors.Join(err, fmt.Errorf("%w: broken: %s (%s, in %s)", errViolation, e.Broken, e.Harm, e.Program))
			continue
		}
		err = errors.Join(err, fmt.Errorf("%w: %s promises %q, and program %s found it %s", errViolation, e.Scheme,
			e.Broken, e.Program, e.Harm))
	}
	return err
}

// An exploration is a scheme and the markets whose programs can show something about it.
type exploration struct {
	scheme   string
	programs []trade
	again    func(findings.Exploration) string // the command that plays a schedule again
	why      string                            // without programs: why it cannot be explored
}

// A trade is a market with the spec that trades in it.
type trade struct {
	suite.Market
	spec strategies.Spec
}

func (t trade) program() explore.Program { return t.Program(t.spec.String(), t.spec.OpenFor) }

// shortest notes in e a schedule that was found, and the promise that its harm breaks.
func (t trade) shortest(e *findings.Exploration, found explore.Found) {
	e.Shortest(found.Violation, found.Preemptions, found.Faults, found.Token)
	if found.Harm != "" {
		e.Broken = t.BrokenPromise(t.spec, found)
	}
}

// chosen are the schemes that names mean, each with its programs. It refuses what the flags ask
// for and nobody can do, before the first search. It is called once: it adds to f.limits.Kinds.
func (f *exploreFlags) chosen(names []string) (all []exploration, err error) {
	if min(f.limits.Preemptions, f.limits.Faults) < 0 || f.limits.Schedules < 1 {
		return nil, usagef("--preemptions and --faults must be at least 0; --schedules at least 1")
	}
	if f.limits.Time < 0 {
		return nil, usagef("--within must be above 0")
	}
	for _, kind := range f.of {
		if !slices.Contains(explore.AllFaults(), explore.Fault(kind)) {
			return nil, usagef("--of: there is no fault %q; 'marketsim explore --help' names them", kind)
		}
		f.limits.Kinds = append(f.limits.Kinds, explore.Fault(kind))
	}

	known := wording.Names(suite.Markets(), func(m suite.Market) string { return m.Name })
	for _, name := range f.programs {
		if !slices.Contains(known, name) {
			return nil, usagef("--program: %s", wording.Unknown("program", name, known))
		}
	}

	schemes, err := fault.Schemes(f.catalogue, names...)
	if err != nil {
		return nil, fmt.Errorf("%w; 'marketsim list' shows locks, strategies and their parameters", err)
	}

	// A program that cannot have a scheme is seen now, and not after an hour of other searches.
	for _, scheme := range schemes {
		e, err := f.exploration(scheme)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// exploration chooses the programs for a scheme: those that were named, or those that
// can show something about it. A market that cannot have the scheme's lock is left out; if that
// leaves none, why says so.
func (f *exploreFlags) exploration(scheme fault.Scheme) (exploration, error) {
	e := exploration{scheme: scheme.Name, why: "its lock needs other servers than Redis in memory"}
	for _, m := range suite.Markets() {
		// Left out unless it is named: a market with a lock server apart, if the scheme has no lock
		// or one that lies with the market; one whose clients use the same accounts, if the scheme
		// does not protect accounts. one-account-long-leases, which has another name, is not left
		// out, and results/explored has its searches.
		idle := m.LockServers == 1 && (!scheme.TakesLock() || scheme.FusesLock()) ||
			(m.Name == "one-account" || m.PayEachOther) && !scheme.Strategy().Protects.Accounts
		if named := slices.Contains(f.programs, m.Name); !named && (len(f.programs) > 0 || idle) {
			continue
		}

		spec, err := m.Spec(f.catalogue, scheme.Spec.String())
		switch {
		case err == nil:
			e.programs = append(e.programs, trade{m, spec})
		case !errors.Is(err, suite.ErrElsewhere):
			return e, usageError{err}
		case len(f.programs) > 0:
			e.why = err.Error()
		}
	}
	return e, nil
}

// search explores the programs in turn, until one shows harm or, with --all, to the end.
// The first harm has its diagram.
func (e exploration) search(ctx context.Context, p *program, f exploreFlags) (all []findings.Exploration) {
	if len(e.programs) == 0 {
		return []findings.Exploration{{Scheme: e.scheme, Why: e.why}}
	}

	drawn := false
	for _, t := range e.programs {
		r, err := explore.Search(ctx, e.announcing(p, t), t.Within(f.limits))
		if err != nil { // what earlier programs showed stands
			p.notice("%s, %s: not explored: %v", e.scheme, t.Name, err)
			failed := findings.Exploration{Scheme: e.scheme, Why: err.Error()}
			if len(all) > 0 { // else the scheme itself was not explored
				failed.Program = t.Name
			}
			return append(all, failed)
		}

		found := findings.Exploration{
			Scheme:  e.scheme,
			Program: t.Name,
			Searched: findings.Searched{
				Of:          f.of,
				Preemptions: r.Preemptions,
				Faults:      r.Faults,
				Schedules:   r.Schedules,
				Merged:      r.Merged,
				Harmful:     r.Harmful,
				Complete:    r.Complete,
				Stopped:     r.Stopped,
			},
		}
		if r.Lost > 0 { // at these of all points, what the clients did was chance
			found.Points = r.Points
			found.Lost = r.Lost
		}
		if len(r.Found) > 0 {
			t.shortest(&found, r.Found[0]) // its bounds replace those of the search
			if !drawn {
				found.Diagram = &r.Found[0].Diagram
			}
			drawn = true
		}
		all = append(all, found)

		within := english.Plural(found.Preemptions, "preemption", "")
		if found.Complete {
			within = "any number of preemptions"
		}
		fmt.Fprintf(p.stderr, "%s, %s: %s, in %s within %s and %s\n", e.scheme, t.Name,
			cmp.Or(string(found.Harm), found.Found()), english.Plural(found.Schedules, "schedule", ""),
			within, english.Plural(found.Faults, "fault", ""))
		if ctx.Err() != nil || found.Harm != "" && !f.all {
			break
		}
	}
	return all
}

// announcing is a trade's program, whose search says on stderr what it finds, when it is found,
// and how far it is.
func (e exploration) announcing(p *program, t trade) explore.Program {
	program := t.program()
	program.OnFound = func(f explore.Found) {
		found := findings.Exploration{Scheme: e.scheme}
		found.Token = f.Token
		p.notice("%s, %s: %s, with %s and %s: %s", e.scheme, t.Name, f.Harm,
			english.Plural(f.Preemptions, "preemption", ""), english.Plural(f.Faults, "fault", ""), e.again(found))
	}
	program.OnProgress = func(soFar *explore.Report) {
		p.progress("%s, %s: %s", e.scheme, t.Name, soFar.Progress())
	}
	return program
}

// replayed is the schedule of --replay, played again.
func (f *exploreFlags) replayed(ctx context.Context) ([]findings.Exploration, error) {
	subject, name, _, err := search.ParseToken(f.replay)
	if err != nil {
		return nil, err
	}

	// f.catalogue has the scripts already: asked is only whether the token's is among them.
	_, _, err = f.scripts.known([]string{subject})
	if err != nil {
		return nil, err
	}
	m, known := suite.MarketNamed(name)
	if !known {
		return nil, fmt.Errorf("%q is no program of 'marketsim explore': a test has to play it", name)
	}
	spec, err := m.Spec(f.catalogue, subject)
	if err != nil {
		return nil, err
	}
	t := trade{m, spec}

	// What is stored of a search is stored of one schedule, too, so that it is drawn the same way.
	found, err := explore.Replay(ctx, t.program(), f.replay)
	if err != nil {
		return nil, err
	}
	one := findings.Exploration{Scheme: subject, Program: name}
	one.Schedules = 1
	one.Diagram = &found.Diagram
	t.shortest(&one, found)
	if one.Harm != "" {
		one.Harmful = 1
	}
	return []findings.Exploration{one}, nil
}

// preemptions is a bound on preemptions as a flag: a number, or "any".
type preemptions int

const anyNumber = "any"

func (n *preemptions) String() string {
	if *n == explore.Unbounded {
		return anyNumber
	}
	return strconv.Itoa(int(*n))
}

// Set reads the flag.
func (n *preemptions) Set(text string) error {
	if text == anyNumber {
		*n = explore.Unbounded
		return nil
	}
	is, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("want a number, or %q", anyNumber)
	}
	*n = preemptions(is)
	return nil
}

// Type is what the value of the flag is called in help.
func (n *preemptions) Type() string { return "N" }
