package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// People know their lock by its library. What is known of libraries is in package
// results, so that an installed program has it, too.

// ofLibraries tells what is known of the libraries that a name may mean, and what was
// found when programs made with them were judged.
func ofLibraries(name string, faults *findings.FaultTable) (docs []*view.Doc, err error) {
	for _, l := range reference.LibrariesNamed(name) {
		docs = append(docs, ofLibrary(l, faults))
	}

	for _, p := range reference.JudgedProgramsNamed(name) {
		found, err := findings.ReadExplorations(strings.NewReader(p.Explored))
		if err != nil {
			return nil, fmt.Errorf("read what was judged of %s: %w", p.Name, err)
		}
		docs = append(docs, ofJudged(p, found))
	}
	return docs, nil
}

// ofLibrary is a row of docs/libraries.md, for a terminal.
func ofLibrary(l reference.Library, faults *findings.FaultTable) *view.Doc {
	d := &view.Doc{Title: "library " + unmarked(l.Name), Facts: []string{
		"how it locks: " + unmarked(l.Scheme),
		"marketsim's name for that: " + unmarked(l.Known),
		"whose code was run: " + l.Code,
		fmt.Sprintf("try, of many: marketsim faults --scenario %s --lock %s", l.Scenario, process.ShellLine(l.Lock)),
	}}

	for _, f := range faults.Of(l.Scenario) {
		if f.Subject == l.Lock {
			d.Facts = append(d.Facts, "it finds: "+f.InWords())
		}
	}
	d.Facts = append(d.Facts, "all that breaks it: marketsim list "+process.ShellLine(l.Lock))
	return d
}

// ofJudged is what judge found about a program, without its schedules.
func ofJudged(p reference.JudgedProgram, found *findings.Explorations) *view.Doc {
	d := &view.Doc{
		Title: fmt.Sprintf("judged: %s (%s)", p.Name, p.Library),
		Facts: []string{
			"how it was opened: " + p.Opened,
			"the program: " + found.Searches[0].Scheme,
			"its schedules, in marketsim's repository: marketsim report results/judged/" + p.Name,
		},
	}
	for _, e := range found.Broken() {
		d.Findings = append(d.Findings, fmt.Sprintf("BROKEN PROMISE: %s; in %s: %s.", e.Broken, e.Program, e.Harm))
	}
	if len(d.Findings) == 0 {
		d.Findings = view.Explored(found).Findings
	}

	if len(found.Promises) > 0 {
		promises := view.NewTable("promise", "state", "why").Wrapping("why")
		for _, promise := range found.Promises {
			promises.Add(promise.Promise, promise.State, promise.Why)
		}
		d.Blocks = append(d.Blocks, view.Block{Table: promises})
	}

	searches := view.NewTable("program", "preemptions", "faults", "found").Wrapping("found")
	for _, e := range found.Searches {
		e.Stopped, _, _ = strings.Cut(e.Stopped, ":") // the details are in the stored file
		searches.Add(e.Program, e.WithinPreemptions(), fmt.Sprint(e.Faults), e.Found())
	}
	d.Blocks = append(d.Blocks, view.Block{Table: searches})
	return d
}

// unmarked is a text of docs/libraries.md without the marks of Markdown.
func unmarked(text string) string { return strings.ReplaceAll(text, "`", "") }

// libraryNames are the names by which list knows libraries and judged programs, each once.
func libraryNames() (names []string) {
	for _, l := range reference.Libraries() {
		names = append(names, l.Names...)
	}
	for _, p := range reference.JudgedPrograms() {
		names = append(names, p.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) })
	return slices.CompactFunc(names, strings.EqualFold)
}

// suggestList says what to type where err is about a name that no strategy and no lock has, but
// a library or a scenario. Packages strategies and fault, and describe, set What. For its other
// values, "parameter" and "lock modifier", there is nothing to suggest.
func suggestList(err error) error {
	unknown, is := errors.AsType[*strategies.UnknownError](err)
	if !is || !slices.Contains([]string{"strategy", "lock", "lock or strategy", "name", "scenario"}, unknown.What) {
		return err
	}

	// The name may be right, and only stand in the wrong place.
	name := unknown.Name
	known := reference.LibrariesNamed(name)
	_, noScheme := fault.SchemeOf(catalogue.Full(), name)
	_, noScenario := fault.ScenariosNamed(name)
	switch {
	case unknown.What == "scenario" && noScheme == nil:
		return usagef("%s is a lock or a strategy: give it as in marketsim faults %[1]s", name)
	case len(known) > 0:
		prefix := ""
		if unknown.What == "strategy" {
			prefix = "fine:"
		}
		schemes := wording.Names(known, func(l reference.Library) string {
			return fmt.Sprintf("%s (%s)", unmarked(l.Under(prefix)), unmarked(l.Name))
		})
		return usagef("%s is a library, and marketsim has another name for its scheme: %s; "+
			"'marketsim list %s' tells more", name, strings.Join(schemes, "; "), process.ShellLine(name))
	case noScenario == nil:
		return usagef("%s is a scenario: give it as in marketsim faults --scenario %[1]s", name)
	case unknown.What == "name":
		return usagef("%s", nameless(unknown))
	}
	return err
}

// nameless is the message for a name that nothing has. More than a hundred names are known:
// it suggests one, or says where they are.
func nameless(e *strategies.UnknownError) string {
	step := "'marketsim list' shows strategies and locks, 'marketsim list --scenarios' scenarios"
	if near := wording.Nearest(e.Name, e.Known); near != "" {
		step = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("no strategy, lock, scenario or library is named %q; %s", wording.Excerpt(e.Name, 200), step)
}
