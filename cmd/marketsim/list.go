package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/results"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/fault"
	"github.com/marketsim/marketsim/view"
)

func newList(p *program) *cobra.Command {
	var locks, scenarios bool
	var out output
	cmd := &cobra.Command{
		Use:  "list [NAME]",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			err := out.prepare()
			if err != nil {
				return err
			}
			docs := []*view.Doc{overview(catalogue.Full())}
			switch {
			case (locks || scenarios) && len(args) > 0:
				err = usageError{errors.New("give either a name, or --locks or --scenarios")}
			case locks:
				docs = []*view.Doc{{Blocks: []view.Block{{Table: promises(catalogue.Full().Locks)}, features()}}}
			case scenarios:
				docs = []*view.Doc{{Blocks: []view.Block{{Table: scenarioTable()}}}}
			case len(args) > 0:
				docs, err = told(args[0])
			}
			switch {
			case err != nil:
				return err
			case out.format == asCSV && len(docs) == 1 && len(docs[0].Blocks) > 0:
				return docs[0].Blocks[0].Table.CSV(p.stdout)
			case out.format == asCSV:
				return usageError{errors.New("csv is for one table: " + args[0] +
					" has none, or is two things; take another --format")}
			}
			return drawDocs(p.stdout, out.format, docs...)
		},
	}
	group(cmd, "Flags", func(flags *pflag.FlagSet) {
		flags.BoolVar(&locks, "locks", false, "which lock makes which promise, and what was observed")
		flags.BoolVar(&scenarios, "scenarios", false, "what happens in each scenario of 'marketsim faults'")
		out.add(flags, listFormats)
	})
	cmd.MarkFlagsMutuallyExclusive("locks", "scenarios")
	return cmd
}

// told is all of what has a name, which may be two things.
func told(name string) (docs []*view.Doc, err error) {
	var names []string
	tell := func(kind, of string, params []param.Param, facts ...string) {
		names = append(names, of)
		if of != name {
			return
		}
		unsaid := func(fact string) bool { return strings.HasSuffix(fact, ": ") }
		d := &view.Doc{Title: kind + " " + name, Facts: slices.DeleteFunc(facts, unsaid)}
		if len(params) > 0 {
			t := view.NewTable("takes", "default", "").Wrapping("")
			for _, p := range params {
				t.Add(p.Name, p.Default, p.Summary)
			}
			d.Blocks = []view.Block{{Table: t}}
		}
		docs = append(docs, d)
	}
	for _, s := range catalogue.Full().Strategies {
		tell("strategy", s.Name, s.Params, s.Summary, "source: "+s.Source)
	}
	for _, k := range catalogue.Full().Locks {
		var made []string
		for _, p := range k.Promises.List() {
			if p.Made {
				made = append(made, p.Name)
			}
		}
		tell("lock", k.Name, k.Params, k.Summary, "source: "+k.Source, "woken by: "+k.Wakes,
			"promises: "+strings.Join(made, ", "), "needs: "+string(k.Needs))
	}
	for _, sc := range everyScenario() {
		tell("scenario", sc.Name, nil, sc.Title, "covered by the promise: "+sc.Promise, "needs: "+sc.Needs)
	}
	if len(docs) == 0 {
		err = usageError{errors.New(strategies.UnknownName("name", name, names))}
	}
	return docs, err
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
		"Locks, as in fine:set-px or coarse:set-px+watchdog:ttl=500ms: " + strings.Join(good, ", ") + ".",
		"Locks that are wrong on purpose: " + strings.Join(wrong, ", ") + ".",
		"'marketsim list NAME' tells all of one; --locks says what each lock promises, " +
			"--scenarios what 'marketsim faults' can run.",
	}}}}
}

// promises shows which lock makes which promise. Those of ZooKeeper and etcd about a lost node take three servers.
func promises(kinds []lock.Kind) *view.Table {
	headings := []string{"lock"}
	for _, p := range (lock.Promises{}).List() {
		headings = append(headings, p.Name)
	}
	t := view.NewTable(headings...)
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
	lines := strings.Split(strings.TrimSpace(results.Features), "\n")
	t := view.NewTable("lock", "enters again reading", "enters again writing", "only the owner deletes", "expires")
	for _, line := range lines[1:] {
		c := strings.Split(line, ",")
		t.Add(c[0], c[1]+" / "+c[2], c[3]+" / "+c[4], c[5]+" / "+c[6], c[7]+" / "+c[8])
	}
	return view.Block{Table: t, Note: []string{
		"Published / observed: what the literature says of a lock, and what was seen in the scenarios of " +
			"'marketsim faults' and by a test that enters again. -: nobody says, or nothing could be seen.",
	}}
}

func scenarioTable() *view.Table {
	t := view.NewTable("scenario", "what happens", "promise", "needs").Wrapping("what happens")
	for _, sc := range everyScenario() {
		t.Add(sc.Name, sc.Title, sc.Promise, sc.Needs)
	}
	return t
}

// everyScenario are those that run by default, and those that run where somebody names them.
func everyScenario() []fault.Scenario { return slices.Concat(fault.All(), fault.Clustered()) }
