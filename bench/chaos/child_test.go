package chaos

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// pausable skips where no process can be paused.
func pausable(t *testing.T) {
	t.Helper()
	if !backend.CanPause {
		testkit.Require(t, "signals", "this operating system cannot pause a process")
	}
}

// TestProcessPauseEndsRenewedLeases: a lock that is renewed in the background outlives the pause of its holder, but not
// that of the holder's process.
func TestProcessPauseEndsRenewedLeases(t *testing.T) {
	pausable(t)
	for _, lock := range []string{"coarse:set-px+watchdog", "coarse:redisson"} {
		for kind, ends := range map[FaultKind]int64{ClientPause: 0, ProcessPause: 1} {
			t.Run(lock+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				// A busy machine may stop for as long as a short lease lasts, and end it. A longer one is tried then.
				for ttl := 500 * time.Millisecond; ; ttl *= 4 {
					c := pausedFor(t, lock, kind, ttl)
					if *c.LeasesOutlasted == ends && *c.LeasesLost == ends && c.Faults[string(kind)] == 1 {
						if untested := strings.Contains(strings.Join(c.NotTested, "; "), "the end of a lease"); untested != (ends == 0) {
							t.Errorf("not tested is %q", c.NotTested)
						}
						return
					}
					if ttl > 5*time.Second {
						t.Fatalf("%d leases of %s outlasted and %d lost, want %d each; struck are %v",
							*c.LeasesOutlasted, ttl, *c.LeasesLost, ends, c.Faults)
					}
				}
			})
		}
	}
}

// pausedFor runs a row under a pause of two leases.
func pausedFor(t *testing.T, lock string, kind FaultKind, ttl time.Duration) *result.Chaos {
	t.Helper()
	s, spec := open(t), lock+":ttl="+ttl.String()
	f := Fault{Kind: kind, Step: step.BeforeWrite, Length: 2 * ttl}
	row, err := s.Run(t.Context(), config(t, s, spec, result.Mix{Sellers: 2, Buyers: 4}), Options{
		Schedule: Schedule{{Faults: []Fault{f}, Rest: ttl}}, Expiry: parse(t, spec).Expiry(), Child: true, Patience: soon,
	})
	if err != nil || !row.Audit.Done || row.Bought == 0 {
		t.Fatalf("%v, %+v", err, row)
	}
	return row.Chaos
}

// TestOneBuyerHasNoChild: what cannot be paused whole is told as not tested, and not as a run that was too short.
func TestOneBuyerHasNoChild(t *testing.T) {
	const spec = "coarse:set-px+watchdog:ttl=50ms"
	s := open(t)
	row, err := s.Run(t.Context(), config(t, s, spec, result.Mix{Sellers: 2, Buyers: 1}), Options{
		Schedule: Schedule{{Faults: []Fault{
			{Kind: ProcessPause, Step: step.BeforeWrite, Length: time.Second},
			{Kind: ClientPause, Step: step.BeforeWrite, Length: 10 * time.Millisecond},
		}}},
		Expiry: parse(t, spec).Expiry(), Child: true,
	})
	if err != nil || row.Chaos.Faults[string(ProcessPause)] != 0 {
		t.Fatalf("%v, %+v", err, row.Chaos)
	}
	if untested := strings.Join(row.Chaos.NotTested, "; "); !strings.Contains(untested, "no worker has a process") {
		t.Errorf("not tested is %q", untested)
	}
}

// startedChild is a child of a row, and a buyer's Purchaser in it.
func startedChild(t *testing.T, spec string, holds func(lock.Holding)) (*remote, market.Purchaser) {
	t.Helper()
	s := open(t)
	subject := parse(t, spec)
	c := bench.Config{Subject: subject, Keys: testkit.Keys(t)}
	r, err := s.startChild(c, servers.Addresses{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := s.Direct(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p, closer, err := r.opener(subject)(bench.Buyer, 1, conn, strategies.Env{Holds: holds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closer.Close() })
	return r, p
}

// TestChildAnswers: the class of an error, the holdings and their times come through.
func TestChildAnswers(t *testing.T) {
	var held []lock.Holding
	_, p := startedChild(t, "coarse:fenced", func(h lock.Holding) { held = append(held, h) })
	start := time.Now()
	receipt, err := p.Purchase(t.Context(), market.Order{Item: 1, Seller: 1, Buyer: 2, Price: 3})
	if !errors.Is(err, market.ErrNotListed) || receipt.LockHold <= 0 {
		t.Errorf("got %+v, %v", receipt, err)
	}
	if len(held) != 1 || held[0].Fence != 1 || held[0].Called.Before(start) || held[0].Released.After(time.Now()) ||
		!held[0].Acquired.Before(held[0].Released) {
		t.Errorf("held are %+v", held)
	}
	if _, err := p.List(t.Context(), market.Listing{Item: 1, Seller: 1, Price: 3}); !errors.Is(err, market.ErrNotOwned) {
		t.Errorf("a seller is told %v", err)
	}
}

// TestChildOperationIsCut: an operation whose context ends while it is held ends, and is not taken for applied.
func TestChildOperationIsCut(t *testing.T) {
	r, p := startedChild(t, "coarse:set-px", nil)
	reached, free, err := r.hold(step.Acquired)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	told := make(chan error)
	go func() {
		_, err := p.Purchase(ctx, market.Order{Item: 1, Seller: 1, Buyer: 2, Price: 3})
		told <- err
	}()
	<-reached
	cut()
	if err := <-told; err == nil {
		t.Error("it is told that it was applied")
	}
	if err := free(); err != nil {
		t.Error(err)
	}
}

// TestDeadChild: what became of an operation under way is unknown, and nothing is sent any more.
func TestDeadChild(t *testing.T) {
	r, p := startedChild(t, "coarse:set-px", nil)
	reached, _, err := r.hold(step.Acquired)
	if err != nil {
		t.Fatal(err)
	}
	buy := func() error {
		_, err := p.Purchase(t.Context(), market.Order{Item: 1, Seller: 1, Buyer: 2, Price: 3})
		return err
	}
	told := make(chan error)
	go func() { told <- buy() }()
	<-reached
	if err := errors.Join(r.gone(), r.close()); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err == nil || market.Refused(err) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("under way it is told %v", err)
	}
	if err := buy(); !errors.Is(err, market.ErrNotSent) {
		t.Errorf("afterwards it is told %v", err)
	}
	if r.gone() == nil {
		t.Error("nobody is told that it has ended")
	}
}

// TestRowWithADeadChild: a child that ends is a failure of the environment.
func TestRowWithADeadChild(t *testing.T) {
	n := newNemesis(nil, Options{Schedule: Schedule{{Faults: []Fault{{Kind: ProcessPause, Step: step.Read}}}}})
	n.child, _ = startedChild(t, "watch", nil)
	if err := n.child.close(); err != nil {
		t.Fatal(err)
	}
	if err := n.strikeRound(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v", err)
	}
}

// TestServeRefuses: a child says why it cannot work.
func TestServeRefuses(t *testing.T) {
	errNobody := errors.New("nobody of that name")
	for says, in := range map[string]string{
		"read the configuration": "hello", errNobody.Error(): `{"Subject":"x"}`,
	} {
		err := serve(strings.NewReader(in), &bytes.Buffer{}, func(string) (bench.Subject, error) { return nil, errNobody })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: it says %v", in, err)
		}
	}
}
