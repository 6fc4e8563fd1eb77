package results

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/results/stored"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/view"
)

var update = flag.Bool("update", false, "write what is stored into README.md, docs/ and docs/pictures/")

// faultsFolder holds the stored table of faults. Each other folder with a run.json is a stored run: its name begins
// with what was measured.
const faultsFolder = "faults"

// pages are all texts that may show what is stored.
var pages = []string{"../*.md", "../docs/*.md", "README.md"}

// What a page shows: a table of a folder, and what a command finds.
var (
	excerpt  = regexp.MustCompile(`(?s)(<!-- from results/([^ ]+) -->\n)(.*?)(<!-- end -->)`)
	played   = regexp.MustCompile(`(?m)^(    marketsim faults --scenario (\S+) --lock (\S+) +# )(.+)$`)
	claimed  = regexp.MustCompile("(?m)^(\\|.*\\| `faults --scenario (\\S+) --lock (\\S+)` +\\| )([^|]*[^| ])( *\\|)$")
	compared = regexp.MustCompile(`(?m)^(    marketsim compare (\S+) (\S+)((?: --\S+ \S+)*) +# )(.+)$`)
	mixes    = regexp.MustCompile(`--mix (\S+)`)
	loads    = regexp.MustCompile(`--(wallets|funds|hot|stock|hold|rtt|markets) (\S+)`)
	link     = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)                         // to a file of this module
	stop     = regexp.MustCompile("(?m)^\\| (\\S+\\.go): `(?:(\\w+)\\.)?(\\w+)` \\|") // in a debugger
)

// TestStored: every stored run is complete and small, and each result can be drawn.
func TestStored(t *testing.T) {
	draw := func(path string, d *view.Doc) {
		for _, write := range []func(io.Writer, *view.Doc) error{
			view.Text, view.Markdown, func(w io.Writer, d *view.Doc) error { return view.HTML(w, d) },
		} {
			var b bytes.Buffer
			if err := write(&b, d); err != nil || b.Len() == 0 {
				t.Errorf("%s: %v, %d bytes", path, err, b.Len())
			}
		}
	}
	for folder, run := range readRuns(t) {
		path := filepath.Join(folder, "run.json")
		if run.Status != stored.Complete {
			t.Errorf("%s is %s", path, run.Status)
		}
		if size := len(text(t, path)); size > 600_000 {
			t.Errorf("%s has %d bytes, and 600,000 are enough", path, size)
		}
		draw(path, view.Run(run))
		claims := run.Claims
		if len(claims) == 0 {
			continue
		}
		run.Claims = bench.Judge(run)
		if *update {
			var again bytes.Buffer
			testkit.Succeeds(t, run.Write(&again))
			rewrite(t, path, text(t, path), again.String())
		} else if !reflect.DeepEqual(run.Claims, claims) {
			t.Errorf("%s: its claims are judged otherwise now; 'go test ./results -update' writes them", path)
		}
	}
	faults := readFaults(t)
	draw(faultsFolder, view.Faults(faults))
	var again bytes.Buffer
	if err := faults.Write(&again); err != nil || again.String() != text(t, faultsFolder+"/faults.json") {
		t.Errorf("faults.json is not as marketsim writes it: %v", err)
	}
}

// TestPagesShowWhatIsStored compares every excerpt, and what a page says that a command finds, with what is stored.
// With -update it writes them.
func TestPagesShowWhatIsStored(t *testing.T) {
	runs, faults := readRuns(t), readFaults(t)
	for _, path := range glob(t, pages...) {
		before := text(t, path)
		if marks := strings.Count(before, "<!-- from "); marks != len(excerpt.FindAllString(before, -1)) {
			t.Errorf("%s: an excerpt has no end, or is not from a folder of results/", path)
		}
		after := each(excerpt, before, func(part []string) string {
			switch run := runs[part[2]]; {
			case part[2] == faultsFolder:
				return part[1] + faultsTable(t, faults, part[3]) + part[4]
			case run == nil:
				t.Fatalf("%s shows results/%s, where no run is stored", path, part[2])
			case len(run.Manifest.Config.Reproduces) > 0:
				return part[1] + bookTable(t, run) + part[4]
			}
			return part[1] + rowsTable(t, runs[part[2]], part[3]) + part[4]
		})
		after = each(played, after, func(part []string) string {
			return part[1] + told(finding(t, faults, part[2], part[3]))
		})
		after = each(claimed, after, func(part []string) string {
			return part[1] + told(finding(t, faults, part[2], part[3])) + part[5]
		})
		after = each(compared, after, func(part []string) string { return part[1] + comparedIn(t, runs, part) })
		rewrite(t, path, before, after)
	}
	n := len(compared.FindAllString(text(t, "../docs/answers.md"), -1))
	if n < 5 || !strings.Contains(text(t, "../README.md"), "<!-- from results/book-") {
		t.Errorf("README.md does not show the book's table, or docs/answers.md has %d answers only", n)
	}
}

