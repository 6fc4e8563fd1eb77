//go:build unix

package main

import (
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	dir := t.TempDir()
	c := startChild(t, "run", "--strategy", "watch,fine", "--mix", "2x2", "--duration", "1m", "--warmup", "0s",
		"--redis", s.url(""), "--prefix", "mine:", "--out", dir, "--json", "-")
	s.trading(t, "mine:")
	c.interrupt()
	o := c.end().exits(t, exitInterrupted).says(t,
		"finishing what is in flight; interrupt again to leave at once", "stored in "+dir,
		"marketsim: interrupted: 0 of 2 rows complete; the report holds what was measured")
	if o.took > 10*time.Second {
		t.Errorf("it took %s to stop", o.took)
	}
	s.holds(t)
	for _, res := range []*bench.Result{parse(t, o.stdout), parseFile(t, filepath.Join(dir, resultFile))} {
		if res.Status != bench.Interrupted || len(res.Rows) != 1 {
			t.Fatalf("the result is %s with %d rows, want interrupted with 1", res.Status, len(res.Rows))
		}
		if r := res.Rows[0]; r.Status != bench.Interrupted || !r.Audit.Done || !r.Audit.OK || r.Listed == 0 {
			t.Errorf("the row is not a measured and audited one: %+v", r)
		}
	}
	marketsim(t, "report", dir).exits(t, exitFine).says(t, "INTERRUPTED by the user", "interrupted after")
}

func TestInterruptedReproduction(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "reproduce", "--duration", "1m", "--warmup", "0s", "--redis", s.url(""), "--prefix", "mine:")
	s.trading(t, "mine:")
	c.interrupt()
	c.end().exits(t, exitInterrupted).says(t, "INTERRUPTED by the user", "0 hold, 0 do not, 8 not judged", "not measured")
	s.holds(t)
}

// An operation that waits for a lock that somebody else holds keeps a run from ending at the first Ctrl-C.
func TestInterruptedTwice(t *testing.T) {
	t.Parallel()
	backendtest.Local(t) // the child starts one of its own, or there is nothing to test
	c := startChild(t, "run", "--strategy", "coarse:timeout=10s", "--mix", "1x1", "--duration", "1m", "--warmup", "0s",
		"--backend", "local", "--prefix", "mine:")
	private := privateServer(t, c)
	private.trading(t, "mine:")
	private.block(t, "mine:lock:market")
	c.interrupt()
	c.told("interrupt again to leave at once")
	c.interrupt()
	if o := c.end().exits(t, exitInterrupted).says(t, "left at once"); o.took > 3*time.Second {
		t.Errorf("it took %s to leave at once", o.took)
	}
	eventually(t, "the end of the private server", func() bool {
		conn, err := net.Dial("tcp", private.Target.Addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// A first Ctrl-C waits for the operations in flight, and no longer.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	c := startChild(t, "run", "--strategy", "coarse:timeout=1s", "--mix", "1x1", "--duration", "1m", "--warmup", "0s",
		"--redis", s.url(""), "--prefix", "mine:", "--json", "-")
	s.trading(t, "mine:")
	s.block(t, "mine:lock:market")
	c.interrupt()
	o := c.end().exits(t, exitInterrupted)
	res := parse(t, o.stdout)
	if row := res.Rows[0]; row.Contended == 0 || row.Unknown != 0 || !row.Audit.OK {
		t.Errorf("want operations given up as contended, and none unknown: %+v", row)
	}
	s.holds(t)
}

var setnxCalls = regexp.MustCompile(`cmdstat_setnx:calls=(\d+)`)

// block takes a lock away from everybody and waits until somebody waits for it.
func (e external) block(t testing.TB, key string) {
	t.Helper()
	e.conn.Set(t.Context(), key, "held by somebody else", 0)
	calls := func() int {
		found := setnxCalls.FindStringSubmatch(e.conn.Info(t.Context(), "commandstats").Val())
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := calls()
	eventually(t, "somebody who waits for "+key, func() bool { return calls() > before+10 })
}

var serverAddr = regexp.MustCompile(`redis://(\S+)`)

// privateServer is the server that a child has started for itself.
func privateServer(t *testing.T, c *child) external {
	t.Helper()
	c.told("\n")
	found := serverAddr.FindStringSubmatch(c.told("backend: private "))
	if found == nil {
		t.Fatalf("the child names no server:\n%s", c.stderr.String())
	}
	s := backend.NewServer(backend.KindURL, backend.Target{Network: "tcp", Addr: strings.TrimSpace(found[1])}, "", nil)
	return external{s, backendtest.Dial(t, s)}
}

// A first Ctrl-C ends a rough row at a quiet point, with its audit, even while a fault strikes.
func TestInterruptedChaos(t *testing.T) {
	t.Parallel()
	backendtest.Local(t)
	c := startChild(t, "run", "--strategy", "fine:set-px+watchdog:ttl=10s", "--mix", "2x2", "--chaos-verbose", "--duration", "10m", "--seed", "2")
	c.told("stall of line 1 of 3 for 17.543s") // longer than its TTL
	c.interrupt()
	o := c.end().exits(t, exitInterrupted).says(t, "round 1, ", "audit ok", "interrupted")
	if o.took > 10*time.Second {
		t.Errorf("it took %s to stop", o.took)
	}
	if n := len(regexp.MustCompile(`(?m)^round `).FindAllString(o.stderr, -1)); n != 1 {
		t.Errorf("%d rounds are told", n)
	}
}

// Faults are interrupted while clients are held and stopped.
func TestInterruptedFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, "faults", "--scenario", "crash-half-taken,pause", "--lock", "set-px:poll=2ms,"+
		"set-px,setnx,setnx-expire,fenced,queue,getset,reentrant,set-ex-fixed,set-ex-compare", "--out", dir)
	c.told("/2 crash-half-taken") // and most of the others wait for a TTL
	c.interrupt()
	o := c.end().exits(t, exitInterrupted).says(t, "INTERRUPTED by the user: this is what was found until then",
		"marketsim: interrupted: ", " of 20 findings; the report holds what was found", "stored in "+dir)
	if o.took > 10*time.Second {
		t.Errorf("it took %s to stop", o.took)
	}
	marketsim(t, "report", dir).exits(t, exitFine).says(t, "INTERRUPTED by the user")
}
