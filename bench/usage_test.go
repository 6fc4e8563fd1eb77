package bench

import (
	"math"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

// TestSaturated: two cores that client and server share, unless said otherwise.
func TestSaturated(t *testing.T) {
	for _, c := range []struct {
		name string
		load load
		want bool
	}{
		{"cores to spare", load{clientCores: 0.9, serverCores: 0.5}, false},
		{"cores used up, most by the client", load{clientCores: 1.25, serverCores: 0.6}, true},
		{"cores used up, the server at its limit", load{clientCores: 1.05, serverCores: 0.95}, false},
		{"cores used up by aborts", load{clientCores: 1.25, serverCores: 0.6, contended: 0.9}, false},
		{"one core of two may be used, and is", load{clientCores: 0.95, serverCores: 0.5, mayUse: 1}, true},
		{"others use the cores", load{clientCores: 0.5, serverCores: 0.3, waiting: 0.6}, true},
		{"cores used up, most by several servers", load{clientCores: 0.7, serverCores: 0.35, otherServers: 0.9}, true},
		{"several servers, and cores to spare", load{clientCores: 0.5, serverCores: 0.35, otherServers: 0.7}, false},
		{"eight cores", load{clientCores: 1.9, serverCores: 0.6, machine: 8, mayUse: 8}, false},
		{"eight cores used up", load{clientCores: 6.9, serverCores: 0.6, machine: 8, mayUse: 8}, true},
	} {
		l := c.load
		if l.machine == 0 {
			l.machine = 2
		}
		if l.mayUse == 0 {
			l.mayUse = l.machine
		}
		l.here, l.serverKnown = true, true
		if l.saturated() != c.want {
			t.Errorf("%s: %t, want %t", c.name, !c.want, c.want)
		}
		if l.serverKnown = false; l.saturated() {
			t.Errorf("%s: judged without the server's CPU time", c.name)
		}
	}
	far := load{clientCores: 1.25, serverCores: 0.6, machine: 2, mayUse: 2, serverKnown: true}
	if far.saturated() {
		t.Error("the cores of another machine's server count as ours")
	}
	far.clientCores = 1.9
	if far.serverKnown = false; !far.saturated() {
		t.Error("a client without a core to spare is not the limit, because a server far away does not tell its CPU time")
	}
}

func TestWaited(t *testing.T) {
	buckets := []float64{math.Inf(-1), 1, 2, 4, math.Inf(1)}
	before := &metrics.Float64Histogram{Counts: []uint64{5, 0, 7, 0}, Buckets: buckets}
	for _, c := range []struct {
		added     []uint64
		mean, p99 float64
	}{
		{[]uint64{0, 0, 0, 0}, 0, 0},
		{[]uint64{0, 100, 0, 0}, 1.5, 2},
		{[]uint64{99, 0, 1, 0}, (99*0.5 + 3) / 100, 1}, // one of 100 is above the 99th percentile
		{[]uint64{98, 0, 2, 0}, (98*0.5 + 2*3) / 100, 4},
		{[]uint64{0, 0, 0, 1}, 4, 4},
	} {
		now := &metrics.Float64Histogram{Counts: make([]uint64, 4), Buckets: buckets}
		for i, n := range c.added {
			now.Counts[i] = before.Counts[i] + n
		}
		if mean, p99 := waited(now, before); math.Abs(mean-c.mean) > 1e-12 || p99 != c.p99 {
			t.Errorf("%v: mean %v, p99 %v, want %v and %v", c.added, mean, p99, c.mean, c.p99)
		}
	}
}

// TestServerUsage: what a server used in between is known, by command, unless it does not say so or began anew.
func TestServerUsage(t *testing.T) {
	s := testkit.Local(t)
	u := openUsage(t.Context(), s.Dial)
	defer u.close()
	before := u.server()
	script := "local n = 0; for i = 1, 200000 do n = n + i end; return redis.call('INCR', KEYS[1])"
	if err := u.conn.Eval(t.Context(), script, []string{"counter"}).Err(); err != nil {
		t.Fatal(err)
	}
	after := u.server()
	got := after.sub(before)
	if !got.known || got.user+got.sys <= 0 || got.commands["eval"] < got.commands["incr"] || got.commands["incr"] <= 0 ||
		len(got.commands) != 2 {
		t.Errorf("%+v; want CPU time, and that of EVAL and its INCR", got)
	}
	if !u.here {
		t.Error("the server is on this machine")
	}
	if before.sub(after).known {
		t.Error("a server whose CPU time went back was started again")
	}
	e := openUsage(t.Context(), testkit.Embedded(t).Dial)
	defer e.close()
	if e.server().known || (usageReader{}).server().known {
		t.Error("there is no such server, or it does not say")
	}
}

// TestClientUsage: a second of work on one core is found, and so is what the runtime says.
func TestClientUsage(t *testing.T) {
	before := readClient()
	for start := time.Now(); readClient().cpu-before.cpu < 0.1; {
		if time.Since(start) > time.Minute {
			t.Fatal("a minute of work took less than 100 ms of CPU time")
		}
	}
	u := readClient().sub(before)
	if u.cpu < 0.1 || u.share <= 0 || u.share > 1 || u.gc < 0 || u.gc > 1 || u.seconds < u.cpu/u.cores-1e-9 {
		t.Errorf("%+v", u)
	}
}

// TestUsageInARow: a row on a server that tells has all of it, and one on miniredis what this process knows.
func TestUsageInARow(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		c := config(t, s, spec(t, "fine"))
		c.Purchases = 300
		row, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if row.Client == nil || row.Client.CPU <= 0 || row.Cost.ClientUS == nil {
			t.Errorf("client %+v, %v us", row.Client, row.Cost.ClientUS)
		}
		cost := row.Cost
		if known := s.Name == backend.NameLocal; (cost.ServerUS != nil) != known || (cost.Commands != nil) != known {
			t.Fatalf("server %v, commands %v", cost.ServerUS, cost.Commands)
		}
		if cost.ServerUS != nil && (*cost.ServerUS <= 0 ||
			math.Abs(*cost.ServerUserUS+*cost.ServerSysUS-*cost.ServerUS) > 1e-6 || cost.Commands["zrem"] <= 0 || cost.Commands["exec"] <= 0) {
			t.Errorf("server %v = %v + %v us, of commands %v", *cost.ServerUS, *cost.ServerUserUS, *cost.ServerSysUS,
				cost.Commands)
		}
		if strings.Contains(strings.Join(row.Warnings, "\n"), "limit") != row.Client.Saturated {
			t.Errorf("saturated %t, warnings %q", row.Client.Saturated, row.Warnings)
		}
	})
}