// each replaces what a pattern finds in a text.
func each(pattern *regexp.Regexp, text string, by func(part []string) string) string {
	return pattern.ReplaceAllStringFunc(text, func(found string) string { return by(pattern.FindStringSubmatch(found)) })
}

// rewrite fails where a page does not show what is stored. With -update it writes the page.
func rewrite(t *testing.T, path, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	if !*update {
		var lines []string
		for line := range strings.Lines(after) {
			if !strings.Contains(before, line) {
				lines = append(lines, line)
			}
		}
		t.Errorf("%s does not show what is stored; 'go test ./results -update' writes it:\n%s", path, strings.Join(lines, ""))
	} else if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Error(err)
	}
}

// bookTable is the largest of the book's tables beside what was measured, with how many claims hold.
func bookTable(t *testing.T, run *result.Run) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Succeeds(t, view.BookTable(run).Markdown(&b))
	verdicts := map[result.Judgment]int{}
	for _, c := range run.Claims {
		verdicts[c.Verdict]++
	}
	fmt.Fprintf(&b, "\n%d of the book's %d claims hold, %d fail, %d are undecided and %d are not judged. "+
		"The tolerances were set beforehand.\n", verdicts[result.Holds], len(run.Claims), verdicts[result.DoesNot],
		verdicts[result.NotDecided], verdicts[result.NotJudged])
	return b.String()
}

// faultsTable fills the cells of a table in anew; its scenarios and locks are chosen by whoever wrote the page.
func faultsTable(t *testing.T, faults *verify.Faults, now string) string {
	return filled(t, now, func(lock, scenario string) string { return finding(t, faults, scenario, lock).Outcome() })
}

// rowsTable fills a table of a run in anew: its rows, as a report names them, and the headings of its columns are
// chosen by whoever wrote the page.
func rowsTable(t *testing.T, run *result.Run, now string) string {
	groups, metrics := run.Groups(), result.Metrics()
	return filled(t, now, func(name, heading string) string {
		g := slices.IndexFunc(groups, func(g result.Group) bool { return g.Name() == name })
		m := slices.IndexFunc(metrics, func(m result.Metric) bool { return m.Heading == heading })
		if g < 0 || m < 0 {
			t.Fatalf("a page shows %q of row %q, which the run does not have", heading, name)
		}
		return view.Number(compare.Median(groups[g].Values(metrics[m])).Center, metrics[m].Unit)
	})
}

// filled is a table of a page with each cell made anew from the names of its row and its column.
func filled(t *testing.T, now string, cell func(row, column string) string) string {
	t.Helper()
	var table *view.Table
	var columns []string
	for line := range strings.Lines(now) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case table == nil:
			table, columns = view.NewTable(cells...), cells[1:]
		case !strings.HasPrefix(cells[0], ":-"):
			row := cells[:1]
			for _, column := range columns {
				row = append(row, cell(cells[0], column))
			}
			table.Add(row...)
		}
	}
	var b bytes.Buffer
	testkit.Succeeds(t, table.Markdown(&b))
	return b.String()
}

// told is the two observations of a stored finding, in full.
func told(f verify.Finding) string {
	outcome := string(f.Harm)
	if f.Harm == verify.NoHarm {
		outcome = "no harm"
	}
	switch f.KeptOut {
	case "":
		return string(f.Verdict)
	case verify.NotAsked, verify.NoLease:
		return outcome
	case verify.AtOnce:
		return outcome + "; others get in at once"
	case verify.OrdersFail:
		return outcome + "; " + string(f.KeptOut)
	case verify.NeverIn:
		return outcome + "; others never get in"
	}
	outcome += "; others kept out " + string(f.KeptOut)
	if f.Leases > 0 {
		outcome += " (" + verify.Leases(f.Leases) + ")"
	}
	return outcome
}

// finding is what the stored table of faults says of a scenario with a lock.
func finding(t *testing.T, faults *verify.Faults, scenario, lock string) verify.Finding {
	t.Helper()
	found := faults.Of(scenario)
	i := slices.IndexFunc(found, func(f verify.Finding) bool { return f.Subject == lock })
	if i < 0 {
		t.Fatalf("a page tells of scenario %q with %q, which is not stored", scenario, lock)
	}
	return found[i]
}

