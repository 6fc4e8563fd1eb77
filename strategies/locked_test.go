package strategies_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Two programs spend 80 coins each from one account that holds 100, for different items: fine lets them.
func TestFineOverdrawsASharedAccount(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		one, other := step.Hold(step.BeforeWrite), step.Hold(step.BeforeWrite)
		first, second := g.held("fine", one, g.offer(0)), g.held("fine", other, g.offer(1))
		one.Open()
		other.Open()
		for _, c := range []<-chan outcome{first, second} {
			if got := <-c; got.err != nil {
				t.Errorf("purchase: %v", got.err)
			}
		}
		if funds := g.funds(buyer); funds != -60 {
			t.Errorf("the account holds %d coins, want -60", funds)
		}
		v := g.audit()
		if v.MoneyProblems != 1 || v.ItemProblems != 0 || !strings.Contains(strings.Join(v.Problems, ""), "overdrawn") {
			t.Errorf("audit: %+v; want one overdrawn account", v)
		}
	})
}

// The second program comes as far as its lock, or its write, while the first is about to write.
func TestSharedAccountIsProtected(t *testing.T) {
	for spec, meets := range map[string]step.Name{"watch": step.BeforeWrite, "fine-wallet": step.Waiting, "coarse": step.Waiting} {
		t.Run(spec, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				one, other := step.Hold(step.BeforeWrite), step.Hold(meets)
				first := g.held(spec, one, g.offer(0))
				second := g.held(spec, other, g.offer(1))
				one.Open()
				if got := <-first; got.err != nil {
					t.Errorf("first purchase: %v", got.err)
				}
				other.Open()
				if got := <-second; !errors.Is(got.err, market.ErrInsufficientFunds) {
					t.Errorf("second purchase: %v, want %v", got.err, market.ErrInsufficientFunds)
				}
				g.sound(0, 0)
			})
		})
	}
}

func TestLockedGivesUpInTime(t *testing.T) {
	for _, c := range []struct{ spec, bound string }{
		{"coarse", "timeout=50ms"}, {"fine", "timeout=50ms"}, {"fine-wallet", "timeout=50ms"},
		{"fine", "tries=2"}, {"fine:set-px:write=fused", "tries=2"},
	} {
		spec := c.spec
		t.Run(spec+":"+c.bound, func(t *testing.T) {
			testkit.Each(t, func(t *testing.T, s *backend.Server) {
				g := newFixture(t, s)
				order := g.offer(0)
				gate := step.Hold(step.BeforeWrite)
				first := g.held(spec, gate, order)
				r, err := g.worker(spec+":"+c.bound, s, nil).purchase(order)
				if !errors.Is(err, market.ErrContended) || r.Retries != 1 || r.Polls == 0 || r.LockHold != 0 {
					t.Errorf("purchase: %+v, %v; want %v after 1 retry and some polls", r, err, market.ErrContended)
				}
				gate.Open()
				if got := <-first; got.err != nil || got.receipt.LockHold == 0 {
					t.Errorf("the holder's purchase: %+v, %v", got.receipt, got.err)
				}
				g.sound(0, 0)
				g.noLocks(spec)
			})
		})
	}
}

// Who gets the item's lock but not the account's gives the first one back.
func TestFineWalletTakesBothLocksOrNone(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		gate := step.Hold(step.BeforeWrite)
		mine, other := g.offer(0), g.offer(1)
		first := g.held("fine-wallet", gate, mine)
		if r, err := g.worker("fine-wallet:timeout=0s", s, nil).purchase(other); !errors.Is(err, market.ErrContended) || r.Retries != 1 {
			t.Errorf("timed out: %d retries, %v; want 1, %v", r.Retries, err, market.ErrContended)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a := g.worker("fine-wallet", s, once(step.Waiting, cancel))
		if _, err := a.purchaser.Purchase(ctx, other); !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v, want %v", err, market.ErrNotSent)
		}
		if n, err := g.conn.Exists(t.Context(), g.keys.Lock("1"), g.keys.Lock("2"), g.keys.Lock("users:2")).Result(); n != 2 {
			t.Errorf("%d locks are held, %v; want the 2 of the first order", n, err)
		}
		gate.Open()
		<-first
		g.noLocks("fine-wallet")
		g.sound(0, 0)
	})
}

// askedLease is a lease that notes when its context was last asked for.
type askedLease struct {
	lock.Lease
	asked time.Time
}

// Context returns once the clock has moved on.
func (l *askedLease) Context() context.Context {
	for l.asked = time.Now(); !time.Now().After(l.asked); {
		continue
	}
	return context.Background()
}

func (*askedLease) Release(context.Context) error { return nil }

// askingLocker hands out one lease.
type askingLocker struct {
	lock.Locker
	lease *askedLease
}

func (l askingLocker) Acquire(context.Context, string) (lock.Lease, error) { return l.lease, nil }

// A worker that learns of no loss counts as the holder until it begins to release. If the lease were checked before
// that, the worker would count as a holder for as long as it was suspended in between.
func TestHeldUntilReleasing(t *testing.T) {
	g := newFixture(t, testkit.Embedded(t))
	var holds []lock.Holding
	lease := &askedLease{}
	p, _, err := parse(t, "coarse").Strategy().New(strategies.Env{
		Redis: g.conn.Client, Keys: g.keys, Locker: askingLocker{lease: lease},
		Holds: func(h lock.Holding) { holds = append(holds, h) },
	})
	g.must(err)
	_, err = p.Purchase(g.ctx, g.offer(0))
	g.must(err)
	if len(holds) != 1 || holds[0].Noticed || holds[0].Releasing.After(lease.asked) {
		t.Errorf("the lease was checked last at %v; holds: %+v", lease.asked, holds)
	}
}

// stuckLocker hands out leases whose release ends in an error.
type stuckLocker struct {
	lock.Locker
	error
}

func (l stuckLocker) Acquire(context.Context, string) (lock.Lease, error) {
	return stuckLease{error: l.error}, nil
}

type stuckLease struct {
	lock.Lease
	error
}

func (stuckLease) Context() context.Context        { return context.Background() }
func (l stuckLease) Release(context.Context) error { return l.error }

// A lock that cannot be given back changes no outcome, and is counted. One that was lost is not stuck.
func TestFailedReleasesAreCounted(t *testing.T) {
	for name, want := range map[string]int{"coarse": 1, "fine-wallet": 2} {
		for failure, failed := range map[error]int{errors.New("NOPERM"): want, lock.ErrLost: 0} {
			g := newFixture(t, testkit.Embedded(t))
			p, _, err := parse(t, name).Strategy().New(strategies.Env{
				Redis: g.conn.Client, Keys: g.keys, Locker: stuckLocker{error: failure},
			})
			g.must(err)
			r, err := p.Purchase(g.ctx, g.offer(0))
			if err != nil || r.ReleasesFailed != failed || r.LeaseLost != (failed == 0) {
				t.Errorf("%s, and a release fails with %v: %+v, %v; want %d failed releases", name, failure, r, err, failed)
			}
		}
	}
}
