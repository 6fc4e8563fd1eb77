package main

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/masters/masterstest"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestEveryLockTrades runs the market under each lock, with private servers for those that need some.
func TestEveryLockTrades(t *testing.T) {
	backendtest.Local(t) // or there is nothing to run on
	for _, k := range catalogue.Full().Locks {
		t.Run(k.Name, func(t *testing.T) {
			o := marketsim(t, "run", "--backend", "local", "--strategy", "coarse:"+k.Name, "--mix", "2x2",
				"--duration", "150ms", "--warmup", "0s", "--json", "-")
			if strings.Contains(o.stderr, "not available") {
				o.exits(t, exitUsage)
				backendtest.Require(t, string(k.Needs), o.stderr)
			}
			if k.Promises.Exclusive {
				o.exits(t, exitFine)
			}
			res := parse(t, o.stdout)
			if row := res.Rows[0]; row.Bought == 0 || !row.Audit.Done {
				t.Errorf("%d bought, audit %+v", row.Bought, row.Audit)
			}
		})
	}
}

// TestMastersOfOnesOwn runs Redlock on masters that are given, and finds them in the result without their secrets.
func TestMastersOfOnesOwn(t *testing.T) {
	five := masterstest.Start(t, 3)
	var urls []string
	for _, target := range five.Targets() {
		urls = append(urls, target.String())
	}
	o := marketsim(t, "run", "--backend", "local", "--strategy", "fine:redlock", "--mix", "1x1", "--duration", "100ms",
		"--warmup", "0s", "--redlock", strings.Join(urls, ","), "--json", "-").exits(t, exitFine)
	if shown := parse(t, o.stdout).Manifest.Config.LockServers.Redlock; strings.Join(shown, ",") != strings.Join(urls, ",") {
		t.Errorf("the manifest names %v, want %v", shown, urls)
	}
	for i := range urls {
		conn, err := five.Dial(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if left := conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
			t.Errorf("left on master %d: %v", i, left)
		}
	}
}

// TestBrowsersCountTornReads runs readers beside writers, under a lock that keeps them apart.
func TestBrowsersCountTornReads(t *testing.T) {
	o := marketsim(t, "run", "--backend", "embedded", "--strategy", "coarse:rw-safe,fine:rw-safe", "--browsers", "2",
		"--mix", "2x2", "--duration", "300ms", "--warmup", "0s", "--json", "-").exits(t, exitFine)
	for _, row := range parse(t, o.stdout).Rows {
		if row.Browsers != 2 || row.Browsed == 0 || row.TornReads != 0 {
			t.Errorf("%s: %d browsers looked at %d listings, %d torn", row.Strategy, row.Browsers, row.Browsed, row.TornReads)
		}
	}
}

// TestListLocks shows every lock with each of its promises.
func TestListLocks(t *testing.T) {
	o := marketsim(t, "list", "--locks").exits(t, exitFine)
	golden(t, "locks.txt", o.stdout)
	for _, k := range catalogue.Full().Locks {
		o.says(t, k.Name)
	}
	for _, p := range (lock.Promises{}).List() {
		o.says(t, strings.FieldsFunc(p.Name, func(r rune) bool { return r == ' ' || r == '-' })...)
	}
}

// TestLockServersMissing asks for a server that this machine does not have.
func TestLockServersMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, name := range []string{"redlock", "zookeeper"} {
		marketsim(t, "run", "--backend", "embedded", "--strategy", "fine:"+name).exits(t, exitUsage).
			says(t, "servers for the lock "+name, "not available")
	}
}