// comparedIn is what the stored runs say of a command's second strategy against its first, for each mix under its load.
func comparedIn(t *testing.T, runs map[string]*result.Run, part []string) string {
	t.Helper()
	places, load := []string{"5x5"}, ""
	if found := mixes.FindStringSubmatch(part[4]); found != nil {
		places = strings.Split(found[1], ",")
	}
	for _, flag := range loads.FindAllStringSubmatch(part[4], -1) {
		load += " " + flag[1] + "=" + flag[2]
	}
	for _, folder := range slices.Sorted(maps.Keys(runs)) { // all places are of one run
		var answers []string
		for _, place := range places {
			c, ok := between(runs[folder], part[3], part[2], place+load)
			if !ok {
				break
			}
			answer := fmt.Sprintf("at %s %s", place, c.Verdict)
			if !math.IsNaN(c.Low) {
				answer += fmt.Sprintf(": %s times (%s to %s)", ratio(c.Ratio), ratio(c.Low), ratio(c.High))
			}
			answers = append(answers, answer)
		}
		if len(answers) == len(places) {
			return strings.Join(answers, "; ")
		}
	}
	t.Fatalf("a page compares %s with %s at %s%s, which no run in results/ does", part[3], part[2], places, load)
	return ""
}

// between is what a run says of two strategies in a place, if it compares them.
func between(run *result.Run, a, b, place string) (compare.Comparison, bool) {
	for _, c := range compare.Of(run) {
		switch {
		case c.Place != place:
		case c.A == a && c.B == b:
			return c, true
		case c.A == b && c.B == a:
			return c.Reversed(), true
		}
	}
	return compare.Comparison{}, false
}

// ratio is a ratio with two or three digits.
func ratio(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// TestDocsTellOfEveryScenario: each command in docs/faults.md says what it finds, and each scenario has one.
func TestDocsTellOfEveryScenario(t *testing.T) {
	docs := text(t, "../docs/faults.md")
	if all, said := strings.Count(docs, "marketsim faults --scenario"), len(played.FindAllString(docs, -1)); all != said {
		t.Errorf("docs/faults.md has %d commands, of which %d say what they find", all, said)
	}
	for _, sc := range readFaults(t).Scenarios {
		if !strings.Contains(docs, "--scenario "+sc.Name+" ") {
			t.Errorf("docs/faults.md does not tell of %s", sc.Name)
		}
	}
}

// ways are the rows of README's picture and what it calls them: the book's three ways first.
var ways = [][2]string{
	{"watch", "WATCH of the whole market"},
	{"watch-item", "WATCH of the item alone"},
	{"coarse:set-px", "one lock for the whole market"},
	{"fine", "a lock per item, as in the book"},
	{"fine:set-px", "a lock per item that expires"},
	{"lua", "one script"},
	{"lua-shared", "one script, one connection shared by all"},
}

// TestREADME: its first screen has the question, three facts and a picture of what is stored, and the commands; and a
// newcomer reads it to its end. With -update the facts and the picture are written.
func TestREADME(t *testing.T) {
	folders := glob(t, "strategies-*")
	run, picture := readRun(t, folders[len(folders)-1]), "../docs/pictures/strategies.svg"
	var drawn bytes.Buffer
	testkit.Succeeds(t, view.SVG(&drawn, inWords(t, run)))
	rewrite(t, picture, text(t, picture), drawn.String())
	inPage(t, "../README.md", "facts", scripted(t, run)+paused(t)+judgedLocks(t))

	lines := strings.SplitAfter(text(t, "../README.md"), "\n")
	screen := strings.Join(lines[:20], "")
	if !regexp.MustCompile(`(?s)\?\*\*.*<!-- facts -->.*\.svg.*git clone.*reproduce.*go test`).MatchString(screen) {
		t.Errorf("the first screen of README.md lacks something:\n%s", screen)
	}
	if n := len(lines) - 1; n > 130 {
		t.Errorf("README.md has %d lines, and 130 are enough: the rest belongs to docs/", n)
	}
}

// inWords is the figure of a run's throughput with the ways alone, for readers who do not know their names.
func inWords(t *testing.T, run *result.Run) view.Figure {
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

// scripted says how many times the purchases of two locks one script makes, in one run.
func scripted(t *testing.T, run *result.Run) string {
	points := run.Manifest.Config.Points
	i := slices.IndexFunc(points, func(p result.Point) bool { return p.Strategy == "lua" })
	run.Manifest.Config.Points = slices.Insert(points, 0, points[i]) // all others are compared with the first
	times := func(lock, place string) string {
		c, ok := between(run, "lua", lock, place)
		if !ok || c.Verdict != compare.Faster {
			t.Fatalf("README says that a script is faster than %s at %s, and it is %s", lock, place, c.Verdict)
		}
		return fmt.Sprintf("%.3g", c.Ratio)
	}
	return fmt.Sprintf("- **One Lua script makes %s times the purchases of a lock per item, and %s times those of one "+
		"lock for the whole market**,\n  with 5 sellers and 5 buyers; with 50 and 50 it makes %s and %s times as many "+
		"(ratios within a round, medians of %d rounds).\n", times("fine:set-px", "5x5"), times("coarse:set-px", "5x5"),
		times("fine:set-px", "50x50"), times("coarse:set-px", "50x50"), run.Manifest.Config.Trials)
}

// paused says which schemes sell an item twice under a holder that pauses, and which do no harm.
func paused(t *testing.T) string {
	told := map[verify.Harm][]string{}
	for _, s := range [][2]string{
		{"redsync", "redsync"}, {"redislock", "redislock"}, {"zookeeper", "ZooKeeper"}, {"etcd", "etcd"},
		{"redlock", "Redlock"}, {"redisson", "Redisson's scheme"}, {"set-px", "SET NX PX"},
		{"lua", "one script"}, {"watch", "WATCH"}, {"set-px:fencing=token", "a lock whose token the write compares"},
	} {
		harm := finding(t, readFaults(t), "pause", s[0]).Harm
		told[harm] = append(told[harm], s[1])
	}
	return fmt.Sprintf("- **A lock that expires sells an item twice when its holder pauses just before it writes**. "+
		"Seen with\n  %s; not seen with %s.\n",
		and(told[verify.SoldTwice]), and(told[verify.NoHarm]))
}

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

// TestStopsAreThere: the functions at which CONTRIBUTING.md says to stop in a debugger are in the files that it names.
func TestStopsAreThere(t *testing.T) {
	stops := stop.FindAllStringSubmatch(text(t, "../CONTRIBUTING.md"), -1)
	for _, s := range stops {
		receiver := ""
		if s[2] != "" {
			receiver = `\(\w+ \*?` + s[2] + `\) `
		}
		declared := regexp.MustCompile(`(?m)^func ` + receiver + s[3] + `\(`)
		if !declared.MatchString(text(t, "../"+s[1])) {
			t.Errorf("%s has no %s %s, at which CONTRIBUTING.md stops", s[1], s[2], s[3])
		}
	}
	if len(stops) < 40 {
		t.Errorf("only %d stops were found", len(stops))
	}
}

func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is stored as %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

func text(t *testing.T, path string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(path))(t))
}

