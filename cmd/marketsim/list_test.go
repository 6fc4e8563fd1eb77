package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestListNamesEverything, and tells all of each name.
func TestListNamesEverything(t *testing.T) {
	t.Parallel()
	o := unbroken(marketsim(t, "list").exits(t, exitFine))
	c := catalogue.Full()
	told := func(name string) outcome {
		return unbroken(marketsim(t, "list", name).exits(t, exitFine))
	}

	for _, s := range c.Strategies {
		o.says(t, s.Name)
		told(s.Name).says(t, "strategy "+s.Name, strings.Fields(s.Source)[0])
	}

	promises := unbroken(marketsim(t, "list", "--locks").exits(t, exitFine))
	marketsim(t, "list", "--locks").
		says(t, "rw-naive            yes / yes", "set-ex-compare      - / -", "yes / no")
	for _, p := range (lock.Promises{}).List() {
		promises.says(t, strings.Fields(p.Name)[0]) // a heading has lines
	}
	for _, k := range c.Locks {
		o.says(t, k.Name)
		promises.says(t, k.Name+" ")
		one := told(k.Name).says(t, "lock "+k.Name, strings.Fields(k.Source)[0], k.Wakes)
		for _, p := range k.Params {
			one.says(t, p.Name)
		}
	}

	for _, sc := range fault.Scenarios() {
		marketsim(t, "list", "--scenarios").exits(t, exitFine).says(t, sc.Name)
		told(sc.Name).says(t, "scenario "+sc.Name, sc.Promise)
	}
}

// TestListSaysWhatWasFound, anywhere, and a report of some locks says the same,
// without their parameters.
func TestListSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		says []string
	}{
		{"redsync", []string{
			"lock redsync",
			"\npromises: exclusive, owner-only release, survives a crash, clock-independent\n",
			"\nsold twice, 1 lease: marketsim faults --scenario pause --lock redsync\n",
			" scenarios broke it.\n", "\nPlayed with github.com/go-redsync/redsync/v4 v4.",
			"overdrawn in 1, sold twice in 8. marketsim explore redsync",
			"docs/answers.md",
		}},
		{"setnx", []string{"no harm, never: marketsim faults --scenario crash-holding --lock setnx\n"}},
		{"set-px+watchdog", []string{"notices loss", "--scenario late-write --lock set-px+watchdog"}},
		{"lua", []string{
			"strategy lua", "wrongly told no: marketsim faults --scenario resent --lock lua",
		}},
		{"etcd", []string{"not explored: its lock needs other servers"}},
	} {
		listed := marketsim(t, "list", c.name).exits(t, exitFine).says(t, c.says...)
		about := marketsim(t, "report", storedFaults, "../../results/explored", "--lock", c.name).
			exits(t, exitFine)

		found, parameters, _ := strings.Cut(listed.stdout, "\n\ntakes ")
		n := strings.Count(about.stdout, "\n")
		if found+"\n" != about.stdout || parameters == "" || n > 28 {
			t.Errorf("list says\n%s\nand the report says in %d lines\n%s", listed.stdout, n, about.stdout)
		}
	}

	marketsim(t, "list", "setnx").silent(t, "Played with") // it is nobody's library
	// what breaks a lock that has a library's name comes before the library
	marketsim(t, "list", "redsync").says(t, "\nlibrary redsync, several servers\n")

	page := filepath.Join(t.TempDir(), "two.html")
	marketsim(t, "report", storedFaults, "--lock", "redsync,set-px:fencing=token", "-o", page).
		exits(t, exitFine)
	both := regexp.MustCompile(
		`(?s)lock redsync.*--scenario lottery --lock redsync.*lock set-px:fencing=token`)
	if text := read(t, page); !both.MatchString(text) {
		t.Errorf("the page does not tell of both:\n%s", text)
	}
}
