package main

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestNewerCommands runs locks by commands that not every server has. On one that lacks them this is a mistake in the
// command line, whose message names the version, and nothing is left behind.
func TestNewerCommands(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	for text, says := range map[string][]string{
		"fine:hash-field":                    {"HSETEX is not available", "needs Redis 8.0 or Valkey 9.0"},
		"fine:set-px:release=delex":          {"DELEX is not available", "needs Redis 8.4"},
		"fine:set-px:release=delifeq":        {"DELIFEQ is not available", "needs Valkey 9.0"},
		"fine-wallet:set-px:take=msetex":     {"MSETEX is not available", "needs Redis 8.4 or Valkey 9.1"},
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

// TestNewerCommandDenied: a command that the server has, and this user may not run, is the environment's fault.
func TestNewerCommandDenied(t *testing.T) {
	t.Parallel()
	for text, command := range map[string]string{"fine:hash-field": "hsetex", "fine:set-px:release=delifeq": "delifeq"} {
		t.Run(command, func(t *testing.T) {
			spec := newerSpec(t, text)
			server := testkit.Newer(t, func(_ context.Context, rdb *redis.Client) error { return has(t, rdb, spec) })
			s := external{server, testkit.Dial(t, server)}
			attempt(t, s.url(""), "--strategy", text).exits(t, exitFine)
			err := s.conn.Do(t.Context(), "acl", "setuser", "limited", "on", ">"+secret, "~*", "&*", "+@all", "-"+command).Err()
			if err != nil {
				t.Fatal(err)
			}
			attempt(t, s.url("limited:"+secret), "--strategy", text).exits(t, exitEnvironment).
				says(t, "ACL SETUSER <user> +"+command)
			s.holds(t)
		})
	}
}

func newerSpec(t *testing.T, text string) strategies.Spec {
	t.Helper()
	spec, err := catalogue.Full().Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// has returns nil if a server has the commands of a spec.
func has(t *testing.T, rdb *redis.Client, spec strategies.Spec) error {
	t.Helper()
	keys, err := market.NewKeys("test:")
	if err != nil {
		t.Fatal(err)
	}
	return spec.CheckServer(t.Context(), rdb, keys)
}
