package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/suggest"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/results"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func newList(p *program) *cobra.Command {
	var locks, scenarios bool
	cmd := &cobra.Command{
		Use:  "list [NAME]",
		Args: arguments(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			docs := []*view.Doc{overview(catalogue.Full())}
			switch {
			case (locks || scenarios) && len(args) > 0:
				return usagef("give either a name, or --locks or --scenarios")
			case locks:
				docs = []*view.Doc{{Blocks: []view.Block{{Table: promises(catalogue.Full().Locks)}, features()}}}
			case scenarios:
				docs = []*view.Doc{{Blocks: []view.Block{{Table: scenarioTable()}}}}
			case len(args) > 0:
				all, err := kept()
				if err == nil {
					docs, err = described(args[0], all)
				}
				if err != nil {
					return err
				}
			}
			return drawDocs(p.stdout, asText, docs...)
		},
	}
	group(cmd, "Flags", func(flags *pflag.FlagSet) {
		flags.BoolVar(&locks, "locks", false, "show which lock makes which promise, and what was observed")
		flags.BoolVar(&scenarios, "scenarios", false, "show what happens in each scenario of 'marketsim faults'")
	})
	cmd.MarkFlagsMutuallyExclusive("locks", "scenarios")
	return cmd
}

// kept are the stored findings that the program contains.
func kept() ([]named, error) {
	faults, err := findings.ReadFaultTable(strings.NewReader(results.FaultsJSON))
	explored, wrong := findings.ReadExplorations(strings.NewReader(results.ExploredJSON))
	return []named{{drawing: faults}, {drawing: explored}}, errors.Join(err, wrong)
}

// described tells of whatever has a name: first what told says, then what is known of
// libraries.
func described(name string, all []named) ([]*view.Doc, error) {
	docs, unknown := told(name, all)
	libraries, err := ofLibraries(name)
	switch {
	case err != nil:
		return nil, err
	case len(libraries) > 0:
		return append(docs, libraries...), nil
	}
	return docs, unknown
}

// told describes what has a name, or a lock with parameters. What results say
// about it comes first.
func told(name string, all []named) (docs []*view.Doc, err error) {
	head, _, with := strings.Cut(strings.ReplaceAll(name, "+", ":"), ":")
	scheme, err := fault.Of(catalogue.Full(), name)
	if err != nil && with {
		return nil, err
	}
	var names []string
	tell := func(kind, of, source string, takes []param.Param, facts ...string) {
		names = append(names, of)
		if of != head {
			return
		}
		unsaid := func(fact string) bool { return strings.HasSuffix(fact, ": ") }
		facts = slices.DeleteFunc(slices.Insert(facts, 1, "source: "+source), unsaid)
		d := &view.Doc{Title: kind + " " + name, Facts: facts, Blocks: found(name, source, all)}
		if len(takes) > 0 {
			t := view.NewTable("takes", "default", "").Wrapping("")
			for _, p := range takes {
				t.Add(p.Name, p.Default, p.Summary)
			}
			d.Blocks = append(d.Blocks, view.Block{Table: t})
		}
		docs = append(docs, d)
	}
	for _, s := range catalogue.Full().Strategies {
		tell("strategy", s.Name, s.Source, s.Params, s.Summary)
	}
	for _, k := range catalogue.Full().Locks {
		var made []string
		for _, p := range scheme.Promises().List() {
			if p.Made {
				made = append(made, p.Name)
			}
		}
		tell("lock", k.Name, k.Source, k.Params, k.Summary, "woken by: "+k.Wakes,
			"promises: "+strings.Join(made, ", "), "needs: "+string(k.Needs))
	}
	for _, sc := range fault.Every() {
		tell("scenario", sc.Name, "", nil, sc.Title, "covered by the promise: "+sc.Promise, "needs: "+sc.Needs)
	}
	if len(docs) == 0 {
		return nil, usageError{&strategies.UnknownError{What: "name", Name: name, Known: append(names, libraryNames()...)}}
	}
	return docs, nil
}

