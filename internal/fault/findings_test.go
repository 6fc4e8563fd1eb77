package fault

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// TestFindings runs scenarios and compares with the table: each scenario with and without
// harm, and each answer once, with schemes that change from scenario to scenario; or all
// of them with MARKETSIM_FAULTS=all. A machine that stops at the wrong moment can show what is not
// there: what differs is played up to three times, and has to differ each time. Harm to a
// scheme that a pause does not harm is no matter of time, and counts at once.
func TestFindings(t *testing.T) {
	scenarios, schemes := everything(t)
	table, cells := storedTable(t), cross(scenarios, schemes)
	if os.Getenv("MARKETSIM_FAULTS") != "all" { // which alone is enough for a machine
		t.Parallel()
		cells = representative(t, table, cells)
	}
	cells = inTurn(cells, schemes)
	compare(t, startRunner(t), table, cells)
	t.Logf("%d of %d findings", len(cells), len(scenarios)*len(schemes))
}

// compare plays cells and compares what they show with a table.
func compare(t *testing.T, runner *Runner, table *findings.FaultTable, cells []cell) {
	t.Helper()
	atATime := 3 * Parallel
	if os.Getenv("MARKETSIM_SLOW") != "" { // of so many, some would stand still on such a machine
		atATime = 2 * Parallel
	}

	found, err := runner.run(t.Context(), cells, atATime, nil)
	for tries := 0; errors.Is(err, errLate) && tries < 3; tries++ {
		t.Logf("what it has ended is played again: %v", err)
		err = playAgain(t, runner, cells, found, Parallel, wasStopped)
	}
	for tries := 0; err == nil && tries < 2 && slices.ContainsFunc(found, sawStillness); tries++ {
		err = playAgain(t, runner, cells, found, 1, sawStillness)
	}
	if err != nil {
		t.Error(err)
	}

	for i, f := range found {
		want := lookUp(t, table, cells[i])
		for range 2 {
			isDecided := same(f, want) || f.Verdict == verify.Unavailable || f.Verdict == verify.Stopped
			if isDecided || harmedAnyTime(table, f, want) {
				break
			}

			t.Logf("once more: %s with %s: found %s, %v leases (%s)",
				f.Scenario, f.Subject, answer(f), f.Leases, f.Why)
			f, err = runner.runCell(t.Context(), cells[i])
			if err != nil {
				t.Error(err)
				break
			}
		}

		switch {
		case f.Verdict == verify.Unavailable:
			t.Run(f.Scenario+"/"+f.Subject, func(t *testing.T) {
				lacks(t, cells[i], f.Why)
			})
		case !same(f, want):
			t.Errorf("%s with %s\nfound %s, %v leases (%s), breaking %q\n"+
				"want  %s, %v leases (%s), breaking %q",
				f.Scenario, f.Subject,
				answer(f), f.Leases, f.Why, f.Broken,
				answer(want), want.Leases, want.Why, want.Broken)
		}
	}
}

// wasStopped reports whether a cell was stopped: the machine was too slow for one cell, which
// has ended all others.
func wasStopped(f findings.Finding) bool { return f.Verdict == verify.Stopped }

// sawStillness reports whether nothing is known of a cell because something stood still.
func sawStillness(f findings.Finding) bool {
	return f.Verdict == verify.Unavailable && strings.Contains(f.Why, "stood still for")
}

// playAgain plays the cells of some findings once more, fewer at a time than before.
func playAgain(
	t *testing.T, runner *Runner, cells []cell, found []findings.Finding,
	atATime int, which func(findings.Finding) bool) error {

	t.Helper()
	var again []cell
	var places []int
	for i, f := range found {
		if which(f) {
			again = append(again, cells[i])
			places = append(places, i)
		}
	}
	t.Logf("%d findings are played again, %d at a time", len(again), atATime)

	played, err := runner.run(t.Context(), again, atATime, nil)
	for i, place := range places {
		found[place] = played[i]
	}
	return err
}

