package results_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

// ways are the rows of README's picture and what it calls them: the book's
// three ways first.
var ways = [][2]string{
	{"watch", "WATCH of the whole market"},
	{"watch-item", "WATCH of the item alone"},
	{"coarse:set-px", "one lock for the whole market"},
	{"fine", "a lock per item, as in the book"},
	{"fine:set-px", "a lock per item that expires"},
	{"lua", "one script"},
	{"lua-shared", "one script, one connection shared by all"},
}

// TestREADME: its first screen says what marketsim is, and has the book's question with
// its answer; it ends before a newcomer stops reading. With -update its tables, outputs,
// numbers and pictures are written.
func TestREADME(t *testing.T) {
	const readme = "../README.md"
	book := readRun(t, latest(t, "book-*"))
	strategies := readRun(t, latest(t, "strategies-*"))

	inPage(t, readme, "question", markdown(t, view.WatchBesideLocks(book)))
	inPage(t, readme, "output: reproduce", output(t,
		"go run ./cmd/marketsim reproduce    # the table above and the book's claims, on your machine: 2 minutes",
		view.Run(book), 1))
	inPage(t, readme, "output: compare", output(t,
		"marketsim compare watch coarse fine lua    # which way is faster, and by how much? 5 minutes",
		view.Run(only(t, strategies, "watch", "coarse", "fine", "lua")), 8))
	inPage(t, readme, "output: faults", output(t,
		"marketsim faults --scenario pause --lock set-px    # "+
			finding(t, readFaults(t), "pause", "set-px").InWords(),
		view.Faults(onlyFinding(t, "pause", "set-px")), 10))
	factsInSentences(t, readme, book, strategies)

	var drawn bytes.Buffer
	picture := "../docs/pictures/strategies.svg"
	testkit.Succeeds(t, view.SVG(&drawn, inWords(t, strategies)))
	rewrite(t, picture, text(t, picture), drawn.String())

	lines := strings.SplitAfter(text(t, readme), "\n")
	screen := strings.Join(lines[:40], "")
	wanted := regexp.MustCompile(
		`(?s)a benchmark and a fault tester.*WATCH cost.*retries/purchase.*60 times.*reproduce`)
	if !wanted.MatchString(screen) {
		t.Errorf("the first screen of README.md lacks something:\n%s", screen)
	}
	if n := len(lines) - 1; n > 170 {
		t.Errorf("README.md has %d lines, and 170 are enough: the rest belongs to docs/", n)
	}
}

// TestBook: docs/book.md has the verdict on each claim of the book, and the figure of its
// tables. With -update both are written.
func TestBook(t *testing.T) {
	run := readRun(t, latest(t, "book-*"))
	page := view.Run(run)
	claims := slices.IndexFunc(page.Blocks, func(b view.Block) bool { return b.Heading == "Claims" })
	if claims < 0 {
		t.Fatal("the stored run judges no claims")
	}
	inPage(t, "../docs/book.md", "claims", markdown(t, page.Blocks[claims].Table))

	var drawn bytes.Buffer
	picture := "../docs/pictures/book.svg"
	testkit.Succeeds(t, view.SVG(&drawn, view.BookFigure(run)))
	rewrite(t, picture, text(t, picture), drawn.String())
}

// latest is the newest of the stored runs whose folders match a pattern.
func latest(t *testing.T, pattern string) string {
	t.Helper()
	folders := glob(t, pattern)
	return folders[len(folders)-1]
}

// medianOf is a metric of a strategy under a mix: the median of its rounds, as
// reports print it.
func medianOf(t *testing.T, run *runs.Run, strategy string, mix result.Mix, name string) string {
	t.Helper()
	groups := run.Groups()
	i := slices.IndexFunc(groups, func(g runs.Group) bool {
		return g.Spec() == strategy && g.Mix == mix
	})
	if i < 0 {
		t.Fatalf("the run has no %s at %s", strategy, mix)
	}
	m := runs.MetricByName(name)
	return view.Number(compare.Median(groups[i].Values(m)).Center, m.Unit)
}

