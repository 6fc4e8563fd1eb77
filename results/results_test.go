package results_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
)

var update = flag.Bool("update", false,
	"write what is stored into README.md, docs/ and docs/pictures/")

func TestMain(m *testing.M) {
	testkit.MaxParallel(8) // they mostly wait
	m.Run()
}

// faultsFolder holds the stored table of faults. Each other folder with a run.json is a
// stored run: its name begins with what was measured.
const faultsFolder = "faults"

// pages are all texts that may show what is stored.
var pages = []string{"../*.md", "../docs/*.md", "README.md"}

// What a page points to.
var (
	// To a file of this module.
	link = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)
	stop = regexp.MustCompile("(?m)^\\| (\\S+\\.go): `(?:(\\w+)\\.)?(\\w+)` \\|") // in a debugger
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

		// They are stored, and not made when drawn: a changed judgment has to change the file.
		run.Claims = reference.Judge(run)
		if *update {
			var again bytes.Buffer
			testkit.Succeeds(t, run.Write(&again))
			rewrite(t, path, text(t, path), again.String())
		} else if !reflect.DeepEqual(run.Claims, claims) {
			t.Errorf("%s: its claims are judged otherwise now; 'go test ./results -update' writes them",
				path)
		}
	}

	faults := readFaults(t)
	draw(faultsFolder, view.Faults(faults))

	var again bytes.Buffer
	err := faults.Write(&again)
	if err != nil || again.String() != text(t, faultsFolder+"/faults.json") {
		t.Errorf("faults.json is not as marketsim writes it: %v", err)
	}
}

// TestDocsTellOfEveryScenario: each command in docs/faults.md says what it
// finds, and each scenario has one.
func TestDocsTellOfEveryScenario(t *testing.T) {
	docs := text(t, "../docs/faults.md")
	all, said := strings.Count(docs, "marketsim faults --scenario"),
		len(played.FindAllString(docs, -1))
	if all != said {
		t.Errorf("docs/faults.md has %d commands, of which %d say what they find", all, said)
	}
	for _, sc := range readFaults(t).Scenarios {
		if !strings.Contains(docs, "--scenario "+sc.Name+" ") {
			t.Errorf("docs/faults.md does not tell of %s", sc.Name)
		}
	}
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

// TestStopsAreThere: the functions at which CONTRIBUTING.md says to stop in a debugger
// are in the files that it names.
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

// TestFilesAreThere: the Go files that CONTRIBUTING.md names are there, those without a folder
// in any.
func TestFilesAreThere(t *testing.T) {
	var there []string
	testkit.Succeeds(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		there = append(there, filepath.ToSlash(path))
		return err
	}))

	named := regexp.MustCompile(`[\w./-]*\w\.go\b`).FindAllString(text(t, "../CONTRIBUTING.md"), -1)
	for _, name := range named {
		isIt := func(path string) bool {
			return path == "../"+name || !strings.Contains(name, "/") && strings.HasSuffix(path, "/"+name)
		}
		if !strings.Contains(name, "NAME") && !slices.ContainsFunc(there, isIt) {
			t.Errorf("CONTRIBUTING.md names %s, which is not there", name)
		}
	}
	if len(named) < 80 {
		t.Errorf("only %d files are named", len(named))
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
func readRuns(t *testing.T) map[string]*runs.Run {
	t.Helper()
	runs := map[string]*runs.Run{}
	for _, path := range glob(t, "*/run.json") {
		runs[filepath.Dir(path)] = readRun(t, filepath.Dir(path))
	}
	return runs
}

func readRun(t *testing.T, folder string) *runs.Run {
	t.Helper()
	return testkit.Must(runs.Read(strings.NewReader(text(t, filepath.Join(folder, "run.json")))))(t)
}

func readFaults(t *testing.T) *findings.FaultTable {
	t.Helper()
	return testkit.Must(findings.ReadFaultTable(
		strings.NewReader(text(t, filepath.Join(faultsFolder, "faults.json"))),
	))(t)
}

// TestRareEvents says what docs/faults.md says: to what a chance of one in a million, or
// in ten thousand, comes at the rates of the book's rows.
func TestRareEvents(t *testing.T) {
	rate := runs.MetricByName("commands_per_second")
	low, high := math.Inf(1), 0.0
	for _, r := range readRun(t, glob(t, "book-*")[0]).Rows {
		low, high = min(low, rate.Of(&r)), max(high, rate.Of(&r))
	}
	says := fmt.Sprintf("every %.0f to %.0f s, and one in ten thousand %.0f to %.0f times a second",
		1e6/high, 1e6/low, low/1e4, high/1e4)
	t.Log(says)
	if !strings.Contains(text(t, "../docs/faults.md"), says) {
		t.Errorf("docs/faults.md does not say %q", says)
	}
}

// TestCounter runs the script in docs/answers.md that sells units of a stock of 3: an
// order that is sent again takes no more, and nobody gets what is not there.
func TestCounter(t *testing.T) {
	_, script, _ := strings.Cut(text(t, "../docs/answers.md"), "```lua\n")
	script, _, _ = strings.Cut(script, "```")

	rdb := testkit.Dial(t, testkit.Embedded(t)).Client
	testkit.Succeeds(t, rdb.Set(t.Context(), "stock", 3, 0).Err())

	var said []string
	for _, order := range []string{"a 2", "a 2", "b 2", "c 1", "d 1"} {
		id, units, _ := strings.Cut(order, " ")
		answer := testkit.Must(
			rdb.Eval(t.Context(), script, []string{"stock", "orders"}, id, units).Text(),
		)(t)
		said = append(said, answer+", left "+testkit.Must(rdb.Get(t.Context(), "stock").Result())(t))
	}

	want := []string{
		"sold, left 1", "sold, left 1", "sold out, left 1", "sold, left 0", "sold out, left 0",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}
