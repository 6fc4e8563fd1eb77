package lock_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// A master that hangs costs its time-out, and no more.
func TestRedlockPassesOverAMasterThatHangs(t *testing.T) {
	t.Parallel() // most of it waits
	q := newQuorum(t)
	env := q.env()
	env.Params["node-timeout"] = "1s" // which passes four times
	l := q.open(env)
	if err := q.acquire(l).Release(t.Context()); err != nil {
		t.Error(err)
	}

	for _, i := range []int{1, 2} {
		testkit.Succeeds(t, syscall.Kill(q.nodes[i].PID(), syscall.SIGSTOP))
		// Otherwise Close waits for it.
		t.Cleanup(func() {
			_ = syscall.Kill(q.nodes[i].PID(), syscall.SIGCONT)
		})
	}

	start := time.Now()
	lease := q.acquire(l)
	if took := time.Since(start); took > 10*time.Second { // two connections' own time-outs
		t.Errorf("with two masters stopped it took %s", took)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
