package main

import (
	"slices"
	"testing"
)

func TestFencingMeasuresEachStrategyTwice(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	o := marketsim(t, short("run", "--strategy", "fine:fenced,fine-wallet:fenced+watchdog:ttl=1s", "--mix", "1x1,2x2", "--fencing",
		"--redis", s.url(""), "--json", "-")...).exits(t, exitFine)
	var rows []string
	for _, r := range parse(t, o.stdout).Rows {
		if !r.Audit.OK || r.Bought == 0 {
			t.Errorf("row %s: %d bought, audit %+v", r.Strategy, r.Bought, r.Audit)
		}
		rows = append(rows, r.Strategy)
	}
	fine, wallet := "fine:fenced:fencing=", "fine-wallet:fenced+watchdog:fencing="
	want := []string{
		fine + "off", fine + "on", fine + "off", fine + "on",
		wallet + "off:ttl=1s", wallet + "on:ttl=1s", wallet + "off:ttl=1s", wallet + "on:ttl=1s",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	s.holds(t)
}

// Fences outlive their holders, and go with the market.
func TestCleanRemovesFences(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	marketsim(t, short("run", "--strategy", "fine-wallet:fenced:fencing=on", "--mix", "1x1", "--keep", "--prefix", "mine:",
		"--redis", s.url(""))...).exits(t, exitFine)
	for _, key := range []string{"mine:fence:1", "mine:fence:users:2"} {
		if s.conn.Exists(t.Context(), key).Val() != 1 {
			t.Errorf("there is no %s", key)
		}
	}
	marketsim(t, "clean", "--prefix", "mine:", "--redis", s.url("")).exits(t, exitFine).says(t, "removed ")
	s.holds(t)
}