// only is a run with some of its strategies at 5x5, each compared with the first.
func only(t *testing.T, run *runs.Run, strategies ...string) *runs.Run {
	t.Helper()
	less := *run
	less.Rows, less.Manifest.Config.Points = nil, nil
	for _, strategy := range strategies {
		is := func(p result.Point) bool { return p.Strategy == strategy && p.Place() == "5x5" }
		i := slices.IndexFunc(run.Manifest.Config.Points, is)
		if i < 0 {
			t.Fatalf("the run has no %s at 5x5", strategy)
		}

		less.Manifest.Config.Points = append(less.Manifest.Config.Points, run.Manifest.Config.Points[i])
		for _, row := range run.Rows {
			if is(row.Point) {
				less.Rows = append(less.Rows, row)
			}
		}
	}
	return &less
}

// onlyFinding is the stored table of faults with one cell alone.
func onlyFinding(t *testing.T, scenario, lock string) *findings.FaultTable {
	t.Helper()
	less := *readFaults(t)
	less.Findings = []findings.Finding{finding(t, &less, scenario, lock)}
	less.Subjects = []string{lock}
	others := func(s findings.ScenarioInfo) bool { return s.Name != scenario }
	less.Scenarios = slices.DeleteFunc(slices.Clone(less.Scenarios), others)
	return &less
}

// output is a command and what it prints as text, for a page: from what was found on,
// some lines. What is left out is "...".
func output(t *testing.T, command string, d *view.Doc, most int) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Succeeds(t, view.Text(&b, d))
	_, found, ok := strings.Cut(b.String(), "\n- ")
	if !ok {
		t.Fatalf("nothing was found:\n%s", b.String())
	}

	lines := strings.Split("- "+strings.TrimSpace(found), "\n")
	if len(lines) > most {
		lines = append(lines[:most], "...")
	}
	var indented strings.Builder
	for _, line := range append([]string{command, "..."}, lines...) {
		indented.WriteString(strings.TrimRight("    "+line, " ") + "\n")
	}
	return indented.String()
}

// factsInSentences writes the numbers and names of README's findings into its sentences.
func factsInSentences(t *testing.T, readme string, book, strategies *runs.Run) {
	t.Helper()
	times := func(run *runs.Run, a, b, place string) string {
		c := comparedWith(t, run, a, b, place)
		return fmt.Sprintf("%.2g", c.Ratio)
	}
	retries := medianOf(t, book, "watch", result.Mix{Sellers: 5, Buyers: 5}, "retries_per_purchase")
	inSentence(t, readme,
		"A lock per item makes %s times the purchases of WATCH, and %s times those of one lock",
		times(book, "fine", "watch", "5x5"), times(book, "fine", "coarse", "5x5"))
	inSentence(t, readme, "WATCH starts a purchase again %s times before it succeeds", retries)
	inSentence(t, readme,
		"One script makes %s times the purchases of a lock per item that expires, and %s times with 50 sellers and 50 buyers",
		times(strategies, "lua", "fine:set-px", "5x5"), times(strategies, "lua", "fine:set-px", "50x50"))

	harmed, sound := paused(t)
	inSentence(t, readme, "Seen with %s; not seen with %s.", harmed, sound)

	kept, broken, overtaken := judgedLocks(t)
	inSentence(t, readme, "Two clients work at once, too, under %s.", overtaken)
	inSentence(t, readme,
		"locks made with %s keep the promises that were tested; %s do not.", kept, broken)

	verdicts := map[runs.Judgment][]string{}
	for _, c := range book.Claims {
		verdicts[c.Verdict] = append(verdicts[c.Verdict], fmt.Sprintf("*%s* (%d)", c.Text, c.ID))
	}
	if len(verdicts[runs.NotDecided]) > 0 {
		t.Errorf("README does not say which claims are not decided: %s", verdicts[runs.NotDecided])
	}
	inSentence(t, readme,
		"Of the book's %s claims %s hold. Not so: %s. Not judged, as no lock timed out: %s.",
		fmt.Sprint(len(book.Claims)), fmt.Sprint(len(verdicts[runs.Holds])),
		and(verdicts[runs.DoesNot]), and(verdicts[runs.NotJudged]))
}

