package results

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/report"
	"github.com/marketsim/marketsim/bench/result"
)

var update = flag.Bool("update", false, "write what is stored into README.md, docs/ and the READMEs in results/")

// pages are all texts that may show what is stored.
var pages = []string{"../*.md", "../docs/*.md", "README.md", "*/README.md"}

// excerpts make what a page shows of a folder, by its name: a table in Markdown. Each gets what the page shows now.
var excerpts = map[string]func(t *testing.T, folder, now string) string{
	"2026-11-22-redis-7.0.15":            bookTable,
	faultsFolder:                         faultsTable,
	"fencing-2026-11-22-redis-7.0.15":    comparisonTables,
	"locks-2026-11-22-redis-7.0.15":      comparisonTables,
	"strategies-2026-11-22-redis-7.0.15": comparedWith("fine"),
	"watch-2026-11-22-redis-7.0.15":      comparedWith("watch"),
	"waiting-2026-11-22-redis-7.0.15":    comparedWith("coarse:set-px"),
	"servers-2026-11-22-redis-7.0.15":    comparedWith("fine:set-px"),
	"native-2026-11-22-valkey-9.1.2":     comparedWith("fine:set-px"),
	"sweeps-2026-11-22-redis-7.0.15":     sweepSentences,
}

var (
	excerpt = regexp.MustCompile(`(?s)(<!-- from results/([^ ]+) -->\n)(.*?)(<!-- end -->)`)
	command = regexp.MustCompile(`(?m)^(    marketsim faults --scenario (\S+) --lock (\S+) +# )(.+)$`)
)

// link is a link in Markdown to a file of this module.
var link = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)

// TestLinksLeadSomewhere: what a page points to is there.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, path := range glob(t, pages...) {
		for _, found := range link.FindAllStringSubmatch(text(t, path), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere: %v", path, found[1], err)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links were found", links)
	}
}

// TestPagesShowWhatIsStored compares every excerpt, and what docs/faults.md says that each command finds, with what is
// stored. With -update it writes them.
func TestPagesShowWhatIsStored(t *testing.T) {
	shown := map[string]bool{}
	for _, path := range glob(t, pages...) {
		before := text(t, path)
		if marks := strings.Count(before, "<!-- from "); marks != len(excerpt.FindAllString(before, -1)) {
			t.Errorf("%s: an excerpt has no end, or is not from a folder of results/", path)
		}
		after := excerpt.ReplaceAllStringFunc(before, func(now string) string {
			part := excerpt.FindStringSubmatch(now)
			draw, ok := excerpts[part[2]]
			if !ok {
				t.Errorf("%s: nothing is known to be shown from results/%s", path, part[2])
				return now
			}
			shown[part[2]] = true
			return part[1] + draw(t, part[2], part[3]) + part[4]
		})
		after = command.ReplaceAllStringFunc(after, func(now string) string {
			part := command.FindStringSubmatch(now)
			return part[1] + told(finding(t, part[2], part[3]))
		})
		rewrite(t, path, before, after)
	}
	for folder := range excerpts {
		if !shown[folder] {
			t.Errorf("no page shows results/%s", folder)
		}
	}
}

// TestDocsTellOfEveryScenario: each command in docs/faults.md says what it finds, and each scenario has one.
func TestDocsTellOfEveryScenario(t *testing.T) {
	docs := text(t, "../docs/faults.md")
	if all, said := strings.Count(docs, "marketsim faults --scenario"), len(command.FindAllString(docs, -1)); all != said {
		t.Errorf("docs/faults.md has %d commands, of which %d say what they find", all, said)
	}
	for _, sc := range readFaults(t).Scenarios {
		if !strings.Contains(docs, "--scenario "+sc.Name+" ") {
			t.Errorf("docs/faults.md does not tell of %s", sc.Name)
		}
	}
}

// rewrite fails where a page does not show what is stored. With -update it writes the page.
func rewrite(t *testing.T, path, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	if !*update {
		t.Errorf("%s does not show what is stored; 'go test ./results -update' writes it:\n%s", path, difference(before, after))
	} else if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Error(err)
	}
}

