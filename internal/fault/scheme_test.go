package fault

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestNewSchemesAreRun: a strategy and a lock that are added to a catalogue are
// run with all their variants.
func TestNewSchemesAreRun(t *testing.T) {
	c := catalogue.Full()
	before := SchemeNames(c)

	c.Strategies = append(c.Strategies, strategies.Strategy{
		Name: "new-strategy",
		Variants: func(strategies.Catalogue) []string {
			return []string{"new-strategy:fast=yes"}
		},
	})
	c.Locks = append(c.Locks, lock.Kind{
		Name:     "new-lock",
		Variants: []string{":poll=1ms", "+watchdog"},
		Promises: lock.Promises{Fenced: true},
	})

	after := SchemeNames(c)
	for _, name := range []string{
		"new-strategy", "new-strategy:fast=yes",
		"new-lock", "new-lock:poll=1ms", "new-lock+watchdog",
		"new-lock:fencing=off", "new-lock:fencing=on",
	} {
		if slices.Contains(before, name) || !slices.Contains(after, name) {
			t.Errorf("%s is not added", name)
		}
		after = slices.DeleteFunc(after, func(n string) bool {
			return n == name
		})
	}

	if !slices.Equal(before, after) {
		t.Errorf("the others changed to %v, want %v", after, before)
	}
}

func TestSchemes(t *testing.T) {
	c := catalogue.Full()
	if _, err := Schemes(c, SchemeNames(c)...); err != nil {
		t.Errorf("the default names: %v", err)
	}

	for name, spec := range map[string]string{
		"watch":              "watch",
		"set-px":             "fine:set-px",
		"set-px+watchdog":    "fine:set-px+watchdog",
		"set-px:expiry=pxat": "fine:set-px:expiry=pxat",
		"coarse:set-px":      "coarse:set-px",
		"fine-wallet":        "fine-wallet",
	} {
		chosen, err := Schemes(c, name, name)
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
		_, err := Schemes(c, name)
		if !errors.Is(err, strategies.ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v; want ErrSpec that says %q", name, err, says)
		}
	}
}

// TestNeighbours: what a scheme is mixed with.
func TestNeighbours(t *testing.T) {
	for name, want := range map[string]string{
		"watch": "setnx", "set-px": "setnx", "set-px+watchdog": "setnx", "setnx": "setnx-expire",
		"coarse": "coarse:setnx-expire", "coarse:set-px": "coarse:setnx", "fenced:fencing=off": "setnx",
		"fenced:fencing=on": "fenced", "set-px:fencing=token": "set-px", "etcd:fencing=on": "etcd",
	} {
		other, err := scheme(t, name).neighbour()
		if err != nil || other.Name != want {
			t.Errorf("%s is mixed with %q, %v; want %q", name, other.Name, err, want)
		}
	}
}
