package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// TestExplore: a harm is found without a server, drawn, stored, drawn again in
// each form, and played again.
func TestExplore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	marketsim(t, "explore", "fine:set-px", "watch", "--preemptions", "1", "--program", "one-item",
		"--program", "one-account", "--out", dir).exits(t, 0).says(t,
		"fine:set-px, one-item: sold twice, with 0 preemptions and 1 fault: marketsim explore --replay x5/fine:set-px",
		"fine:set-px in one-item: sold twice", "*pauses*", "SET lock:1 token-2 nx px 1000",
		"Harm: sold twice: item 1 is in two places", "marketsim explore --replay",
		"x5/fine:set-px:ttl=1s", "nothing")
	marketsim(t, "explore", "watch", "--out", dir).exits(t, 2).says(t, "is there already")

	marketsim(t, "report", dir).exits(t, 0).says(t, "All searches", "*wakes after 1.2s*")
	marketsim(t, "report", dir, "--format", "markdown").exits(t, 0).says(t,
		"## fine:set-px in one-item: sold twice", "|  1.2s |")
	marketsim(t, "report", dir, "--format", "csv").exits(t, 2).says(t, "csv is for runs")

	page, picture := filepath.Join(dir, "page.html"), filepath.Join(dir, "set-px.svg")
	marketsim(t, "report", dir, "-o", page).exits(t, 0)
	marketsim(t, "report", dir, "-o", picture).exits(t, 0)
	marketsim(t, "report", dir, "--figure", "watch").exits(t, 2).says(t, `unknown figure "watch"`)

	for path, wants := range map[string][]string{
		page: {"<svg", "wakes after 1.2s", "All searches", "<td class"},
		picture: {
			"<svg", `<circle class="fault"`, `class="harm" text-anchor="start"`,
			"MULTI ZSCORE HGET EXEC",
		},
	} {
		text := testkit.Must(os.ReadFile(path))(t)
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not hold %q", path, want)
			}
		}
	}

	shown := marketsim(t, "report", dir, "--format", "json").stdout
	res := testkit.Must(findings.ReadExplorations(strings.NewReader(shown)))(t)
	token := res.Searches[0].Token
	marketsim(t, "explore", "--replay", token).exits(t, 0).says(t, "*pauses*", "Harm: sold twice")
	marketsim(t, "explore", "--replay", token, "--format", "json").exits(t, 0).says(t, `"harmful": 1`)
	marketsim(t, "explore", "--replay", strings.Replace(token, "pause1", "pause9", 1)).
		exits(t, 2).says(t, "step 3 of the token cannot be chosen")
	marketsim(t, "explore", "--replay", strings.Replace(token, "one-item", "elsewhere", 1)).
		exits(t, 2).says(t, `"elsewhere" is no program`)
}

// TestExploreUsage: what cannot be explored is refused before anything is.
func TestExploreUsage(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "which SPEC is explored?"},
		{"wtach", "unknown lock or strategy \"wtach\"; known: watch"},
		{"set-px:ttl=2s", "leave it out"},
		{"watch --of pauses", "there is no fault \"pauses\""},
		{"watch --program one-itme", "did you mean \"one-item\"?"},
		{"watch --preemptions -1", "must be at least 0"},
		{"watch --within -1s", "must be above 0"},
		{"watch --replay x5/a/b/c", "leave SPEC out"},
		{"--replay x3/watch/one-item/d1", "no token of a schedule in version"},
		{"watch --format csv", "unknown format \"csv\""},
		{"watch --replay a --out b", "--out and --replay exclude each other"},
	} {
		marketsim(t, append([]string{"explore"}, strings.Fields(c.args)...)...).
			exits(t, 2).says(t, c.says)
	}

	marketsim(t, "explore", "etcd").exits(t, 0).says(t,
		"not explored: ", "Nothing can be concluded").silent(t, "No harm")
	marketsim(t, "explore", "watch", "--preemptions", "0", "--program", "one-item").exits(t, 0).says(t,
		"not searched", "Nothing can be concluded").silent(t, "No harm")
}