// readRuns reads every stored run, by its folder.
func readRuns(t *testing.T) map[string]*result.Run {
	t.Helper()
	runs := map[string]*result.Run{}
	for _, path := range glob(t, "*/run.json") {
		runs[filepath.Dir(path)] = readRun(t, filepath.Dir(path))
	}
	return runs
}

func readRun(t *testing.T, folder string) *result.Run {
	t.Helper()
	run, err := result.ReadRun(strings.NewReader(text(t, filepath.Join(folder, "run.json"))))
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	return run
}

func readFaults(t *testing.T) *verify.Faults {
	t.Helper()
	return testkit.Must(verify.ReadFaults(strings.NewReader(text(t, filepath.Join(faultsFolder, "faults.json")))))(t)
}

// TestRareEvents says what docs/faults.md says: to what a chance of one in a million, or in ten thousand, comes at the
// rates of the book's rows.
func TestRareEvents(t *testing.T) {
	rate := result.MetricNamed("commands_per_second")
	low, high := math.Inf(1), 0.0
	for _, r := range readRun(t, "book-2026-11-23-redis-7.0.15").Rows {
		low, high = min(low, rate.Of(&r)), max(high, rate.Of(&r))
	}
	says := fmt.Sprintf("every %.0f to %.0f s, and one in ten thousand %.0f to %.0f times a second",
		1e6/high, 1e6/low, low/1e4, high/1e4)
	t.Log(says)
	if !strings.Contains(text(t, "../docs/faults.md"), says) {
		t.Errorf("docs/faults.md does not say %q", says)
	}
}

// TestCounter runs the script in docs/answers.md that sells units of a stock of 3: an order that is sent again takes no
// more, and nobody gets what is not there.
func TestCounter(t *testing.T) {
	_, script, _ := strings.Cut(text(t, "../docs/answers.md"), "```lua\n")
	script, _, _ = strings.Cut(script, "```")
	rdb := testkit.Dial(t, testkit.Embedded(t)).Client
	testkit.Succeeds(t, rdb.Set(t.Context(), "stock", 3, 0).Err())
	var said []string
	for _, order := range []string{"a 2", "a 2", "b 2", "c 1", "d 1"} {
		id, units, _ := strings.Cut(order, " ")
		answer := testkit.Must(rdb.Eval(t.Context(), script, []string{"stock", "orders"}, id, units).Text())(t)
		said = append(said, answer+", left "+testkit.Must(rdb.Get(t.Context(), "stock").Result())(t))
	}
	want := []string{"sold, left 1", "sold, left 1", "sold out, left 1", "sold, left 0", "sold out, left 0"}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}
