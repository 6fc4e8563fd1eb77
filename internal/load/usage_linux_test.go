package load

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies"
)

// TestServerCPUIsThatOfTheKernel: the processor time of a server is that of its main
// thread as the kernel counts it.
func TestServerCPUIsThatOfTheKernel(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	conn := testkit.Must(redisconn.To(s.Target).WithReplyTimeout(time.Minute).Dial(t.Context()))(t)
	defer conn.Close()
	m := meter{conn: conn}
	kernel, told := onCPU(t, s.PID()), m.used()
	burn := "local n = 0; for i = 1, 20000000 do n = n + i end; return n"
	testkit.Succeeds(t, m.conn.Eval(t.Context(), burn, nil).Err())
	told, kernel = m.used()-told, onCPU(t, s.PID())-kernel
	if want := kernel.Seconds(); math.Abs(told-want) > 0.02*want+0.005 || want < 0.02 {
		t.Errorf("the server used %.4f s by itself and %.4f s by the kernel, %+.1f%%",
			told, want, 100*(told/want-1))
	}
}

// TestCPUOfPrograms: what the programs of --exec use is the clients', not others', and so is
// what they start and has ended.
func TestCPUOfPrograms(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	// Each operation takes a child of the program 5 ticks, 0.05 s, of processor time.
	const script = `burn() { t=0 s=0; while [ $((t+s)) -lt 5 ]; do
			read -r a b c d e f g h i j k l m t s rest </proc/self/stat; done; }
		while read -r word more; do
			(burn) </dev/null
			[ $word = buy ] && echo gone || echo busy
		done`
	program := program.Strategy("exec:sh", []string{"/bin/sh", "-c", script})
	known := strategies.Catalogue{Strategies: []strategies.Strategy{program}}
	c := config(t, s, testkit.Must(known.Parse("exec:sh"))(t))
	c.Mix = result.Mix{Sellers: 1, Buyers: 2}

	var row result.Row
	var least float64
	// on a busy machine a short row has few operations
	for lasts := 500 * time.Millisecond; lasts < 20*time.Second && least < 0.3; lasts *= 4 {
		c.timed(lasts)
		row = testkit.Must(c.run(t.Context()))(t)
		// Of each worker the last one may have ended after the row.
		least = 0.05 * float64(row.Refused["not_listed"]+row.Refused["contended"]-3)
	}
	if row.ClientCPU == nil || least < 0.3 {
		t.Fatalf("the clients are known to use %v, of which the programs took %.2f s",
			row.ClientCPU, least)
	}
	if *row.ClientCPU < 0.95*least {
		t.Errorf("the clients used %.2f s, of which the programs took %.2f s", *row.ClientCPU, least)
	}

	used := *row.ClientCPU + *row.ServerCPU + *row.OthersCPU
	if all := row.Seconds * float64(row.Cores); used > 1.2*all {
		t.Errorf("clients, server and others used %.2f s of %.2f s: something was counted twice",
			used, all)
	}
}

// onCPU is how long the main thread of a process has run.
func onCPU(t *testing.T, pid int) time.Duration {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%[1]d/schedstat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		testkit.Require(t, "proc", err.Error())
	}
	var ns int64
	if _, err := fmt.Sscan(string(text), &ns); err != nil {
		t.Fatalf("%s holds %q: %v", path, text, err)
	}
	return time.Duration(ns)
}
