package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestEveryLockTrades runs the market under each lock, with private servers for
// those that need some: with MARKETSIM_LONG only.
func TestEveryLockTrades(t *testing.T) {
	t.Parallel()
	if !testkit.Long() {
		t.Skip("starts every server, and trades under 40 locks: set MARKETSIM_LONG")
	}

	testkit.Local(t) // or there is nothing to run on
	type group struct {
		needs     lock.Need
		exclusive bool
	}
	params := map[lock.Need]string{
		lock.NeedsMasters: ":node-timeout=2.5s", // a busy machine is slow
		lock.NeedsEtcd:    ":timeout=2s",        // the rehearsal waits for all of it
	}

	groups := map[group][]string{}
	for _, k := range catalogue.Full().Locks {
		if len(k.NewerCommands(nil)) > 0 { // see TestNewerCommands
			continue
		}
		g := group{k.Needs, k.Promises.Exclusive}
		groups[g] = append(groups[g], "coarse:"+k.Name+params[k.Needs])
	}

	for g, specs := range groups {
		t.Run(fmt.Sprintf("needs %q, exclusive %t", g.needs, g.exclusive), func(t *testing.T) {
			t.Parallel()
			trade := func(duration string, specs ...string) outcome {
				return marketsim(t, "run", "--backend", "local",
					"--strategy", strings.Join(specs, ","), "--mix", "2x2",
					"--duration", duration, "--warmup", "0s", "--format", "json")
			}

			o := trade("50ms", specs...)
			if strings.Contains(o.stderr, "not available") {
				o.exits(t, exitUsage)
				testkit.Require(t, string(g.needs), o.stderr)
			}
			if g.exclusive {
				o.exits(t, exitFine)
			}

			res := parse(t, o.stdout)
			if len(res.Rows) != len(specs) {
				t.Errorf("%d rows, want %d:\n%s", len(res.Rows), len(specs), o.stderr)
			}
			for _, row := range res.Rows {
				for _, longer := range []string{"500ms", "5s"} { // on a busy machine
					if row.Bought == 0 {
						row = parse(t, trade(longer, row.Strategy).stdout).Rows[0]
					}
				}
				if row.Bought == 0 || !row.Audit.Done {
					t.Errorf("%s: %d bought, audit %+v", row.Strategy, row.Bought, row.Audit)
				}
			}
		})
	}
}

// TestMastersOfOnesOwn runs Redlock on masters that are given, and finds them in the
// result without their secrets.
func TestMastersOfOnesOwn(t *testing.T) {
	t.Parallel()
	five := serverstest.Masters(t, 3)
	var urls, shown []string
	for _, target := range five.Targets() {
		urls = append(urls, "redis://:"+target.Password+"@"+target.Addr)
		shown = append(shown, target.String())
	}

	o := marketsim(t, "run", "--backend", "local",
		"--strategy", "fine:redlock:node-timeout=2.5s", "--mix", "1x1",
		"--duration", "100ms", "--warmup", "0s",
		"--redlock", strings.Join(urls, ","), "--format", "json").
		exits(t, exitFine)
	stored := parse(t, o.stdout).Manifest.Config.LockServers["redlock"]
	if stored != strings.Join(shown, ",") {
		t.Errorf("the manifest names %v, want %v", shown, urls)
	}

	for i := range urls {
		conn := testkit.Must(five[i].Dial(t.Context()))(t)
		defer conn.Close()
		// A release that did not reach a master in time, on a busy machine, is made good
		// by the end of the lease.
		eventually(t, "an empty master", func() bool {
			return len(conn.Keys(t.Context(), "*").Val()) == 0
		})
	}
}

// TestLockServersMissing asks for a server that this machine does not have.
func TestLockServersMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"redlock", "zookeeper", "etcd"} {
		marketsim(t, "run", "--backend", "embedded", "--strategy", "fine:"+name).exits(t, exitUsage).
			says(t, "servers for the lock "+name, "not available")
	}
}