// difference is the lines of after that before lacks.
func difference(before, after string) string {
	var lines []string
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// bookTable is the largest of the book's tables beside what was measured, with how many claims hold.
func bookTable(t *testing.T, folder, _ string) string {
	var b bytes.Buffer
	if err := report.Run(readRun(t, filepath.Join(folder, "run.json"))).Write(&b, report.Markdown,
		report.Options{}); err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(b.String(), "\n## Table 6-3 of Redis in Action\n\n")
	section, _, ends := strings.Cut(section, "\n## ")
	table := strings.TrimRight(section[max(0, strings.Index(section, "|")):], "\n") // what stands before it tells of all
	_, claims, claimed := strings.Cut(b.String(), "\n## Claims\n\n")
	claims, _, _ = strings.Cut(claims, "\n")
	if !found || !ends || !claimed {
		t.Fatal("the report has no table 6-3, or no claims")
	}
	return table + "\n\n" + claims + "\n"
}

// sweepSentences are what the sweeps below a folder found, each in a list.
func sweepSentences(t *testing.T, folder, _ string) string {
	var all []string
	for _, path := range glob(t, folder+"/*/sweep.json") {
		run := readRun(t, path)
		text := "**" + filepath.Base(filepath.Dir(path)) + "**\n\n"
		for _, sentence := range run.Sweep.Findings {
			text += "- " + sentence + "\n"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// faultsTable fills the cells of a table in anew; its scenarios and locks are chosen by whoever wrote the page.
func faultsTable(t *testing.T, _, now string) string {
	var table [][]string
	for line := range strings.Lines(now) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], ":-") {
			table = append(table, cells)
		}
	}
	for _, row := range table[1:] {
		for i, scenario := range table[0][1:] {
			row[i+1] = cellOf(finding(t, scenario, row[0]))
		}
	}
	return markdown(table)
}

// short are the times that others were kept out, as a table in a page tells them.
var short = map[result.KeptOut]string{
	result.NoLease: ", no lease", result.AtOnce: ", at once", result.LeaseRanOut: ", 1 lease",
	result.PassedOver:      ", dead waiter",
	result.CounterCaughtUp: ", counter", result.HolderBack: ", holder", result.NeverIn: ", never",
}

// cellOf is the two answers of a stored finding, in short.
func cellOf(f result.Finding) string {
	if f.Harm == "" {
		return string(f.Verdict)
	}
	return outcome(f) + short[f.KeptOut]
}

// outcome is what happened to money and items.
func outcome(f result.Finding) string {
	if f.Harm == result.NoHarm {
		return "no harm"
	}
	return string(f.Harm)
}

// told is the two answers of a stored finding, in full.
func told(f result.Finding) string {
	switch f.KeptOut {
	case "":
		return string(f.Verdict)
	case result.NotAsked, result.NoLease:
		return outcome(f)
	case result.AtOnce:
		return outcome(f) + "; others get in at once"
	case result.NeverIn:
		return outcome(f) + "; others never get in"
	}
	return outcome(f) + "; others kept out " + string(f.KeptOut)
}

// finding is what the stored table of faults says of a scenario with a lock.
func finding(t *testing.T, scenario, lock string) result.Finding {
	t.Helper()
	found := readFaults(t).Of(scenario)
	i := slices.IndexFunc(found, func(f result.Finding) bool { return f.Subject == lock })
	if i < 0 {
		t.Fatalf("a page tells of scenario %q with %q, which is not stored", scenario, lock)
	}
	return found[i]
}

// comparisonTables are the comparisons of the runs below a folder, each with what a purchase cost the server: the median
// of the rounds.
func comparisonTables(t *testing.T, folder, _ string) string {
	return comparisonsOf(t, folder, func(result.Comparison) bool { return true })
}

// comparedWith makes the same of the comparisons with one of the strategies.
func comparedWith(strategy string) func(t *testing.T, folder, now string) string {
	return func(t *testing.T, folder, _ string) string {
		return comparisonsOf(t, folder, func(c result.Comparison) bool { return c.A == strategy || c.B == strategy })
	}
}

func comparisonsOf(t *testing.T, folder string, wanted func(result.Comparison) bool) string {
	var all []string
	pattern := folder + "/run.json"
	if _, err := os.Stat(pattern); err != nil {
		pattern = folder + "/*/run.json"
	}
	for _, path := range glob(t, pattern) {
		run := readRun(t, path)
		run.Comparisons = slices.DeleteFunc(run.Comparisons, func(c result.Comparison) bool { return !wanted(c) })
		var drawn bytes.Buffer
		if err := report.Run(run).Write(&drawn, report.Markdown, report.Options{}); err != nil {
			t.Fatal(err)
		}
		_, section, found := strings.Cut(drawn.String(), "\n## Comparison\n\n")
		_, table, ruled := strings.Cut(section, "\n\n")
		table, _, ends := strings.Cut(table, "\n\n")
		if !found || !ruled || !ends {
			t.Fatalf("the report of %s has no comparison", path)
		}
		all = append(all, table+"\n", serverTime(run))
	}
	return strings.Join(all, "\n")
}

// serverTime is the CPU time that the market's server spent on a purchase, for each strategy and mix.
func serverTime(run *result.Run) string {
	table := [][]string{{"strategy", "mix", "server us/purchase", "commands/purchase"}}
	for _, rows := range run.Same(run.Rows) {
		var us, commands []float64
		for _, r := range rows {
			if r.Cost != nil && r.Cost.ServerUS != nil {
				us = append(us, *r.Cost.ServerUS)
			}
			if r.CommandsPerPurchase > 0 {
				commands = append(commands, r.CommandsPerPurchase)
			}
		}
		line := []string{rows[0].Strategy, rows[0].Mix().String(), "-", "-"}
		if len(us) > 0 {
			line[2] = fmt.Sprintf("%.0f", compare.Median(us).Center)
		}
		if len(commands) > 0 {
			line[3] = fmt.Sprintf("%.1f", compare.Median(commands).Center)
		}
		table = append(table, line)
	}
	return markdown(table)
}

// markdown draws a table. Columns of numbers are aligned to the right.
func markdown(table [][]string) string {
	number := regexp.MustCompile(`^[0-9.,]+$`)
	var align []tw.Align
	for _, first := range table[1] {
		if number.MatchString(first) {
			align = append(align, tw.AlignRight)
		} else {
			align = append(align, tw.AlignLeft)
		}
	}
	section := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone, AutoFormat: tw.Off},
		Alignment:  tw.CellAlignment{PerColumn: align},
	}
	var b strings.Builder
	out := tablewriter.NewTable(&b, tablewriter.WithRenderer(renderer.NewMarkdown()),
		tablewriter.WithConfig(tablewriter.Config{Header: section, Row: section}))
	out.Header(table[0])
	if err := errors.Join(out.Bulk(table[1:]), out.Render()); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return b.String()
}
