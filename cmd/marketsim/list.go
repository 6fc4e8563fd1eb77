package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wording"
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
			if len(args) == 1 && args[0] == "script" && !locks && !scenarios {
				return p.listScript()
			}
			docs, err := listed(args, locks, scenarios)
			if err != nil {
				return err
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

// listed is what the flags ask for, what has a name, or the names that there are.
func listed(names []string, locks, scenarios bool) ([]*view.Doc, error) {
	switch {
	case (locks || scenarios) && len(names) > 0:
		return nil, usagef("give either a name, or --locks or --scenarios")
	case locks:
		return []*view.Doc{{Blocks: []view.Block{{Table: promises(catalogue.Full().Locks)}, features()}}}, nil
	case scenarios:
		return []*view.Doc{{Blocks: []view.Block{{Table: scenarioTable()}}}}, nil
	case len(names) == 0:
		return []*view.Doc{overview(catalogue.Full())}, nil
	}

	return docsOf(names[0])
}

// The findings that the program contains, which are read once.
var (
	builtInFaults = sync.OnceValues(func() (*findings.FaultTable, error) {
		return findings.ReadFaultTable(strings.NewReader(results.FaultsJSON))
	})
	builtInSearches = sync.OnceValues(func() (*findings.Explorations, error) {
		return findings.ReadExplorations(strings.NewReader(results.ExploredJSON))
	})
)

// docsOf tells of whatever has a name: first of strategies, locks and scenarios, then
// what is known of libraries.
func docsOf(name string) ([]*view.Doc, error) {
	faults, err := builtInFaults()
	explored, wrong := builtInSearches()
	if err := errors.Join(err, wrong); err != nil {
		return nil, err
	}

	docs, unknown := describe(name, []namedResult{{result: faults}, {result: explored}})
	libraries, err := ofLibraries(name, faults)
	switch {
	case err != nil:
		return nil, err
	case len(libraries) > 0: // so that the name is known after all
		return append(docs, libraries...), nil
	}
	return docs, unknown
}

// A description is what the catalogue says of a strategy, a lock or a scenario.
type description struct {
	kind, name string
	source     string // where its code is from
	params     []param.Param
	facts      []string // the first is a summary; one that ends in ": " says nothing
}

// describe describes what has a name, or a lock with parameters. What results say
// about it comes first.
func describe(name string, all []namedResult) (docs []*view.Doc, err error) {
	head, _, with := strings.Cut(strings.ReplaceAll(name, "+", ":"), ":")
	scheme, err := fault.SchemeOf(catalogue.Full(), name)
	// Without parameters it may be the name of a scenario, which makes no scheme: descriptions
	// gets an empty one, which promises nothing.
	if err != nil && with {
		return nil, err
	}

	var known []string
	for _, d := range descriptions(scheme) {
		known = append(known, d.name)
		if d.name == head {
			docs = append(docs, d.doc(name, all))
		}
	}
	if len(docs) == 0 {
		known = append(known, libraryNames()...)
		return nil, usageError{&strategies.UnknownError{What: "name", Name: name, Known: known}}
	}
	return docs, nil
}

// descriptions are those of all strategies, locks and scenarios. The promises of locks are
// those of a scheme, whose parameters may make others.
func descriptions(scheme fault.Scheme) (all []description) {
	for _, s := range catalogue.Full().Strategies {
		all = append(all, description{
			kind: "strategy", name: s.Name, source: s.Source, params: s.Params, facts: []string{s.Summary},
		})
	}

	// Every lock gets the promises of the one scheme: who reads them has asked for that one.
	var promised []string
	for _, p := range scheme.Promises().List() {
		if p.Made {
			promised = append(promised, p.Name)
		}
	}
	for _, k := range catalogue.Full().Locks {
		all = append(all, description{
			kind: "lock", name: k.Name, source: k.Source, params: k.Params,
			facts: []string{
				k.Summary, "woken by: " + k.Wakes, "promises: " + strings.Join(promised, ", "), "needs: " + string(k.Needs),
			},
		})
	}

	for _, sc := range fault.Scenarios() {
		all = append(all, description{
			kind: "scenario", name: sc.Name,
			facts: []string{sc.Title, "covered by the promise: " + sc.Promise, "needs: " + sc.Needs},
		})
	}
	return all
}

// doc is a description as a document under the name that was asked for, with what results
// say about that.
func (d description) doc(name string, all []namedResult) *view.Doc {
	facts := slices.Insert(slices.Clone(d.facts), 1, "source: "+d.source)
	facts = slices.DeleteFunc(facts, func(fact string) bool { return strings.HasSuffix(fact, ": ") })
	doc := &view.Doc{Title: d.kind + " " + name, Facts: facts, Blocks: evidence(name, d.source, all)}
	if len(d.params) == 0 {
		return doc
	}

	t := view.NewTable("takes", "default", "").Wrapping("")
	for _, p := range d.params {
		t.Add(p.Name, p.Default, p.Summary)
	}
	doc.Blocks = append(doc.Blocks, view.Block{Table: t})
	return doc
}

// evidence is what stored results say about a scheme: what broke it in which version of its
// library, source, as fault scenarios show, and what the searches of its schedules found.
// It is nil if no result tells of it.
func evidence(scheme, source string, all []namedResult) []view.Block {
	var notes []string
	for _, one := range all {
		switch r := one.result.(type) {
		case *findings.FaultTable:
			notes = append(notes, faultNotes(scheme, source, r)...)
		case *findings.Explorations:
			if sum := r.Sum(scheme); sum != "" {
				notes = append(notes,
					"Every schedule within bounds, by program: "+sum+". marketsim explore "+process.ShellLine(scheme))
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

// faultNotes are the findings against a scheme, each with the command that plays it again.
func faultNotes(scheme, source string, faults *findings.FaultTable) (notes []string) {
	against, played := faults.Against(scheme)
	for _, f := range against {
		what := f.Outcome()
		if f.Broken != "" {
			what += ", BROKEN PROMISE " + f.Broken
		}
		notes = append(notes, what+": marketsim faults --scenario "+f.Scenario+" --lock "+process.ShellLine(scheme))
	}
	if played == 0 {
		return notes
	}

	notes = append(notes, fmt.Sprintf("%d of %d scenarios broke it.", len(against), played))
	for module, version := range faults.Manifest.Libraries {
		if strings.HasPrefix(source, module) {
			notes = append(notes, "Played with "+module+" "+version+".")
		}
	}
	return notes
}

// overview is what list shows without arguments.
func overview(c strategies.Catalogue) *view.Doc {
	t := view.NewTable("strategy", "how").Wrapping("how")
	for _, s := range c.Strategies {
		t.Add(s.Name, s.Summary)
	}

	var good, wrong []string
	for _, k := range c.Locks {
		if strings.HasPrefix(k.Summary, "WRONG") { // wrong on purpose
			wrong = append(wrong, k.Name)
		} else {
			good = append(good, k.Name)
		}
	}

	return &view.Doc{Blocks: []view.Block{{Table: t, Note: []string{
		"Locks, as in fine:set-px or coarse:set-px+watchdog:poll=10ms: " + strings.Join(good, ", ") + ".",
		"Locks that are wrong on purpose: " + strings.Join(wrong, ", ") + ".",
		"Of your own: exec:NAME is a program (run --exec), and script:NAME a Lua script (--script), of which " +
			"'marketsim list script' prints one to start from.",
		"'marketsim list NAME' describes one in full; --locks says what each lock promises, " +
			"--scenarios what 'marketsim faults' can run.",
	}}}}
}

// promises shows which lock makes which promise. Those of ZooKeeper and etcd about a
// lost node need three servers.
func promises(kinds []lock.Kind) *view.Table {
	names := wording.Names(lock.Promises{}.List(), func(p lock.Promise) string { return p.Name })
	t := view.NewTable(append([]string{"lock"}, names...)...)

	for _, k := range kinds {
		cells := []string{k.Name}
		for _, p := range k.Promises.List() {
			made := "-"
			if p.Made {
				made = "yes"
			}
			cells = append(cells, made)
		}
		t.Add(cells...)
	}
	return t
}

// features shows results/features.csv: each column of the table is what is published and what was
// observed, two fields beside each other in the file. No field holds a comma.
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
	for _, sc := range fault.Scenarios() {
		t.Add(sc.Name, sc.Title, sc.Promise, sc.Needs)
	}
	return t
}
