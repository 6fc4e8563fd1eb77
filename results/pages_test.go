package results_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

// What a page shows: a table of a folder, and what a command finds.
var (
	excerpt  = regexp.MustCompile(`(?s)(<!-- from results/([^ ]+) -->\n)(.*?)(<!-- end -->)`)
	played   = regexp.MustCompile(`(?m)^(    marketsim faults --scenario (\S+) --lock (\S+) +# )(.+)$`)
	claimed  = regexp.MustCompile("(?m)^(\\|.*\\| `faults --scenario (\\S+) --lock (\\S+)` +\\| )([^|]*[^| ])( *\\|)$")
	compared = regexp.MustCompile(`(?m)^(    marketsim compare (\S+) (\S+)((?: --\S+ \S+)*) +# )(.+)$`)
	mixes    = regexp.MustCompile(`--mix (\S+)`)
	loads    = regexp.MustCompile(`--(wallets|funds|hot|stock|hold|rtt) (\S+)`)
)

// TestPagesShowWhatIsStored compares every excerpt, and what a page says that a command
// finds, with what is stored. With -update it writes them.
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
			return part[1] + finding(t, faults, part[2], part[3]).InWords()
		})
		after = each(claimed, after, func(part []string) string {
			return part[1] + finding(t, faults, part[2], part[3]).InWords() + part[5]
		})
		after = each(compared, after, func(part []string) string {
			return part[1] + comparedIn(t, runs, part)
		})

		rewrite(t, path, before, after)
	}

	n := len(compared.FindAllString(text(t, "../docs/answers.md"), -1))
	if n < 5 || !strings.Contains(text(t, "../docs/book.md"), "<!-- from results/book-") {
		t.Errorf("docs/book.md does not show the book's table, or docs/answers.md has %d answers only", n)
	}
}

// fold is a part of a page that is folded; GitHub reads Markdown in it only behind an
// empty line.
var fold = regexp.MustCompile(`(?s)<details>\n<summary>[^\n]+</summary>\n\n.*?\n\n</details>\n`)

// TestPagesAreReadable: what is generated or long is folded, so that what is left of a
// page can be read, and its first screen has the answer.
func TestPagesAreReadable(t *testing.T) {
	for _, page := range []struct {
		path  string
		words int // that are not folded, at most
		begin string
	}{
		{"../docs/explored.md", 2000, "<!-- explored: safe -->"},
		{"../docs/faults.md", 3300, "<!-- faults: least harm -->"},
	} {
		all := text(t, page.path)
		shown := fold.ReplaceAllString(all, "")
		if strings.Contains(shown, "details>") || shown == all {
			t.Errorf("%s has a part that is not folded as GitHub needs it", page.path)
		}

		if n := len(strings.Fields(shown)); n > page.words {
			t.Errorf("%s shows %d words, and %d are enough: fold what is generated",
				page.path, n, page.words)
		}

		if at := strings.Index(shown, page.begin); at < 0 || strings.Count(shown[:at], "\n") > 10 {
			t.Errorf("%s does not begin with its answer, %s", page.path, page.begin)
		}
	}
}

// each replaces what a pattern finds in a text.
func each(pattern *regexp.Regexp, text string, by func(part []string) string) string {
	return pattern.ReplaceAllStringFunc(text, func(found string) string {
		return by(pattern.FindStringSubmatch(found))
	})
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
		t.Errorf("%s does not show what is stored; 'go test ./results -update' writes it:\n%s",
			path, strings.Join(lines, ""))
	} else if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Error(err)
	}
}

// bookTable is the largest of the book's tables beside what was measured, with
// how many claims hold.
func bookTable(t *testing.T, run *runs.Run) string {
	t.Helper()
	verdicts := map[runs.Judgment]int{}
	for _, c := range run.Claims {
		verdicts[c.Verdict]++
	}
	var others []string
	for _, v := range []struct {
		verdict runs.Judgment
		words   string
	}{
		{runs.DoesNot, "%d fail"},
		{runs.NotDecided, "%d are undecided"},
		{runs.NotJudged, "%d are not judged"},
	} {
		if n := verdicts[v.verdict]; n > 0 {
			others = append(others, fmt.Sprintf(v.words, n))
		}
	}
	table := markdown(t, view.BookTable(run))
	if verdicts[runs.NotJudged] == len(run.Claims) {
		return table + "\nNo claim is judged by this run.\n"
	}

	whose := "of the book's"
	if reference.SourceOf(run) != reference.Book {
		whose = "of"
	}
	return table + fmt.Sprintf(
		"\n%d %s %d claims hold, %s. The tolerances were set beforehand.\n",
		verdicts[runs.Holds], whose, len(run.Claims), and(others))
}

// markdown is a table alone.
func markdown(t *testing.T, table *view.Table) string {
	t.Helper()
	var b bytes.Buffer
	testkit.Succeeds(t, view.Markdown(&b, &view.Doc{Blocks: []view.Block{{Table: table}}}))
	return b.String()
}

// faultsTable fills the cells of a table in anew; its scenarios and locks are
// chosen by whoever wrote the page.
func faultsTable(t *testing.T, faults *findings.FaultTable, now string) string {
	return filled(t, now, func(lock, scenario string) string {
		return finding(t, faults, scenario, lock).Outcome()
	})
}

// rowsTable fills a table of a run in anew: its rows, as a report names them, and the
// headings of its columns are chosen by whoever wrote the page.
func rowsTable(t *testing.T, run *runs.Run, now string) string {
	groups, metrics := run.Groups(), runs.Metrics()
	return filled(t, now, func(name, heading string) string {
		g := slices.IndexFunc(groups, func(g runs.Group) bool { return g.Name() == name })
		m := slices.IndexFunc(metrics, func(m runs.Metric) bool { return m.Heading == heading })
		if g < 0 || m < 0 {
			t.Fatalf("a page shows %q of row %q, which the run does not have", heading, name)
		}
		return view.Number(compare.Median(groups[g].Values(metrics[m])).Center, metrics[m].Unit)
	})
}

// filled is a table of a page with each cell made anew from the names of its
// row and its column.
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

	return markdown(t, table)
}

// finding is what the stored table of faults says of a scenario with a lock.
func finding(t *testing.T, faults *findings.FaultTable, scenario, lock string) findings.Finding {
	t.Helper()
	found := faults.Of(scenario)
	i := slices.IndexFunc(found, func(f findings.Finding) bool { return f.Subject == lock })
	if i < 0 {
		t.Fatalf("a page tells of scenario %q with %q, which is not stored", scenario, lock)
	}
	return found[i]
}

// comparedIn is what the stored runs say of a command's second strategy against its
// first, for each mix under its load.
func comparedIn(t *testing.T, runs map[string]*runs.Run, part []string) string {
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

	t.Fatalf("a page compares %s with %s at %s%s, which no run in results/ does",
		part[3], part[2], places, load)
	return ""
}

// between is what a run says of two strategies in a place, if it compares them.
func between(run *runs.Run, a, b, place string) (compare.Comparison, bool) {
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
