package fault

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

func TestNamed(t *testing.T) {
	chosen, err := ScenariosNamed("pause", "crash-holding", "pause")
	named := len(chosen) == 2 && chosen[0].Name == "pause" && chosen[1].Name == "crash-holding"
	if err != nil || !named {
		t.Errorf("%v, %v; want pause and crash-holding", chosen, err)
	}
	_, err = ScenariosNamed("pause", "crash-holdin")
	const says = `did you mean "crash-holding"?`
	if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want ErrScenario with a suggestion", err)
	}
}

// A lock on servers of a new kind is not taken for one in Redis, where a scenario would
// look for its commands or keys.
func TestNewServersAreNotRedis(t *testing.T) {
	elsewhere := scheme(t, "etcd")
	elsewhere.Lock.Needs = "something-new"
	for _, name := range []string{"restart-empty", "failover", "server-stalls", "evicted"} {
		if why := named(t, name).Applies(elsewhere); !strings.Contains(why, "Redis") {
			t.Errorf("%s does not apply because %q, want that the lock is not in Redis", name, why)
		}
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	var names []string
	for _, sc := range DefaultScenarios() {
		if sc.Title == "" || sc.run == nil || slices.Contains(names, sc.Name) {
			t.Errorf("%q has no title, nothing to run, or the name of another", sc.Name)
		}
		names = append(names, sc.Name)

		known := sc.Promise == ""
		for _, p := range (lock.Promises{}).List() {
			known = known || p.Name == sc.Promise
		}
		if !known {
			t.Errorf("%s names the promise %q, which no lock can make", sc.Name, sc.Promise)
		}
	}
}

// readTable reads the table in results/, once.
var readTable = sync.OnceValues(func() (*findings.FaultTable, error) {
	f, err := os.Open("../../results/faults/faults.json")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return findings.ReadFaultTable(f)
})

// storedTable is the table in results/. It says what each scenario finds with each scheme.
func storedTable(t *testing.T) *findings.FaultTable {
	t.Helper()
	return testkit.Must(readTable())(t)
}

// everything is what 'marketsim faults' runs by default.
func everything(t *testing.T) ([]Scenario, []Scheme) {
	t.Helper()
	schemes := testkit.Must(Schemes(catalogue.Full(), SchemeNames(catalogue.Full())...))(t)
	return DefaultScenarios(), schemes
}

// TestTableHasEverything fails if a scenario, a lock or a promise was added or changed
// and the table was not made again.
func TestTableHasEverything(t *testing.T) {
	scenarios, schemes := everything(t)
	const again = "make the table again with 'go generate ./results'"

	want := NewResult("", scenarios, schemes)
	stored := storedTable(t)
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
		if f.Verdict == verify.Unavailable || f.Why == "" {
			t.Errorf("%s with %s: %s (%q); %s", f.Scenario, f.Subject, f.Verdict, f.Why, again)
		}
	}
}

// TestPromisesHold: the stored table breaks no promise that a scenario tests.
func TestPromisesHold(t *testing.T) {
	scenarios, schemes := everything(t)
	table, tested := storedTable(t), 0

	for _, c := range cross(scenarios, schemes) {
		f := lookUp(t, table, c)
		if broken := c.scenario.broken(c.scheme.Promises(), f.Verdict); broken != "" || f.Broken != "" {
			t.Errorf("%s: %s promises %q, and was %s: %s", f.Scenario, f.Subject, broken, f.Verdict, f.Why)
		}

		if f.Verdict != verify.NotApplicable && c.scenario.Promise != "" {
			tested++
		}
	}

	if tested < len(schemes) {
		t.Errorf("only %d promises were tested", tested)
	}
}

// TestSameBehaviourSameAnswer: nobody gets in beside a stuck holder of a lock
// that never expires, or that is renewed as long as its process lives. What each
// lock promises changes nothing.
func TestSameBehaviourSameAnswer(t *testing.T) {
	var answers []findings.Finding
	for _, f := range storedTable(t).Of("stuck-goroutine") {
		if f.Subject == "setnx" || f.Subject == "set-px+watchdog" || f.Subject == "zookeeper" {
			f.Subject = ""
			answers = append(answers, f)
		}
	}
	if len(answers) != 3 || answers[0] != answers[1] || answers[0] != answers[2] ||
		answers[0].KeptOut != verify.HolderBack {
		t.Errorf("%+v", answers)
	}
}

// TestRefusedNewcomersAreKeptOut: fences that count from 1 again keep newcomers
// out of a lock that is free.
func TestRefusedNewcomersAreKeptOut(t *testing.T) {
	for _, f := range storedTable(t).Of("restart-empty") {
		if f.Subject == "fenced:fencing=on" && f.KeptOut != verify.CounterCaughtUp {
			t.Errorf("%+v", f)
		}
	}
}