// found is what results say about a scheme: what broke it, in which version of its
// library, and what searches found.
func found(scheme, source string, all []named) []view.Block {
	var notes []string
	for _, one := range all {
		switch r := one.drawing.(type) {
		case *findings.FaultTable:
			against, played := r.Against(scheme)
			for _, f := range against {
				what := strings.TrimSuffix(f.Outcome()+", BROKEN PROMISE "+f.Broken, ", BROKEN PROMISE ")
				notes = append(notes, what+": marketsim faults --scenario "+f.Scenario+" --lock "+process.ShellLine(scheme))
			}
			if played > 0 {
				notes = append(notes, fmt.Sprintf("%d of %d scenarios broke it.", len(against), played))
			}
			for module, version := range r.Manifest.Libraries {
				if strings.HasPrefix(source, module) && played > 0 {
					notes = append(notes, "Played with "+module+" "+version+".")
				}
			}
		case *findings.Explorations:
			if sum := r.Sum(scheme); sum != "" {
				again := "marketsim explore " + process.ShellLine(scheme)
				notes = append(notes, "Every schedule within bounds, by program: "+sum+". "+again)
			}
		}
	}
	if len(notes) == 0 {
		return nil
	}
	return []view.Block{{
		Heading: "What broke it, how long others were kept out, and the command that plays it again:",
		Note: append(notes, "What to take: one script (lua) or, if one script cannot do it, a lock whose store refuses late "+
			"writes (set-px:fencing=token). docs/answers.md says more."),
	}}
}

func overview(c strategies.Catalogue) *view.Doc {
	t := view.NewTable("strategy", "how").Wrapping("how")
	for _, s := range c.Strategies {
		t.Add(s.Name, s.Summary)
	}
	var good, wrong []string
	for _, k := range c.Locks {
		if strings.HasPrefix(k.Summary, "WRONG") {
			wrong = append(wrong, k.Name)
		} else {
			good = append(good, k.Name)
		}
	}
	return &view.Doc{Blocks: []view.Block{{Table: t, Note: []string{
		"Locks, as in fine:set-px or coarse:set-px+watchdog:poll=10ms: " + strings.Join(good, ", ") + ".",
		"Locks that are wrong on purpose: " + strings.Join(wrong, ", ") + ".",
		"'marketsim list NAME' describes one in full; --locks says what each lock promises, " +
			"--scenarios what 'marketsim faults' can run.",
	}}}}
}

// promises shows which lock makes which promise. Those of ZooKeeper and etcd about a
// lost node need three servers.
func promises(kinds []lock.Kind) *view.Table {
	names := suggest.Names(lock.Promises{}.List(), func(p lock.Promise) string { return p.Name })
	t := view.NewTable(append([]string{"lock"}, names...)...)
	for _, k := range kinds {
		cells := []string{k.Name}
		for _, p := range k.Promises.List() {
			cells = append(cells, map[bool]string{true: "yes", false: "-"}[p.Made])
		}
		t.Add(cells...)
	}
	return t
}

func features() view.Block {
	lines := strings.Split(strings.TrimSpace(results.FeaturesCSV), "\n")
	t := view.NewTable("lock", "enters again reading", "enters again writing", "only the owner deletes", "expires")
	for _, line := range lines[1:] {
		c := strings.Split(line, ",")
		t.Add(c[0], c[1]+" / "+c[2], c[3]+" / "+c[4], c[5]+" / "+c[6], c[7]+" / "+c[8])
	}
	return view.Block{Table: t, Note: []string{
		"Published / observed: what is published about a lock, and what was seen in the scenarios of " +
			"'marketsim faults' and by a test that enters again. -: nobody says, or nothing could be seen.",
	}}
}

func scenarioTable() *view.Table {
	t := view.NewTable("scenario", "what happens", "promise", "needs").Wrapping("what happens")
	for _, sc := range fault.Every() {
		t.Add(sc.Name, sc.Title, sc.Promise, sc.Needs)
	}
	return t
}