// same reports whether two findings are equal, but for the half of a lease by which what
// was measured may differ. A lock that is renewed just when it expires, four times, is
// renewed as often as that is in time.
func same(f, want findings.Finding) bool {
	often := f.Scenario == "stuck-goroutine" && strings.Contains(f.Subject, "renewals=4")
	near := math.Abs(f.Leases-want.Leases) <= 0.5 || often
	f.Leases = want.Leases
	return near && f == want
}

// inTurn orders cells scheme by scheme: so servers of their own, which some scenarios
// start, do not all start at once, and more cells can wait at the same time.
func inTurn(cells []cell, schemes []Scheme) []cell {
	var ordered []cell
	for _, s := range schemes {
		for _, c := range cells {
			if c.scheme.Name == s.Name {
				ordered = append(ordered, c)
			}
		}
	}
	return ordered
}

// harmedAnyTime reports whether f is harm that the table does not know, to a scheme that
// it finds unharmed by a pause.
func harmedAnyTime(table *findings.FaultTable, f, want findings.Finding) bool {
	worse := slices.Index(verify.Harms(), f.Harm) > slices.Index(verify.Harms(), want.Harm)
	return worse && slices.ContainsFunc(table.Of("pause"), func(paused findings.Finding) bool {
		return paused.Subject == f.Subject && paused.Harm == verify.NoHarm
	})
}

// answer is what a finding says, in words.
func answer(f findings.Finding) string {
	return fmt.Sprintf("%s: harm %s, others kept out %s", f.Verdict, f.Harm, f.KeptOut)
}

// lacks skips what this machine cannot run, unless it is required.
func lacks(t *testing.T, c cell, why string) {
	need := "redis"
	if c.scheme.Lock.Needs == "zookeeper" || c.scheme.Lock.Needs == "etcd" {
		need = string(c.scheme.Lock.Needs)
	}
	testkit.Require(t, need, why)
}

// lookUp is what the table says of a cell.
func lookUp(t *testing.T, table *findings.FaultTable, c cell) findings.Finding {
	t.Helper()
	at := slices.IndexFunc(table.Findings, func(f findings.Finding) bool {
		return c.scenario.Name == f.Scenario && c.scheme.Name == f.Subject
	})
	if at < 0 {
		t.Fatalf("the table lacks %s with %s", c.scenario.Name, c.scheme.Name)
	}
	return table.Findings[at]
}

// representative is, of each scenario, a cell with harm, one without, and one that is not
// played, if there are such; and one for each answer that these do not give. The scheme is
// the one that was chosen least often so far. What is known not to apply beforehand costs
// nothing, and is all there.
func representative(t *testing.T, table *findings.FaultTable, cells []cell) (chosen []cell) {
	byScenario := map[string][]cell{} // that may be chosen
	for _, c := range cells {
		switch {
		case c.cannotHappen() != "":
			chosen = append(chosen, c)
		case c.scenario.Name == "leader-killed" && c.scheme.Lock.Needs == lock.NeedsZooKeeper:
			// Three JVMs cost as much as fifty other cells: etcd has a leader, too.
		default:
			byScenario[c.scenario.Name] = append(byScenario[c.scenario.Name], c)
		}
	}

	times := map[string]int{}  // that a scheme was chosen
	shown := map[string]bool{} // answers
	choose := func(cells []cell, kind func(findings.Finding) string) {
		best := map[string]cell{}
		for _, c := range cells {
			of := kind(lookUp(t, table, c))
			if so, ok := best[of]; !ok || times[c.scheme.Name] < times[so.scheme.Name] {
				best[of] = c
			}
		}
		for _, c := range best {
			chosen = append(chosen, c)
			times[c.scheme.Name]++
			shown[answer(lookUp(t, table, c))] = true
		}
	}

	harmed := func(f findings.Finding) string {
		return fmt.Sprint(f.Harm == "", f.Harm == verify.NoHarm)
	}
	for _, of := range table.Scenarios {
		choose(byScenario[of.Name], harmed)
	}
	for _, of := range table.Scenarios {
		given := func(c cell) bool {
			return shown[answer(lookUp(t, table, c))]
		}
		choose(slices.DeleteFunc(byScenario[of.Name], given), answer)
	}
	return chosen
}