// TestNotPlayable: what can happen to a scheme and nothing here can bring about
// is not said to be impossible.
func TestNotPlayable(t *testing.T) {
	table := storedTable(t)
	for scenario, subject := range map[string]string{
		"lost-acquire": "zookeeper", "resent-acquire": "etcd",
		"server-stalls": "set-px:write=fused", "evicted": "set-px:write=fused", "oom": "set-px:write=fused",
	} {
		f := lookUp(t, table, cell{Scenario{Name: scenario}, Scheme{Name: subject}})
		if f.Verdict != verify.NotPlayable {
			t.Errorf("%s with %s is %s (%s)", scenario, subject, f.Verdict, f.Why)
		}
	}
}

// TestUnsafeIsCaught: a suite that cannot show the control losing money proves nothing.
func TestUnsafeIsCaught(t *testing.T) {
	for _, f := range storedTable(t).Findings {
		if f.Subject == "unsafe" && f.Harm == verify.SoldTwice {
			return
		}
	}
	t.Error("no scenario caught unsafe selling twice")
}

// TestLiarIsCaught: whoever says that it did what it was asked for, and does nothing, is
// found in each scenario that can happen to it.
func TestLiarIsCaught(t *testing.T) {
	t.Parallel()
	cells := cross(DefaultScenarios(), []Scheme{scheme(t, "liar")})
	found, err := startRunner(t).run(t.Context(), cells, Parallel, nil)
	if err != nil {
		t.Error(err)
	}

	played := 0
	for _, f := range found {
		if f.Verdict == verify.NotApplicable {
			continue
		}
		played++
		if f.Harm != verify.ToldYes && f.Scenario != "mixed" { // whose other client really buys
			t.Errorf("%s: %+v", f.Scenario, f)
		}
	}

	if played < 8 {
		t.Errorf("only %d scenarios were played", played)
	}
}

// TestScenariosTellSchemesApart: each of these can fail, and tells a flawed
// scheme from one without the flaw.
func TestScenariosTellSchemesApart(t *testing.T) {
	table := storedTable(t)

	for _, c := range []struct {
		scenario, flawed, sound string
		want                    verify.Verdict // of the flawed one
	}{
		{"expired-race", "getset:takeover=del", "getset", "sold twice"},
		{"pause-half-taken", "setnx-expire", "setnx-expire-naive", "sold twice"},
		{"mixed", "set-ex-fixed", "set-px", "sold twice"},
		{"mixed", "redisson", "set-px", verify.Failing},
		{"resent-late", "fenced:fencing=on:idempotent=on", "lua:idempotent=on", "charged twice"},
		{"mixed", "exists-set", "set-px", "sold twice"},
		{"crash-holding", "claim", "lua", "item lost"},
		{"crash-holding", "setnx:write=pipeline", "setnx", "sold twice"},
		{"crash-holding", "reentrant-local:reenter=set:entries=2", "reentrant-local:reenter=keepttl:entries=2",
			verify.StuckForGood},
		{"clock-set-back", "redlock:clock=wall", "redlock", "sold twice"},
		{"lottery", "set-px", "setnx", "charged twice"}, // who draws no more
		{"lost-leave", "reentrant:entries=2", "redisson:entries=2", "sold twice"},
		{"lost-acquire", "redislock", "redislock:lost-reply=released", verify.StuckForTTL},
		{"lost-acquire", "set-px:resend=on", "set-px", verify.StuckForTTL},
		{"lost-acquire", "redisson", "redisson:lost-reply=released", verify.StuckForTTL},
		{"pause-before-read", "redisson", "set-px+watchdog", "sold twice"}, // whose watchdog tells nobody
		{"oom", "redisson", "set-px", verify.StuckForTTL},
		// Whose DEL arrives when the partition heals.
		{"partition", "setnx", "exists-set", verify.StuckForGood},
		{"resent-acquire", "set-px:write=fused", "redlock", verify.Failing},
		// Its counter reaches the fence.
		{"restart-empty", "fenced:fencing=on", "set-px:fencing=token", "sold twice"},
		{"server-stalls", "set-px", "set-px+watchdog", "sold twice"},
		{"server-stalls-late", "set-px+watchdog", "set-px:fencing=token", "sold twice"},
		{"late-write", "setnx", "set-px:after-unknown=kill", "sold twice"},
		{"late-write", "set-px", "set-px:fencing=token", "sold twice"},
		{"evicted", "set-px", "fenced:fencing=on", "sold twice"},
		{"oom", "setnx", "set-px", verify.StuckForGood},
	} {
		of := func(subject string) verify.Verdict {
			return lookUp(t, table, cell{Scenario{Name: c.scenario}, Scheme{Name: subject}}).Verdict
		}

		flawed := of(c.flawed)
		sound := of(c.sound)
		if flawed != c.want || sound == c.want || sound.Harm() {
			t.Errorf("%s: %s was %s, want %s; %s was %s",
				c.scenario, c.flawed, flawed, c.want, c.sound, sound)
		}
	}
}
