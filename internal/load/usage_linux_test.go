package load

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
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
		t.Errorf("the server used %.4f s by itself and %.4f s by the kernel, %+.1f%%", told, want, 100*(told/want-1))
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
