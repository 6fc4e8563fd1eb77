package results_test

import (
	"bytes"
	"fmt"
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

// TestJudgedInPages: what docs/judged.md shows is what is stored. With -update
// it is written there.
func TestJudgedInPages(t *testing.T) {
	var table strings.Builder
	table.WriteString("| library | command | promises | harm | no other harm within (p, f): schedules |\n" +
		"|:--|:--|:--|:--|:--|\n")
	for _, program := range reference.JudgedPrograms() {
		name := program.Name
		res := testkit.Must(findings.ReadExplorations(strings.NewReader(program.Explored)))(t)
		var harms, nothing, states []string
		for _, e := range res.Searches {
			bounds := fmt.Sprintf("%s (%d, %d)", e.Program, e.Preemptions, e.Faults)
			switch {
			case e.Why != "":
			case e.Harm != "":
				harms = append(harms, fmt.Sprintf("%s: %s", e.Harm, bounds))
			default:
				nothing = append(nothing, fmt.Sprintf("%s: %d", bounds, e.Schedules))
			}
		}
		for _, state := range []string{"broken", "not kept", "kept", "unchecked"} {
			var of []string
			for _, p := range res.Promises {
				if p.State == state {
					of = append(of, p.Promise)
				}
			}
			if len(of) > 0 {
				states = append(states, fmt.Sprintf("*%s*: %s", state, strings.Join(of, ", ")))
			}
		}
		if len(res.Promises) == 0 {
			states = []string{map[bool]string{true: "*broken*: the audit", false: "*kept*: the audit"}[len(res.Broken()) > 0]}
		}
		command := res.Searches[0].Scheme
		if len(res.Promises) == 0 {
			command = "--purchase -- " + command
		}
		fmt.Fprintf(&table, "| %s (%s) | `marketsim judge %s` | %s | %s | %s |\n", name, program.Library, command,
			strings.Join(states, "; "), strings.Join(harms, "; "), strings.Join(nothing, "; "))
		if slices.Contains([]string{"get-then-del", "redis-py", "redis-py-watch"}, name) {
			worst := slices.MaxFunc(res.Searches, func(a, b findings.Exploration) int {
				return slices.Index(verify.Harms(), a.Harm) - slices.Index(verify.Harms(), b.Harm)
			})
			figures := view.Schedules(&findings.Explorations{Judged: true, Searches: []findings.Exploration{worst}})
			var picture bytes.Buffer
			testkit.Succeeds(t, view.SVG(&picture, figures[0]))
			file := "../docs/pictures/judged-" + name + ".svg"
			rewrite(t, file, text(t, file), picture.String())
		}
	}
	inPage(t, "../docs/judged.md", "explored: judged", table.String())
}

// judgedLocks are the locks that were found to keep their promises, and those
// that were not.
func judgedLocks(t *testing.T) (kept, broken string) {
	t.Helper()
	told := map[bool][]string{}
	for _, path := range glob(t, "judged/*/explored.json") {
		found := testkit.Must(findings.ReadExplorations(strings.NewReader(text(t, path))))(t)
		isLock := len(found.Promises) > 0
		if isLock {
			sound := len(found.Broken()) == 0
			told[sound] = append(told[sound], filepath.Base(filepath.Dir(path)))
		}
	}
	names := strings.NewReplacer("laravel", "Laravel", "symfony", "Symfony")
	return names.Replace(and(told[true])), and(told[false])
}

// and is a list as a sentence has it.
func and(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
