package explore_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/verify"
)

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
		case e.Preemptions == 0:
			fmt.Fprintf(&b, "| %s | %s | not searched | 0 | %d | %d |\n", e.Scheme, e.Program, e.Faults, e.Schedules)
		default:
			fmt.Fprintf(&b, "| %s | %s | nothing | %d | %d | %d |\n", e.Scheme, e.Program, e.Preemptions, e.Faults, e.Schedules)
		}
	}
	return b.String()
}

// afterUnknown says what is found of the ways to go on after a write of unknown outcome.
func afterUnknown(all []verify.Explored) string {
	var b strings.Builder
	b.WriteString("| scheme | what the holder does | found |\n|:--|:--|:--|\n")
	for _, way := range [][2]string{
		{"set-px:after-unknown=release", `releases, as a "finally" does`},
		{"set-px", "leaves the lock to its lease of 4 s: the write may be later still"},
		{"set-px:after-unknown=kill", "has the server close the old connection, reads, and releases"},
		{"setnx", "releases, because the lock never expires"},
	} {
		is := func(e verify.Explored) bool { return e.Scheme == way[0] && e.Program == "one-item-long-leases" }
		e, found := all[slices.IndexFunc(all, is)], ""
		if e.Harm == "" {
			found = fmt.Sprintf("nothing in %d", e.Schedules)
		} else {
			found = fmt.Sprintf("%s in %d of %d", e.Harm, e.Harmful, e.Schedules)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", way[0], way[1], found)
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
			case e.Scheme != all[i].Scheme || e.Why != "" || e.Harm == "" && e.Preemptions == 0:
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
