package fault

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// storedTable is the newest table in results/. It says what each scenario is to find with each subject.
func storedTable(t *testing.T) *Result {
	t.Helper()
	paths, err := filepath.Glob("../../results/faults-*/faults.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stored table: %v", err)
	}
	f, err := os.Open(slices.Max(paths))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := ReadResult(f)
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	return res
}

// everything is what 'marketsim faults' plays by default.
func everything(t *testing.T) ([]Scenario, []Subject) {
	t.Helper()
	subjects, err := Subjects(catalogue.Full(), Names(catalogue.Full())...)
	if err != nil {
		t.Fatal(err)
	}
	return All(), subjects
}

// TestTableHasEverything fails when a scenario, a lock or a promise was added or changed and the table was not made anew.
func TestTableHasEverything(t *testing.T) {
	scenarios, subjects := everything(t)
	const again = "make the table anew with 'marketsim faults --out' and its folder in results/"
	want, stored := NewResult(Manifest{}, scenarios, subjects), storedTable(t)
	if stored.Status != "complete" {
		t.Errorf("the table is %s; %s", stored.Status, again)
	}
	if !slices.Equal(stored.Scenarios, want.Scenarios) {
		t.Errorf("the table has the scenarios\n%v\nwant\n%v\n%s", stored.Scenarios, want.Scenarios, again)
	}
	if !slices.Equal(stored.Subjects, want.Subjects) {
		t.Errorf("the table has the subjects\n%v\nwant\n%v\n%s", stored.Subjects, want.Subjects, again)
	}
	for _, f := range stored.Findings {
		if f.Verdict == Unavailable || f.Why == "" {
			t.Errorf("%s with %s: %s (%q); %s", f.Scenario, f.Subject, f.Verdict, f.Why, again)
		}
	}
}

// TestPromisesHold looks up every promise that a scenario tests in the stored table.
func TestPromisesHold(t *testing.T) {
	scenarios, subjects := everything(t)
	table, tested := storedTable(t), 0
	for _, c := range cross(scenarios, subjects) {
		f := lookUp(t, table, c)
		if broken := c.scenario.broken(c.subject, f.Verdict); broken != "" || f.Broken != "" {
			t.Errorf("%s: %s promises %q, and was %s: %s", f.Scenario, f.Subject, broken, f.Verdict, f.Why)
		}
		if f.Verdict != NotApplicable && c.scenario.Promise != "" {
			tested++
		}
	}
	if tested < len(subjects) {
		t.Errorf("only %d promises were tested", tested)
	}
}

// TestUnsafeIsCaught: a suite that cannot show the control losing money proves nothing.
func TestUnsafeIsCaught(t *testing.T) {
	for _, f := range storedTable(t).Findings {
		if f.Subject == "unsafe" && f.Verdict == SoldTwice {
			return
		}
	}
	t.Error("no scenario caught unsafe selling twice")
}

// TestFindings plays scenarios and compares with the table: each verdict of each scenario once, with subjects that
// change from scenario to scenario, or all of them with MARKETSIM_FAULTS=all.
func TestFindings(t *testing.T) {
	scenarios, subjects := everything(t)
	table, cells := storedTable(t), cross(scenarios, subjects)
	if os.Getenv("MARKETSIM_FAULTS") != "all" {
		cells = representative(table, cells)
	}
	found, err := openLab(t).run(t.Context(), cells, nil)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d findings", len(found), len(scenarios)*len(subjects))
	for _, f := range found {
		i := slices.IndexFunc(cells, func(c cell) bool { return c.scenario.Name == f.Scenario && c.subject.Name == f.Subject })
		want := lookUp(t, table, cells[i])
		switch {
		case f.Verdict == Unavailable:
			t.Run(f.Scenario+"/"+f.Subject, func(t *testing.T) { lacks(t, cells[i], f.Why) })
		case f != want:
			t.Errorf("%s with %s\nfound %s (%s), breaking %q\nwant  %s (%s), breaking %q", f.Scenario, f.Subject,
				f.Verdict, f.Why, f.Broken, want.Verdict, want.Why, want.Broken)
		}
	}
}

// lacks skips what this machine cannot play, unless it is required.
func lacks(t *testing.T, c cell, why string) {
	need := "redis"
	if c.subject.Lock != nil && (c.subject.Lock.Needs == "zookeeper" || c.subject.Lock.Needs == "etcd") {
		need = string(c.subject.Lock.Needs)
	}
	backendtest.Require(t, need, why)
}

// lookUp is what the table says of a cell.
func lookUp(t *testing.T, table *Result, c cell) Finding {
	t.Helper()
	for _, f := range table.Of(c.scenario.Name) {
		if f.Subject == c.subject.Name {
			return f
		}
	}
	t.Fatalf("the table lacks %s with %s", c.scenario.Name, c.subject.Name)
	return Finding{}
}

// representative is one cell for each verdict of each scenario, with the subject that was chosen least often so far.
// What is known not to apply without a play costs nothing, and is all there.
func representative(table *Result, cells []cell) []cell {
	times := map[string]int{} // that a subject was chosen
	var chosen []cell
	for _, of := range table.Scenarios {
		best := map[Verdict]cell{}
		for _, f := range table.Of(of.Name) {
			i := slices.IndexFunc(cells, func(c cell) bool { return c.scenario.Name == f.Scenario && c.subject.Name == f.Subject })
			if i < 0 {
				continue // no longer there: TestTableHasEverything tells
			}
			c := cells[i]
			if c.scenario.Applies != nil && c.scenario.Applies(c.subject) != "" {
				chosen = append(chosen, c)
				continue
			}
			if so, ok := best[f.Verdict]; !ok || times[c.subject.Name] < times[so.subject.Name] {
				best[f.Verdict] = c
			}
		}
		for _, c := range best {
			chosen = append(chosen, c)
			times[c.subject.Name]++
		}
	}
	return chosen
}
