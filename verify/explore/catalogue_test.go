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
		"explore the schemes that are not stored, store what is found in results/explored, and write the pages")
	anew = flag.String("anew", "",
		"with -update: schemes to explore although they are stored, with commas between; all: each")
	part = flag.String("part", "",
		"i/n: of the schemes of -schemes every n-th from the i-th, written to the file of -part-to")
	ofPart = flag.String("schemes", "", "with commas between")
	partTo = flag.String("part-to", "", "a file")
)

const (
	stored = "../../results/explored/explored.json"
	page   = "../../docs/explored.md" // the whole
	faulty = "../../docs/faults.md"   // a line a scheme, beside what the scenarios find
	first  = "../../README.md"        // why a lock alone is not enough
)

// exploreScheme explores a scheme of the table of faults in the programs that can show something of it, and returns the
// diagram of the first harm, too.
func exploreScheme(t *testing.T, name string) (all []verify.Explored, diagram verify.Diagram) {
	scheme, err := fault.Of(catalogue.Full(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range markettest.Markets() {
		if len(m.Traders) > 2 && !*update && os.Getenv("MARKETSIM_EXPLORE") != "all" { // it takes long
			continue
		}
		protects := scheme.Strategy().Protects
		if m.LockServers == 1 && (scheme.Lock == nil || scheme.FusesLock()) || m.Name == "one-account" && !protects.Accounts {
			continue
		}
		spec, err := parse(catalogue.Full(), scheme.Spec.String(), m)
		if errors.Is(err, errElsewhere) {
			continue
		}
		bounds := explore.Bounds{Preemptions: 2, Faults: 1}
		if len(m.Traders) > 2 || m.LockServers > 1 || m.Resends { // many requests
			bounds.Preemptions = 1
		}
		r, err := explore.Search(t, m.Program(spec.String(), openSpec(spec, m.LockServers)), bounds)
		if err != nil {
			return []verify.Explored{{Scheme: name, Why: err.Error()}}, diagram
		}
		if len(r.Found) > 0 && diagram.Events == nil {
			diagram = r.Found[0].Diagram
		}
		all = append(all, exploredAs(name, r))
	}
	if len(all) == 0 {
		all = []verify.Explored{{Scheme: name, Why: "its lock needs other servers than Redis in memory"}}
	}
	return all, diagram
}

// exploredAs is a report as it is stored.
func exploredAs(scheme string, r *explore.Report) verify.Explored {
	e := verify.Explored{
		Scheme: scheme, Program: r.Program.Name, Preemptions: r.Preemptions, Faults: r.Faults,
		Schedules: r.Schedules, Harmful: r.Harmful,
	}
	if len(r.Found) > 0 {
		f := r.Found[0]
		e.Preemptions, e.Faults, e.Harm, e.Shows, e.Token = f.Preemptions, f.Faults, f.Harm, f.Text, f.Token
	}
	return e
}

// explorePart explores a part of the catalogue, for TestCatalogue in another process.
func explorePart(t *testing.T) {
	var i, n int
	if _, err := fmt.Sscanf(*part, "%d/%d", &i, &n); err != nil {
		t.Fatal(err)
	}
	var all []verify.Explored
	for k, name := range strings.Split(*ofPart, ",") {
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

// TestCatalogue explores the whole catalogue with MARKETSIM_EXPLORE=all, or the programs of two clients with two, a
// process a core, and compares what it finds with what is stored. By default it explores three schemes. With -update
// it explores what is not stored, or what -anew names, and stores it.
func TestCatalogue(t *testing.T) {
	if *part != "" {
		explorePart(t)
		return
	}
	names := fault.Names(catalogue.Full())
	if *update {
		updateCatalogue(t, names)
	}
	is := read(t, stored)
	all, diagram := exploreScheme(t, "set-px")
	switch {
	case *update:
	case os.Getenv("MARKETSIM_EXPLORE") != "":
		all = inParts(t, names)
	default:
		for _, name := range []string{"watch", "fenced:fencing=on"} {
			found, _ := exploreScheme(t, name)
			all = append(all, found...)
		}
	}
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
	inPage(t, page, "after-unknown", afterUnknown(is))
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
	return played(t, all[i])
}

// played is the diagram of a stored harm, which its token plays again.
func played(t *testing.T, e verify.Explored) string {
	t.Helper()
	subject, name, _, err := explore.ParseToken(e.Token)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := programOf(t, subject, name)
	harm := "Harm: " + verify.Violation{Harm: e.Harm, Text: e.Shows}.String()
	d, err := explore.Replay(t, p, e.Token)
	if err != nil || !strings.Contains(d.String(), harm) {
		t.Errorf("%s: %v\n%s", e.Token, err, d)
	}
	return d.String()
}

// TestTokens: each token that is stored plays a schedule that does harm.
func TestTokens(t *testing.T) {
	for _, e := range slices.Concat(read(t, stored), read(t, redlockStored)) {
		if e.Token != "" {
			played(t, e)
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
		"late-write": "one-item-long-leases",
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

// updateCatalogue stores what is found of the schemes that are named or not stored, in place of what was.
func updateCatalogue(t *testing.T, names []string) {
	t.Helper()
	is := read(t, stored)
	var again []string
	for _, name := range names {
		known := slices.ContainsFunc(is, func(e verify.Explored) bool { return e.Scheme == name })
		if !known || *anew == "all" || slices.Contains(strings.Split(*anew, ","), name) {
			again = append(again, name)
		}
	}
	all := inParts(t, again)
	for _, e := range is {
		if slices.Contains(names, e.Scheme) && !slices.Contains(again, e.Scheme) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b verify.Explored) int {
		return slices.Index(names, a.Scheme) - slices.Index(names, b.Scheme)
	})
	write(t, stored, all)
}

// inParts explores schemes, a process a core.
func inParts(t *testing.T, names []string) (all []verify.Explored) {
	if len(names) == 0 {
		return nil
	}
	const processes = 2
	var running []*exec.Cmd
	dir := t.TempDir()
	for i := range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0],
			"-test.run", "^TestCatalogue$",
			"-schemes", strings.Join(names, ","),
			"-part", fmt.Sprintf("%d/%d", i, processes),
			"-part-to", fmt.Sprintf("%s/%d.json", dir, i))
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if *update {
			cmd.Env = append(os.Environ(), "MARKETSIM_EXPLORE=all")
		}
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
	return all
}
