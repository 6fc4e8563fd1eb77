package fault

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// nothingLeft starts a runner with a folder for temporary files of its own, and checks
// after the test that no process and no file is left.
func nothingLeft(t *testing.T) *Runner {
	t.Helper()
	before, temporary := children(t), t.TempDir()
	t.Setenv("TMPDIR", temporary)

	t.Cleanup(func() { // after the runner is closed
		if n := children(t) - before; n != 0 {
			t.Errorf("%d child processes are left", n)
		}
		left, err := os.ReadDir(temporary)
		if err != nil || len(left) != 0 {
			t.Errorf("temporary files are left: %v, %v", left, err)
		}
	})

	return startRunner(t)
}

// TestNoServerCanBeStarted: on a machine without Redis, ZooKeeper and etcd, a scenario or
// a lock that needs one is not run, and the reason says so.
func TestNoServerCanBeStarted(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := nothingLeft(t)

	// With a lock in Redis; the others need no server.
	lacking := []Scenario{named(t, "restart-empty"), named(t, "failover")}
	cells := append(cross(lacking, []Scheme{scheme(t, "set-px"), scheme(t, "fenced:fencing=on")}),
		cross(DefaultScenarios(), []Scheme{scheme(t, "redlock"), scheme(t, "zookeeper")})...)

	found, err := r.run(t.Context(), cells, Parallel, nil)
	if err != nil {
		t.Error(err)
	}

	for _, f := range found {
		if f.Verdict != verify.Unavailable && f.Verdict != verify.NotApplicable || f.Why == "" {
			t.Errorf("%s with %s: %s (%s), want not played or not applicable",
				f.Scenario, f.Subject, f.Verdict, f.Why)
		}
	}
}

// TestMarketsServerIsGone: no scenario finds anything on a market that is not there.
func TestMarketsServerIsGone(t *testing.T) {
	r := nothingLeft(t)
	if err := r.Market.Close(); err != nil {
		t.Fatal(err)
	}
	for _, sc := range DefaultScenarios() {
		for _, name := range []string{"set-px", "redlock", "rw-safe"} {
			f, err := r.runCell(t.Context(), cell{sc, scheme(t, name)})
			if err == nil && f.Verdict != verify.NotApplicable {
				t.Errorf("%s with %s: %+v, want an error", sc.Name, name, f)
			}
		}
	}
}

// An interrupted context ends when it was asked for the n-th time whether it has ended:
// wherever that is in a scenario.
type interrupted struct {
	context.Context
	end  context.CancelFunc
	left atomic.Int64
}

func interruptedAt(ctx context.Context, n int64) *interrupted {
	i := &interrupted{}
	i.Context, i.end = context.WithCancel(ctx)
	i.left.Store(n)
	return i
}

func (i *interrupted) Done() <-chan struct{} {
	if i.left.Add(-1) == 0 {
		i.end()
	}
	return i.Context.Done()
}

// TestInterruptedAnywhere: a scenario whose context ends ends too, with that as its error
// or having found something, wherever it was: at one of three places each, the next
// scenario's next, or with MARKETSIM_LONG at all three.
func TestInterruptedAnywhere(t *testing.T) {
	r := nothingLeft(t)
	var running sync.WaitGroup
	var ended atomic.Int64
	slots := make(chan struct{}, 3*Parallel)
	places := []int64{2, 13, 24} // how many times the context has been asked

	interrupt := func(c cell, at int64) {
		defer func() { <-slots }()
		ctx := interruptedAt(t.Context(), at)
		defer ctx.end()
		f, err := r.runCell(ctx, c)
		if !errors.Is(err, context.Canceled) && (err != nil || f.Verdict == "") {
			t.Errorf("%s interrupted at %d: %+v, %v; want context.Canceled or a finding",
				c.scenario.Name, at, f, err)
		}
		if errors.Is(err, context.Canceled) {
			ended.Add(1)
		}
	}

	played := 0
	for i, sc := range DefaultScenarios() {
		c, applies := applicable(t, sc)
		if !applies {
			continue
		}
		for n, at := range places {
			if testkit.Long() || n == i%len(places) {
				played++
				slots <- struct{}{}
				running.Go(func() { interrupt(c, at) })
			}
		}
	}

	running.Wait()
	if n := ended.Load(); n < int64(played/3) {
		t.Errorf("only %d of %d were interrupted", n, played)
	}
	t.Logf("%d of %d were interrupted", ended.Load(), played)
}

