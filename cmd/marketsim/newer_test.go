package main

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestNewerCommands runs locks by commands that not every server has. On one that
// lacks them this is a mistake in the command line, whose message names the
// version, and nothing is left behind.
func TestNewerCommands(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for text, says := range map[string][]string{
		"fine:set-px:release=delex":          {"DELEX is not available", "needs Redis 8.4"},
		"fine:set-px:release=delifeq":        {"DELIFEQ is not available", "needs Valkey 9.0"},
		"fine:set-px+watchdog:renew-by=ifeq": {"SET IFEQ is not available", "needs Redis 8.4 or Valkey 8.1"},
	} {
		if has(t, s.conn.Client, newerSpec(t, text)) == nil {
			attempt(t, s.url(""), "--strategy", text).exits(t, exitFine)
		} else {
			attempt(t, s.url(""), "--strategy", text).exits(t, exitUsage).says(t, says...)
		}
	}
	s.holds(t)
}

func newerSpec(t *testing.T, text string) strategies.Spec {
	t.Helper()
	return testkit.Must(catalogue.Full().Parse(text))(t)
}

// has returns nil if a server has the commands of a spec.
func has(t *testing.T, rdb *redis.Client, spec strategies.Spec) error {
	t.Helper()
	keys := testkit.Must(market.NewKeys("test:"))(t)
	return spec.CheckServer(t.Context(), rdb, keys)
}
