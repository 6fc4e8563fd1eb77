package bench

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// TestServerCPUIsThatOfTheKernel: the CPU time that a row tells of its server is that of the server's main thread as
// the kernel counts it, within 2%. Work before and after the row is the difference that is allowed besides.
func TestServerCPUIsThatOfTheKernel(t *testing.T) {
	const row, outside = 2 * time.Second, 5 * time.Millisecond
	s := testkit.Local(t)
	c := config(t, s, spec(t, "fine"))
	c.Mix, c.Purchases, c.Duration = mix5x5, 0, row
	workers := connected(t, c)
	defer workers.Close()
	m := newMeasurement(workers)
	before := onCPU(t, s.PID())
	m.work(t.Context())
	want := (onCPU(t, s.PID()) - before).Seconds()
	r := m.row()
	if r.Bought == 0 || r.Cost.ServerUS == nil {
		t.Fatalf("bought %d, cost %+v", r.Bought, r.Cost)
	}
	got := *r.Cost.ServerUS * float64(r.Bought) / 1e6
	t.Logf("%d purchases, server %.4f s by the row and %.4f s by the kernel: %+.2f%%", r.Bought, got, want,
		100*(got/want-1))
	if math.Abs(got-want) > 0.02*want+outside.Seconds() {
		t.Errorf("the server used %.4f s by the row and %.4f s by the kernel, %+.1f%%", got, want, 100*(got/want-1))
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