// applicable is a scenario with a scheme that it applies to, if one of a few does.
func applicable(t *testing.T, sc Scenario) (c cell, applies bool) {
	t.Helper()
	for _, name := range []string{"set-px", "redlock", "etcd", "rw-safe"} {
		s := scheme(t, name)
		if sc.Applies == nil || sc.Applies(s) == "" {
			return cell{sc, s}, true
		}
	}
	return cell{}, false
}

// TestKept: times that cannot be told apart on this machine are no answer.
func TestKept(t *testing.T) {
	locked, free := Scheme{Lock: lock.Kind{Name: "some"}}, Scheme{}
	for _, c := range []struct {
		scheme        Scheme
		waited, lease time.Duration // since it began to wait, and since the lease began
		in            bool
		want          verify.KeptOut // empty: late
	}{
		{locked, 0, 0, true, verify.AtOnce},
		{locked, TTL / 5, TTL / 2, true, verify.AtOnce},
		{locked, TTL, TTL, true, verify.LeaseRanOut},
		{locked, TTL / 2, TTL * 5 / 4, true, verify.LeaseRanOut},
		{locked, 3 * TTL, 3 * TTL, true, verify.LeaseRanOut},
		{locked, 4 * TTL, 4 * TTL, false, verify.NeverIn},
		{locked, TTL / 2, TTL / 2, true, ""},
		{locked, TTL / 5, TTL, true, ""},
		{free, 0, 0, true, verify.NoLease},
		{free, TTL, TTL, true, ""},
		{free, TTL, TTL, false, verify.NeverIn},
	} {
		s := &setup{scheme: c.scheme, ttl: TTL}
		waiting := &client{op: &operation{began: time.Now().Add(-c.waited), gaveUp: 1}}

		var got verify.KeptOut
		err := guard(func() {
			got = s.classifyWait(waiting, time.Now().Add(-c.lease), c.in)
		})
		if got != c.want || (c.want == "") != errors.Is(err, errLate) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestNeverIsProven: that a client is kept out for good is said where one of its
// orders gave up and the next is kept out too, and how many leases it was kept
// out for is what was measured.
func TestNeverIsProven(t *testing.T) {
	s := &setup{scheme: Scheme{Lock: lock.Kind{Name: "some"}}, ttl: TTL}
	c := &client{op: &operation{began: time.Now().Add(-3 * TTL)}}
	if err := guard(func() {
		s.classifyWait(c, c.op.began, false)
	}); !errors.Is(err, errUnclear) {
		t.Errorf("%v, want errUnclear", err)
	}
	s.classifyWait(c, c.op.began, true)
	if s.leases < 3 || s.leases > 3.2 {
		t.Errorf("%v leases, want 3", s.leases)
	}
}

// TestKeptByAnError: who is told of an error has not got in. An answer of the
// market shows that it has.
func TestKeptByAnError(t *testing.T) {
	for reason, want := range map[string]verify.KeptOut{
		"": verify.OrdersFail, "rejected": verify.OrdersFail,
		"not_sent": verify.OrdersFail, "not_listed": verify.AtOnce,
	} {
		s := &setup{scheme: Scheme{Lock: lock.Kind{Name: "some"}}, ttl: TTL}
		failed := OpResult{Reason: reason, Error: "it failed"}
		c := &client{op: &operation{began: time.Now(), done: true, outcome: failed}}
		if got := s.classifyWait(c, time.Now(), true); got != want {
			t.Errorf("an order that ended with %q: %q, want %q", reason, got, want)
		}
	}
}
