package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func newList(p *program) *cobra.Command {
	locks, scenarios := false, false
	var out outputFlags
	cmd := &cobra.Command{
		Use:   "list [NAME]",
		Short: "List the strategies, locks and scenarios, or tell all of one",
		Long: `List the names of strategies, locks and fault scenarios. With a name, tell all of that one: how it works, its
parameters, where it comes from and, of a lock, what it promises. CSV, Markdown and JSON tell all of each.`,
		Example: `  marketsim list
  marketsim list set-px
  marketsim list --locks --format csv`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			doc, err := listed(catalogue.Full(), args, locks, scenarios)
			if err != nil {
				return usageError{err}
			}
			return out.show(p.stdout, p.stderr, doc)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return entryNames(entries(catalogue.Full())), cobra.ShellCompDirectiveNoFileComp
		},
	}
	out.add(cmd)
	cmd.Flags().BoolVar(&locks, "locks", false, "which lock makes which promise")
	cmd.Flags().BoolVar(&scenarios, "scenarios", false, "what happens in each scenario of 'marketsim faults'")
	return cmd
}

// listed is the list that was asked for.
func listed(c strategies.Catalogue, names []string, locks, scenarios bool) (*report.Document, error) {
	switch {
	case locks && scenarios:
		return nil, errors.New("give either --locks or --scenarios")
	case (locks || scenarios) && len(names) > 0:
		return nil, errors.New("give either a name or --locks and --scenarios")
	case scenarios:
		return scenarioList(), nil
	case locks:
		return promiseList(c.Locks), nil
	case len(names) == 0:
		return overview(entries(c)), nil
	}
	all := entries(c)
	found := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.name != names[0] })
	if len(found) == 0 {
		return nil, errors.New(strategies.Unknown("name", quotable(names[0]), entryNames(all)))
	}
	var lines, words []string
	for _, e := range found {
		lines, words = append(lines, e.lines()...), append(words, e.inWords())
	}
	return report.Records(lines, entryRecords(found), nil).InWords(strings.Join(words, " ")), nil
}

// An entry is a strategy, a lock or a scenario, as far as a list tells of it.
type entry struct {
	kind, name, summary, source, wakes, needs string
	promises, missing                         []string // those that are made, and of a lock those that are not
	params                                    []param.Param
	protects                                  strategies.Protection
}

// wrong reports whether it is a lock that is wrong on purpose.
func (e entry) wrong() bool { return e.kind == "lock" && strings.HasPrefix(e.summary, "WRONG") }

func entries(c strategies.Catalogue) (all []entry) {
	for _, s := range c.Strategies {
		all = append(all, entry{kind: "strategy", name: s.Name, summary: s.Summary, source: s.Source, params: s.Params,
			protects: s.Protects})
	}
	for _, k := range c.Locks {
		e := entry{kind: "lock", name: k.Name, summary: k.Summary, source: k.Source, wakes: k.Wakes, params: k.Params,
			needs: string(k.Needs)}
		for _, p := range k.Promises.List() {
			if p.Made {
				e.promises = append(e.promises, p.Name)
			} else {
				e.missing = append(e.missing, p.Name)
			}
		}
		all = append(all, e)
	}
	for _, sc := range everyScenario() {
		e := entry{kind: "scenario", name: sc.Name, summary: sc.Title, needs: sc.Needs}
		if sc.Promise != "" {
			e.promises = []string{sc.Promise}
		}
		all = append(all, e)
	}
	return all
}

func entryNames(all []entry) (names []string) {
	for _, e := range all {
		names = append(names, e.name)
	}
	return names
}

// settings are the parameters with their defaults.
func (e entry) settings() string {
	var all []string
	for _, p := range e.params {
		all = append(all, p.Name+"="+p.Default)
	}
	return strings.Join(all, " ")
}

func entryRecords(all []entry) [][]string {
	records := [][]string{{"kind", "name", "summary", "source", "woken_by", "promises", "needs", "parameters"}}
	for _, e := range all {
		records = append(records, []string{e.kind, e.name, e.summary, e.source, e.wakes, strings.Join(e.promises, ", "), e.needs,
			e.settings()})
	}
	return records
}

// lines tell all of an entry.
func (e entry) lines() []string {
	lines := []string{e.kind + " " + e.name}
	promises := "promises"
	if e.kind == "scenario" {
		promises = "covered by"
	}
	for _, part := range []struct{ label, text string }{
		{"", e.summary}, {"source", e.source}, {"woken by", e.wakes}, {"needs", e.needs},
		{promises, strings.Join(e.promises, ", ")},
	} {
		if part.text != "" {
			lines = append(lines, indented(part.label, part.text)...)
		}
	}
	label := "takes"
	for _, p := range e.params {
		lines = append(lines, indented(label, p.Name+"="+p.Default+": "+p.Summary)...)
		label = ""
	}
	return lines
}