// comparedWith is what a run says of two strategies in a place, with the second
// as the first's base.
func comparedWith(t *testing.T, run *runs.Run, a, b, place string) compare.Comparison {
	t.Helper()
	less := *run
	margin := 0.0
	less.Manifest.Config.Margin = &margin

	base := func(p result.Point) bool { return p.Strategy == b && p.Place() == place }
	i := slices.IndexFunc(run.Manifest.Config.Points, base)
	if i < 0 {
		t.Fatalf("the run has no %s at %s", b, place)
	}

	// All others are compared with the first.
	less.Manifest.Config.Points = slices.Insert(
		slices.Clone(run.Manifest.Config.Points), 0, run.Manifest.Config.Points[i])

	c, ok := between(&less, a, b, place)
	if !ok || c.Verdict != compare.Faster {
		t.Fatalf("README says that %s is faster than %s at %s, and it is %s", a, b, place, c.Verdict)
	}
	return c
}

// paused are the schemes that sell an item twice under a holder that pauses, and those
// that do no harm.
func paused(t *testing.T) (harmed, sound string) {
	told := map[verify.Harm][]string{}
	for _, s := range []struct{ scheme, name string }{
		{"redsync", "redsync"},
		{"redislock", "redislock"},
		{"zookeeper", "ZooKeeper"},
		{"etcd", "etcd"},
		{"redlock", "Redlock"},
		{"redisson", "Redisson's scheme"},
		{"set-px", "SET NX PX"},
		{"lua", "one script"},
		{"watch", "WATCH"},
		{"set-px:fencing=token", "a lock with a token that the write requires"},
	} {
		harm := finding(t, readFaults(t), "pause", s.scheme).Harm
		told[harm] = append(told[harm], s.name)
	}
	return and(told[verify.SoldTwice]), and(told[verify.NoHarm])
}

// inSentence compares the values of a sentence of a page, where the pattern has %s, with
// those that are stored. With -update it writes them. Lines may break anywhere.
func inSentence(t *testing.T, page, sentence string, values ...string) {
	t.Helper()
	pattern := regexp.QuoteMeta(strings.ReplaceAll(sentence, "%s", "\x00"))
	pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, " ", `\s+`), "\x00", "(.+?)")
	before := text(t, page)
	found := regexp.MustCompile("(?s)" + pattern).FindStringSubmatchIndex(before)
	if found == nil {
		t.Errorf("%s has no sentence %q", page, sentence)
		return
	}

	after := before
	for i := len(values) - 1; i >= 0; i-- { // from the last, so that places stay right
		from, to := found[2*i+2], found[2*i+3]
		if strings.Join(strings.Fields(before[from:to]), " ") != values[i] {
			after = after[:from] + values[i] + after[to:]
		}
	}
	rewrite(t, page, before, after)
}

// inWords is the figure of a run's throughput with the ways alone, for readers
// who do not know their names.
func inWords(t *testing.T, run *runs.Run) view.Figure {
	figures, m := view.Figures(run), run.Manifest
	f := figures[slices.IndexFunc(figures, func(f view.Figure) bool { return f.Name == "throughput" })]

	f.Title = "Purchases a second, by how buyers keep out of each other's way"
	f.X.Label = fmt.Sprintf("median of %d rounds with its 95%% interval; Redis %s, %d cores",
		m.Config.Trials, m.ServerVersion, m.CPUs)

	for i, p := range f.Panels {
		f.Panels[i] = view.Panel{Title: strings.Replace(p.Title, "x", " sellers and ", 1) + " buyers"}
		for _, way := range ways {
			at := slices.IndexFunc(p.Dots, func(d view.Dot) bool { return d.Label == way[0] })
			if at < 0 {
				t.Fatalf("the run has no %s at %s", way[0], p.Title)
			}
			p.Dots[at].Label = way[1]
			f.Panels[i].Dots = append(f.Panels[i].Dots, p.Dots[at])
		}
	}
	return f
}
