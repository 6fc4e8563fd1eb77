package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestNamed(t *testing.T) {
	chosen, err := Named("pause", "crash-holding", "pause")
	if err != nil || len(chosen) != 2 || chosen[0].Name != "pause" || chosen[1].Name != "crash-holding" {
		t.Errorf("%v, %v; want pause and crash-holding", chosen, err)
	}
	_, err = Named("pause", "crash-holdin")
	if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), `did you mean "crash-holding"?`) {
		t.Errorf("%v, want ErrScenario with a suggestion", err)
	}
}

func TestScenariosAreDescribed(t *testing.T) {
	var names []string
	for _, sc := range All() {
		if sc.Title == "" || sc.play == nil || slices.Contains(names, sc.Name) {
			t.Errorf("%q has no title, no play, or the name of another", sc.Name)
		}
		names = append(names, sc.Name)
		known := sc.Promise == ""
		for _, p := range (Subject{}).Promises.List() {
			known = known || p.Name == sc.Promise
		}
		if !known {
			t.Errorf("%s names the promise %q, which no lock can make", sc.Name, sc.Promise)
		}
	}
}

func TestSubjects(t *testing.T) {
	c := catalogue.Full()
	for _, s := range c.Locks {
		if !slices.Contains(Names(c), s.Name) {
			t.Errorf("%s is not played by default", s.Name)
		}
	}
	for name, spec := range map[string]string{
		"watch":              "watch",
		"set-px":             "fine:set-px",
		"set-px+watchdog":    "fine:set-px+watchdog",
		"set-px:expiry=pxat": "fine:set-px:expiry=pxat",
		"coarse:set-px":      "coarse:set-px",
		"fine-wallet":        "fine-wallet",
	} {
		chosen, err := Subjects(c, name, name)
		if err != nil || len(chosen) != 1 || chosen[0].Name != name || chosen[0].String() != spec {
			t.Errorf("%s: %v, %v; want %s once", name, chosen, err, spec)
		}
	}
	for name, says := range map[string]string{
		"setxn":             `unknown lock or strategy "setxn"`,
		"wathc":             `did you mean "watch"?`,
		"set-px+watchdgo":   `did you mean "watchdog"?`,
		"set-px:expiri=px":  `did you mean "expiry"?`,
		"coarse:setxn":      `unknown lock "setxn"`,
		"":                  `unknown lock or strategy ""`,
		"setnx+watchdog":    "cannot be renewed",
		"set-px:expiry=xat": "expiry",
	} {
		if _, err := Subjects(c, name); !errors.Is(err, strategies.ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want ErrSpec that says %q", name, err, says)
		}
	}
}
