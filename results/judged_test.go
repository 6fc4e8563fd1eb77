package results_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/verify"
)

// testedPromises are the columns of the matrix in docs/judged.md, as stored findings name them.
var testedPromises = []string{
	"exclusive", "owner-only release", "survives a crash", "clock-independent", "notices loss",
	"survives a cancelled call", "locks again after a fault",
}

// TestJudgedInPages: what docs/judged.md shows is what is stored. With -update
// it is written there.
func TestJudgedInPages(t *testing.T) {
	var promises, bounds strings.Builder
	promises.WriteString("| library | " + strings.Join(testedPromises, " | ") + " | harm |\n" +
		"|:--" + strings.Repeat("|:-:", len(testedPromises)) + "|:--|\n")
	bounds.WriteString("| row | opened | command | lease | schedules by program | processes |\n" +
		"|:--|:--|:--|:--|:--|--:|\n")
	for _, program := range reference.JudgedPrograms() {
		found := testkit.Must(findings.ReadExplorations(strings.NewReader(program.Explored)))(t)
		fmt.Fprintf(&promises, "| %s (%s) | %s | %s |\n", program.Name, program.Library,
			strings.Join(promiseCells(found), " | "), breaks(found))
		fmt.Fprintf(&bounds, "| %s | %s | `marketsim judge %s` | %s | %s | %s |\n",
			program.Name, program.Opened, judgedCommand(found),
			measuredLease(found), searchedBounds(found), processes(found))

		if pictured[program.Name] != "" {
			picture(t, program.Name, found)
		}
	}
	inPage(t, "../docs/judged.md", "explored: judged", promises.String())
	inPage(t, "../docs/judged.md", "explored: bounds", bounds.String())
}

// promiseCells are the states of the promises of a lock. Of a purchase it is the audit that is
// kept or broken, in the first cell.
func promiseCells(found *findings.Explorations) []string {
	cells := slices.Repeat([]string{""}, len(testedPromises))
	if len(found.Promises) == 0 {
		cells[0] = "the audit: kept"
		if len(found.Broken()) > 0 {
			cells[0] = "the audit: **broken**"
		}
		return cells
	}

	for i, promise := range testedPromises {
		cells[i] = "not tried" // what judge did not know when it was judged
		for _, p := range found.Promises {
			switch {
			case p.Promise != promise:
			case p.State == "broken":
				cells[i] = "**broken**"
			default:
				cells[i] = p.State
			}
		}
	}
	return cells
}

// breaks are the harms that break a promise, each with its shortest schedule.
func breaks(found *findings.Explorations) string {
	var all []string
	for _, e := range found.Broken() {
		harm := fmt.Sprintf("%s: %s (%d, %d)", e.Harm, e.Program, e.Preemptions, e.Faults)
		if !slices.Contains(all, harm) {
			all = append(all, harm)
		}
	}
	return strings.Join(all, "; ")
}

func judgedCommand(found *findings.Explorations) string {
	words := append(slices.Clone(found.Asked), found.Searches[0].Scheme)
	if len(found.Promises) == 0 {
		words = append([]string{"--purchase --"}, words...)
	} else if len(found.Asked) > 0 {
		words = slices.Insert(words, len(found.Asked), "--")
	}
	return strings.Join(words, " ")
}

// measuredLease is what the leases of a lock were, in seconds.
func measuredLease(found *findings.Explorations) string {
	for _, e := range found.Searches {
		if e.Lease != nil && e.Lease.KeptMS > 0 {
			return "none"
		}
		if e.Lease != nil {
			return fmt.Sprintf("%.1f to %.1f s", e.Lease.ShortestMS/1000, e.Lease.LongestMS/1000)
		}
	}
	return ""
}

// searchedBounds are the schedules that were played of each program, within which preemptions
// and faults; with a star if the search was stopped before its bounds.
func searchedBounds(found *findings.Explorations) string {
	var all []string
	for _, e := range found.Searches {
		if e.Harm != "" || e.Why != "" {
			continue
		}
		star := ""
		if e.Stopped != "" {
			star = "*"
		}
		all = append(all, fmt.Sprintf("%s%s (%d, %d): %d",
			e.Program, star, e.Preemptions, e.Faults, e.Schedules))
	}
	return strings.Join(all, "; ")
}

// processes are how many wanted to run while it was judged.
func processes(found *findings.Explorations) string {
	if found.Load == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", found.Load.Average)
}

// pictured are the harms whose schedule stands in docs/judged.md as a picture, by program.
var pictured = map[string]verify.Harm{
	"get-then-del":      verify.FreedAnothers,
	"redis-py":          verify.Outlived,
	"redis-py-watch":    verify.ToldNo,
	"rueidislock":       verify.LockedOut,
	"symfony-semaphore": verify.TwoHolders,
}

func picture(t *testing.T, name string, found *findings.Explorations) {
	t.Helper()
	i := slices.IndexFunc(found.Searches, func(e findings.Exploration) bool {
		return e.Harm == pictured[name]
	})
	if i < 0 {
		t.Fatalf("%s: there is no schedule of the harm %q to be drawn", name, pictured[name])
	}

	figures := view.Schedules(&findings.Explorations{Judged: true, Searches: found.Searches[i : i+1]})
	var drawn bytes.Buffer
	testkit.Succeeds(t, view.SVG(&drawn, figures[0]))

	// A new picture begins as an empty file, because text fails without one.
	file := "../docs/pictures/judged-" + name + ".svg"
	if _, err := os.Stat(file); os.IsNotExist(err) && *update {
		testkit.Succeeds(t, os.WriteFile(file, nil, 0o600))
	}
	rewrite(t, file, text(t, file), drawn.String())
}

// variants are rows of a library, by name, with that of the library as it is mostly opened.
var variants = map[string]string{
	"redsync-fail-fast":      "redsync",
	"go-zero-without-expiry": "go-zero",
	"rueidislock-set-px":     "rueidislock",
}

// judgedLocks are the locks that were found to keep their promises, those that were not, and
// the libraries' own in which a client that was stopped works beside the next holder.
func judgedLocks(t *testing.T) (kept, broken, overtaken string) {
	t.Helper()
	told := map[bool][]string{}
	var late []string
	for _, path := range glob(t, "judged/*/explored.json") {
		found := testkit.Must(findings.ReadExplorations(strings.NewReader(text(t, path))))(t)
		name := filepath.Base(filepath.Dir(path))
		sound := len(found.Broken()) == 0
		isPurchase := len(found.Promises) == 0
		if isPurchase || slices.Contains(told[sound], variants[name]) {
			continue // a variant that is as its library, which comes before it, is not named beside that
		}
		told[sound] = append(told[sound], name)

		outlives := func(e findings.Exploration) bool { return e.Harm == verify.Outlived }
		isOurs := name == "get-then-del" || name == "node-redis" || name == "redis-rb"
		if slices.ContainsFunc(found.Searches, outlives) && !isOurs &&
			!strings.Contains(name, "-extends") {
			late = append(late, name)
		}
	}
	names := strings.NewReplacer(
		"laravel", "Laravel",
		"symfony-lock", "Symfony's lock", "symfony-semaphore", "Symfony's semaphore",
		"redis-py-asyncio", "redis-py for asyncio", "redis-py-defaults", "redis-py without a time-out",
		"redsync-setnx-extends", "redsync with SETNX on extend",
		"dapr", "Dapr",
	)
	return names.Replace(and(told[true])), names.Replace(and(told[false])), names.Replace(and(late))
}

// and is a list as a sentence has it.
func and(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