// TestExploreBroken: a harm that breaks a promise is a violation.
func TestExploreBroken(t *testing.T) {
	one := findings.Exploration{Scheme: "mine", Program: "one-item"}
	one.Broken, one.Harm = "exclusive", verify.SoldTwice
	err := exploredBroken(&findings.Explorations{Searches: []findings.Exploration{one}})
	code := exitCode(err)
	if code != 3 || !strings.Contains(err.Error(), `mine promises "exclusive"`) {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// TestExploreIsInterrupted: what was explored until then is told, as where its time is over.
func TestExploreIsInterrupted(t *testing.T) {
	marketsim(t, "explore", "watch", "--within", "1ns", "--program", "one-item").exits(t, 0).says(t,
		"stopped by the time that it was given", "Nothing can be concluded").silent(t, "No harm")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	marketsimUntil(ctx, "explore", "watch").exits(t, 130).says(t, "stopped by an interruption",
		"Nothing can be concluded").silent(t, "No harm")
}

var update = flag.Bool("update", false,
	"with -run '^TestCatalogue$': explore what is not stored and what MARKETSIM_EXPLORE names, and store it")

// A storedSearch is a file of results/explored: what searches of the schemes found.
type storedSearch struct {
	file     string
	programs []string // empty: all that can show something
	of       []string // empty: the faults that can strike by default
	// Those that CI explores again; empty: all.
	some []string
}

// storedSearches are searched by the command, and stored with go generate.
var storedSearches = []storedSearch{
	{file: exploredFile},
	{
		file:     "cancel.json",
		programs: []string{"one-item"},
		of:       []string{string(explore.Cancel)},
		some:     []string{"watch", "lua", "set-px", "set-px:fencing=token", "redsync", "ticket"},
	},
}

// TestCatalogue explores all with MARKETSIM_EXPLORE=all, or the programs of two clients
// with two, and compares what it finds with what is stored. Without, it only looks whether all
// schemes are stored. With -update it stores what it finds.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	explores := os.Getenv("MARKETSIM_EXPLORE") != "" || *update
	for _, s := range storedSearches {
		s.compare(t, explores)
	}
	if !explores {
		t.Skip("searches schedules by the command, in processes of their own: set MARKETSIM_EXPLORE")
	}
}

func (s storedSearch) compare(t *testing.T, explores bool) {
	path := filepath.Join("../../results/explored", s.file)
	stored := testkit.Must(loadOnly[*findings.Explorations](filepath.Split(path)))(t)
	schemes := fault.SchemeNames(catalogue.Full())
	explored := func(n string) bool {
		kept := func(e findings.Exploration) bool { return e.Scheme == n && e.Broken == "" }
		return slices.ContainsFunc(stored.Searches, kept)
	}
	i := slices.IndexFunc(schemes, func(name string) bool { return !explored(name) })
	if i >= 0 && !*update {
		t.Errorf("%s has not been explored for %s: go generate ./results", schemes[i], s.file)
	}
	if !explores {
		return
	}

	names := s.chosen(schemes, explored)
	found := inProcesses(t, s.explorations(t, names), s.of)
	if *update {
		stored.Searches = replaced(stored.Searches, found, schemes, names)
		stored.Version = version()
		testkit.Succeeds(t, store(path, true, stored.Write))
		return
	}
	for _, e := range found {
		// A client's own goroutines may hear of one instant in either order: then a state or two
		// more or fewer are taken for equal.
		isSame := func(s findings.Exploration) bool {
			s.Merged = e.Merged
			return reflect.DeepEqual(s, e)
		}
		if !slices.ContainsFunc(stored.Searches, isSame) {
			t.Errorf("%s, %s: found %+v, and %s does not store that: go generate ./results",
				e.Scheme, e.Program, e, s.file)
		}
	}
}

// chosen are the schemes to explore, which MARKETSIM_EXPLORE says.
func (s storedSearch) chosen(schemes []string, explored func(string) bool) []string {
	how := os.Getenv("MARKETSIM_EXPLORE")
	switch {
	case *update:
		return slices.DeleteFunc(slices.Clone(schemes), func(name string) bool {
			return explored(name) && how != "all" && !slices.Contains(strings.Split(how, ","), name)
		})
	case how != "all" && s.some != nil:
		return s.some
	}
	return schemes
}

// explorations are the programs with which schemes are explored. Those of three clients take
// long.
func (s storedSearch) explorations(t *testing.T, names []string) []exploration {
	f := &exploreFlags{
		programs:  s.programs,
		catalogue: catalogue.Full(),
		limits:    explore.Bounds{Preemptions: explore.Unbounded, Faults: 1, Schedules: 1_000_000},
		all:       true,
	}
	chosen := testkit.Must(f.chosen(names))(t)

	how := os.Getenv("MARKETSIM_EXPLORE")
	for i := range chosen {
		takesLong := func(t trade) bool { return len(t.Traders) > 2 && how != "all" && !*update }
		chosen[i].programs = slices.DeleteFunc(chosen[i].programs, takesLong)
	}
	return chosen
}

// replaced are stored searches with those of some schemes replaced, in the order of the schemes.
func replaced(
	stored, found []findings.Exploration, schemes, names []string,
) (all []findings.Exploration) {
	for _, name := range schemes {
		from := stored
		if slices.Contains(names, name) {
			from = found
		}
		for _, e := range from {
			if e.Scheme == name {
				all = append(all, e)
			}
		}
	}
	return all
}

// inProcesses explores schemes side by side: a process one at a time, because what is
// random in it is fixed meanwhile.
func inProcesses(t *testing.T, all []exploration, of []string) []findings.Exploration {
	found, running := make([][]findings.Exploration, len(all)), new(errgroup.Group)
	running.SetLimit(runtime.NumCPU())

	for i, e := range all {
		words := []string{"explore", "--all", "--format", asJSON, e.scheme}
		for _, m := range e.programs {
			words = append(words, "--program", m.Name)
		}
		for _, kind := range of {
			words = append(words, "--of", kind)
		}
		running.Go(func() (err error) {
			found[i], err = inProcess(t, words)
			return err
		})
	}

	testkit.Succeeds(t, running.Wait())
	return slices.Concat(found...)
}

// inProcess is what a process says in JSON that explores with these words of a command line.
func inProcess(t *testing.T, words []string) ([]findings.Exploration, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], words...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = &said
	out, failed := cmd.Output() // whose exit code is told by what it found
	res, err := findings.ReadExplorations(bytes.NewReader(out))
	if err != nil {
		return nil, fmt.Errorf("%q: %w: %s", words, cmp.Or(failed, err), said.String())
	}
	return res.Searches, nil
}
