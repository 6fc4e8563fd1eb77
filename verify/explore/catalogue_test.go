package explore_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/fault"
	"github.com/marketsim/marketsim/verify/markettest"
)

var (
	update = flag.Bool("update", false,
		"explore the whole catalogue, and store what is found in results/explored and docs/explored.md")
	part = flag.String("part", "",
		"i/n: of the catalogue every n-th scheme from the i-th, written to the file of -part-to")
	partTo = flag.String("part-to", "", "a file")
)

const (
	stored = "../../results/explored/explored.json"
	page   = "../../docs/explored.md" // the whole
	faulty = "../../docs/faults.md"   // a line a scheme, beside what the scenarios find
	first  = "../../README.md"        // why a lock alone is not enough
)

// exploreScheme explores a scheme of the table of faults in the programs that can show something of it, and returns the
// diagram of the first harm, too. With three clients it goes on without preemptions.
func exploreScheme(t *testing.T, name string) (all []verify.Explored, diagram verify.Diagram) {
	scheme, err := fault.Of(catalogue.Full(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range markettest.Markets() {
		if len(m.Trades) > 2 && os.Getenv("MARKETSIM_EXPLORE") == "two" {
			continue
		}
		protects := scheme.Strategy().Protects
		if m.Apart && (scheme.Lock == nil || scheme.FusesLock()) || m.Name == "one-account" && !protects.Accounts {
			continue
		}
		e := verify.Explored{Scheme: name, Program: m.Name}
		spec, err := parse(catalogue.Full(), scheme.Spec.String(), m)
		if errors.Is(err, errElsewhere) {
			return []verify.Explored{{Scheme: name, Why: "its lock needs other servers than one Redis in memory"}}, diagram
		}
		bounds := explore.Bounds{Preemptions: 2, Faults: 1}
		if len(m.Trades) > 2 {
			bounds.Preemptions = 0
		}
		r, err := explore.Search(t, m.Program(spec.String(), openSpec(spec, m.Apart)), bounds)
		if err != nil {
			return []verify.Explored{{Scheme: name, Why: err.Error()}}, diagram
		}
		e.Preemptions, e.Faults, e.Schedules, e.Harmful = r.Preemptions, r.Faults, r.Schedules, r.Harmful
		if len(r.Found) > 0 {
			f := r.Found[0]
			e.Preemptions, e.Faults, e.Harm, e.Shows, e.Token = f.Preemptions, f.Faults, f.Harm, f.Text, f.Token
			if diagram.Events == nil {
				diagram = f.Diagram
			}
		}
		all = append(all, e)
	}
	return all, diagram
}

// explorePart explores a part of the catalogue, for TestCatalogue in another process.
func explorePart(t *testing.T) {
	var i, n int
	if _, err := fmt.Sscanf(*part, "%d/%d", &i, &n); err != nil {
		t.Fatal(err)
	}
	var all []verify.Explored
	for k, name := range fault.Names(catalogue.Full()) {
		if k%n == i {
			t.Run(name, func(t *testing.T) {
				found, _ := exploreScheme(t, name)
				all = append(all, found...)
			})
		}
	}
	write(t, *partTo, all)
}

func write(t *testing.T, path string, all []verify.Explored) {
	t.Helper()
	var text bytes.Buffer
	err := verify.WriteExplored(&text, all)
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []verify.Explored {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := verify.ReadExplored(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCatalogue explores the whole catalogue with MARKETSIM_EXPLORE=all, or the programs of two clients with two,
// a process a core, and compares what it finds with what is stored, or stores it with -update. By default it
// explores three schemes.
func TestCatalogue(t *testing.T) {
	if *part != "" {
		explorePart(t)
		return
	}
	names := fault.Names(catalogue.Full())
	all, diagram := exploreScheme(t, "set-px")
	if *update || os.Getenv("MARKETSIM_EXPLORE") != "" {
		all = wholeCatalogue(t, names)
	} else {
		for _, name := range []string{"watch", "fenced:fencing=on"} {
			found, _ := exploreScheme(t, name)
			all = append(all, found...)
		}
	}
	if *update {
		write(t, stored, all)
	}
	is := read(t, stored)
	for _, e := range all {
		if !slices.ContainsFunc(is, func(s verify.Explored) bool { return reflect.DeepEqual(s, e) }) {
			t.Errorf("%s, %s: found %+v, and that is not stored: go generate ./results", e.Scheme, e.Program, e)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(is, func(s verify.Explored) bool { return s.Scheme == name }) {
			t.Errorf("%s has not been explored: go generate ./results", name)
		}
	}
	inPage(t, page, "table", table(is))
	inPage(t, page, "late", replayed(t, is, "setnx", "one-item-long-leases"))
	inPage(t, page, "set-px", diagram.String())
	inPage(t, first, "set-px", brief(diagram))
	inPage(t, faulty, "schemes", schemes(is))
}

// replayed is the diagram of a stored harm.
func replayed(t *testing.T, all []verify.Explored, scheme, program string) string {
	t.Helper()
	i := slices.IndexFunc(all, func(e verify.Explored) bool { return e.Scheme == scheme && e.Program == program })
	if i < 0 || all[i].Token == "" {
		t.Errorf("there is no harm of %s in %s to show", scheme, program)
		return ""
	}
	subject, name, _, err := explore.ParseToken(all[i].Token)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := programOf(t, subject, name)
	d, err := explore.Replay(t, p, all[i].Token)
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// TestTokens: each token that is stored plays a schedule that does harm.
func TestTokens(t *testing.T) {
	for _, e := range read(t, stored) {
		if e.Token == "" {
			continue
		}
		subject, name, _, err := explore.ParseToken(e.Token)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := programOf(t, subject, name)
		harm := "Harm: " + verify.Violation{Harm: e.Harm, Text: e.Shows}.String()
		if d, err := explore.Replay(t, p, e.Token); err != nil || !strings.Contains(d.String(), harm) {
			t.Errorf("%s: %v\n%s", e.Token, err, d)
		}
	}
}

// TestTableOfFaults: whatever the stored table of faults says of a scenario that a program can express
// is found here, too.
func TestTableOfFaults(t *testing.T) {
	text, err := os.ReadFile("../../results/faults/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	table, err := verify.ReadFaults(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{
		"pause": "one-item", "pause-before-read": "one-item", "crash-holding": "one-item", "slow-work": "one-item",
		"expired-race": "one-item", "pause-in-release": "one-item", "restart-empty": "locks-apart",
	}
	all, compared := read(t, stored), 0
	for _, f := range table.Findings {
		program := programs[f.Scenario]
		is := func(e verify.Explored) bool { return e.Scheme == f.Subject && e.Program == program }
		i := slices.IndexFunc(all, is)
		if program == "" || i < 0 || f.Harm == "" || f.Harm == verify.NoHarm {
			continue
		}
		compared++
		if all[i].Harm == "" {
			t.Errorf("%s of %s: the table says %s, and nothing is found in %s", f.Scenario, f.Subject, f.Harm, program)
		}
	}
	if compared < 50 {
		t.Errorf("only %d harms of the table were compared", compared)
	}
}

func wholeCatalogue(t *testing.T, names []string) (all []verify.Explored) {
	const processes = 2
	var running []*exec.Cmd
	dir := t.TempDir()
	for i := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0],
			"-test.run", "^TestCatalogue$",
			"-part", fmt.Sprintf("%d/%d", i, processes),
			"-part-to", fmt.Sprintf("%s/%d.json", dir, i))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a part of the catalogue: %v", err)
		}
		all = append(all, read(t, fmt.Sprintf("%s/%d.json", dir, i))...)
	}
	slices.SortStableFunc(all, func(a, b verify.Explored) int {
		return slices.Index(names, a.Scheme) - slices.Index(names, b.Scheme)
	})
	return all
}

// table is what is stored, as a page shows it.
func table(all []verify.Explored) string {
	var b strings.Builder
	b.WriteString("| scheme | program | found | preemptions | faults | schedules |\n|---|---|---|---|---|---|\n")
	for _, e := range all {
		switch {
		case e.Why != "":
			fmt.Fprintf(&b, "| %s | - | not explored: %s | | | |\n", e.Scheme, e.Why)
		case e.Harm != "":
			fmt.Fprintf(&b, "| %s | %s | **%s**: %s | %d | %d | %d of %d |\n",
				e.Scheme, e.Program, e.Harm, e.Shows, e.Preemptions, e.Faults, e.Harmful, e.Schedules)
		default:
			fmt.Fprintf(&b, "| %s | %s | nothing | %d | %d | %d |\n", e.Scheme, e.Program, e.Preemptions, e.Faults, e.Schedules)
		}
	}
	return b.String()
}

// schemes is a line for each scheme: the harms with the programs that show them, or how far nothing was found.
func schemes(all []verify.Explored) string {
	var b strings.Builder
	b.WriteString("| scheme | harm | nothing |\n|:--|:--|:--|\n")
	for i, e := range all {
		if i > 0 && all[i-1].Scheme == e.Scheme {
			continue
		}
		var harms, nothing []string
		for _, e := range all[i:] {
			bounds := fmt.Sprintf("(%d, %d)", e.Preemptions, e.Faults)
			switch {
			case e.Scheme != all[i].Scheme || e.Why != "":
			case e.Harm != "":
				harms = append(harms, e.Program+" "+bounds)
			default:
				nothing = append(nothing, fmt.Sprintf("%s %s: %d", e.Program, bounds, e.Schedules))
			}
		}
		if e.Why != "" {
			nothing = []string{"not explored: " + e.Why}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Scheme, strings.Join(harms, ", "), strings.Join(nothing, ", "))
	}
	return b.String()
}

// brief is a diagram with one row for each request, without attempts that are repeated and without its end. Of a
// transaction it shows the names of the commands.
func brief(d verify.Diagram) string {
	var rows []verify.Event
	for _, r := range d.Events {
		last := len(rows) - 1
		switch {
		case last >= 0 && rows[last].At == r.At && rows[last].Client == r.Client:
			name, _, _ := strings.Cut(r.Does, " ")
			rows[last].Does, rows[last].Reply = strings.TrimSpace(rows[last].Does)+" "+name, r.Reply
		case r.Client < 0: // time goes on
		case last >= 0 && rows[last].Client == r.Client && rows[last].Does == r.Does && rows[last].Reply == r.Reply:
		default:
			rows = append(rows, r)
		}
	}
	text, _, _ := strings.Cut(verify.Diagram{Clients: d.Clients, Events: rows}.String(), "\n\n")
	return text + "\n"
}

// inPage compares a part of a page, between its markers, with what it should be, or replaces it with -update.
func inPage(t *testing.T, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- explored: "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(text), begin)
	is, after, ended := strings.Cut(rest, end)
	switch {
	case !ok || !ended:
		t.Errorf("%s has no part %q", page, name)
	case is == want:
	case !*update:
		t.Errorf("%s: the part %q is not what is stored: go generate ./results", page, name)
	default:
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