// indented is a text after a label, in lines that fit.
func indented(label, text string) (lines []string) {
	const margin = "            "
	wrapped, _ := twwarp.WrapString(text, report.Width-len(margin))
	for _, line := range wrapped {
		lines = append(lines, fmt.Sprintf("  %-*s%s", len(margin)-2, label, line))
		label = ""
	}
	return lines
}

// overview fits a screen: strategies with a line each, and the names of the rest.
func overview(all []entry) *report.Document {
	lines := []string{"strategies"}
	var good, wrong []string
	for _, e := range all {
		switch {
		case e.kind == "strategy":
			lines = append(lines, fmt.Sprintf("  %-12s %s", e.name, shortened(e.summary, report.Width-15)))
		case e.kind == "scenario": // --scenarios lists them
		case e.wrong():
			wrong = append(wrong, e.name)
		default:
			good = append(good, e.name)
		}
	}
	for _, group := range []struct {
		title string
		names []string
	}{
		{"locks, as in fine:set-px or coarse:set-px+watchdog:ttl=500ms", good},
		{"locks that are wrong on purpose", wrong},
	} {
		lines = append(lines, group.title)
		wrapped, _ := twwarp.WrapString(strings.Join(group.names, ", "), report.Width-2)
		for _, line := range wrapped {
			lines = append(lines, "  "+line)
		}
	}
	return report.Records(append(lines, "'marketsim list NAME' tells all of one; --locks says what each lock promises,",
		"--scenarios what 'marketsim faults' can run"), entryRecords(all), nil).InWords(overviewInWords(all))
}

// shortened is a text that is cut at a space where it is longer than width.
func shortened(text string, width int) string {
	if len(text) <= width {
		return text
	}
	text = text[:width-len("...")]
	return strings.TrimRight(text[:strings.LastIndex(text, " ")], ",;:") + "..."
}

// promiseList shows which lock makes which promise.
func promiseList(kinds []lock.Kind) *report.Document {
	records, short := [][]string{{"lock"}}, [][]string{{"lock"}}
	var legend []string
	for i, p := range (lock.Promises{}).List() {
		records[0] = append(records[0], p.Name)
		short[0] = append(short[0], fmt.Sprint(i+1))
		legend = append(legend, fmt.Sprintf("%d %s", i+1, p.Name))
	}
	for _, k := range kinds {
		row := []string{k.Name}
		for _, p := range k.Promises.List() {
			row = append(row, made(k, p))
		}
		records, short = append(records, row), append(short, row)
	}
	numbers, _ := twwarp.WrapString("Promises: "+strings.Join(legend, ", ")+".", report.Width)
	note, _ := twwarp.WrapString(ensembleNote, report.Width)
	return report.Records(slices.Concat(numbers, aligned(short), note), records, nil).InWords(promisesInWords(kinds))
}

const ensembleNote = "* with three servers or more (--zookeeper, --etcd); " +
	"a run's private server is alone, and does not survive its loss"

// made says whether a kind makes a promise, with a mark where it takes more servers than a run starts by itself.
func made(k lock.Kind, p lock.Promise) string {
	alone := k.Needs == lock.NeedsZooKeeper || k.Needs == lock.NeedsEtcd
	switch {
	case !p.Made:
		return "-"
	case alone && p.Name == "survives node loss":
		return "yes*"
	}
	return "yes"
}

// scenarioList is what 'marketsim faults' runs, and which promise of a lock says that it survives.
func scenarioList() *report.Document {
	records := [][]string{{"scenario", "what happens", "promise that covers it", "needs"}}
	short, longest := [][]string{records[0][:2]}, 0
	for _, sc := range everyScenario() {
		longest = max(longest, len(sc.Name))
	}
	for _, sc := range everyScenario() {
		records = append(records, []string{sc.Name, sc.Title, cmp.Or(sc.Promise, "-"), cmp.Or(sc.Needs, "-")})
		short = append(short, []string{sc.Name, shortened(sc.Title, report.Width-longest-2)})
	}
	return report.Records(aligned(short), records, nil).InWords(scenariosInWords(everyScenario()))
}

// aligned are the lines of a table, two spaces between its columns.
func aligned(rows [][]string) []string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // into memory
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}
