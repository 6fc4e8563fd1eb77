package strategies_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Two programs spend 80 coins each from one account that holds 100, for
// different items: fine lets them.
func TestFineOverdrawsASharedAccount(t *testing.T) {
	inMarket(t, func(g *fixture) {
		one := step.Hold(step.BeforeWrite)
		other := step.Hold(step.BeforeWrite)
		first := g.held("fine", one, g.offer(0))
		second := g.held("fine", other, g.offer(1))
		one.Open()
		other.Open()

		for _, c := range []<-chan outcome{first, second} {
			if got := <-c; got.err != nil {
				g.Errorf("purchase: %v", got.err)
			}
		}

		if funds := g.funds(buyer); funds != -60 {
			g.Errorf("the account holds %d coins, want -60", funds)
		}

		v := g.audit()
		isOverdrawn := strings.Contains(fmt.Sprint(v.Problems), "overdrawn")
		if v.MoneyProblems != 1 || v.ItemProblems != 0 || !isOverdrawn {
			g.Errorf("audit: %+v; want one overdrawn account", v)
		}
	})
}

// The second program comes as far as its lock, or its write, while the first is
// about to write.
func TestSharedAccountIsProtected(t *testing.T) {
	eachCase(t, map[string]step.Name{
		"watch": step.BeforeWrite, "fine-wallet": step.Waiting, "coarse": step.Waiting,
	}, func(g *fixture, spec string, meets step.Name) {
		one, other := step.Hold(step.BeforeWrite), step.Hold(meets)
		first := g.held(spec, one, g.offer(0))
		second := g.held(spec, other, g.offer(1))
		g.ends("first purchase", one, first, nil)
		g.ends("second purchase", other, second, market.ErrInsufficientFunds)
		g.sound(0, 0)
	})
}

func TestLockedGivesUpInTime(t *testing.T) {
	eachCase(t, map[string]string{ // and the spec of the holder
		"coarse:timeout=50ms": "coarse", "fine:timeout=50ms": "fine",
		"fine-wallet:timeout=50ms": "fine-wallet",
		"fine:tries=2":             "fine", "fine:set-px:write=fused:tries=2": "fine:set-px:write=fused",
	}, func(g *fixture, spec, holder string) {
		order := g.offer(0)
		gate := step.Hold(step.BeforeWrite)
		first := g.held(holder, gate, order)

		r, err := g.worker(spec, nil).purchase(order)
		if !errors.Is(err, market.ErrContended) || r.Retries != 1 || r.Polls == 0 || r.LockHold != 0 {
			g.Errorf("purchase: %+v, %v; want %v after 1 retry and some polls", r, err, market.ErrContended)
		}

		gate.Open()
		if got := <-first; got.err != nil || got.receipt.LockHold == 0 {
			g.Errorf("the holder's purchase: %+v, %v", got.receipt, got.err)
		}

		g.sound(0, 0)
		g.noLocks(holder)
	})
}

// A worker that gets the item's lock but not the account's gives the first one back.
func TestFineWalletTakesBothLocksOrNone(t *testing.T) {
	inMarket(t, func(g *fixture) {
		gate := step.Hold(step.BeforeWrite)
		mine := g.offer(0)
		other := g.offer(1)
		first := g.held("fine-wallet", gate, mine)

		r, err := g.worker("fine-wallet:timeout=0s", nil).purchase(other)
		if !errors.Is(err, market.ErrContended) || r.Retries != 1 {
			g.Errorf("timed out: %d retries, %v; want 1, %v", r.Retries, err, market.ErrContended)
		}

		ctx, cancel := context.WithCancel(g.ctx)
		a := g.worker("fine-wallet", once(step.Waiting, cancel))
		_, err = a.purchaser.Purchase(ctx, other)
		if !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			g.Errorf("cancelled: %v, want %v", err, market.ErrNotSent)
		}

		held := g.conn.Exists(g.ctx, g.keys.Lock("1"), g.keys.Lock("2"), g.keys.Lock("users:2"))
		if n, err := held.Result(); n != 2 {
			g.Errorf("%d locks are held, %v; want the 2 of the first order", n, err)
		}

		gate.Open()
		<-first
		g.noLocks("fine-wallet")
		g.sound(0, 0)
	})
}

// fakeLease is the Locker of one lease, whose release ends in an error, and the context
// of that lease, which notes when it was last asked.
type fakeLease struct {
	lock.Locker
	context.Context
	asked   time.Time
	failure error
}

func (l *fakeLease) Acquire(context.Context, string) (*lock.Lease, error) {
	return &lock.Lease{Noticed: l, Release: func(context.Context) error {
		return l.failure
	}}, nil
}

// Err returns once the clock has moved on.
func (l *fakeLease) Err() error {
	for l.asked = time.Now(); !time.Now().After(l.asked); {
		continue
	}
	return nil
}

// buys makes a purchase with the lease.
func (l *fakeLease) buys(t *testing.T, spec string) (r market.Receipt, holds []lock.Holding) {
	t.Helper()
	g := newFixture(t, testkit.Embedded(t))
	p, _, err := parse(t, spec).Strategy().New(strategies.Env{
		Redis: g.conn.Client, Keys: g.keys, Locker: l,
		Holds: func(h lock.Holding) {
			holds = append(holds, h)
		},
	})
	g.must(err)
	r, err = p.Purchase(g.ctx, g.offer(0))
	g.must(err)
	return r, holds
}

// A worker that learns of no loss counts as the holder until it begins to release. If
// the lease were checked before that, the worker would count as a holder for as long as
// it was suspended in between.
func TestHeldUntilReleasing(t *testing.T) {
	t.Parallel()
	lease := &fakeLease{}
	_, holds := lease.buys(t, "coarse")
	if len(holds) != 1 || holds[0].Noticed || holds[0].Releasing.After(lease.asked) {
		t.Errorf("the lease was checked last at %v; holds: %+v", lease.asked, holds)
	}
}

// A lock that cannot be given back changes no outcome, and is counted. One that
// was lost is not stuck.
func TestFailedReleasesAreCounted(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]int{"coarse": 1, "fine-wallet": 2} {
		for failure, failed := range map[error]int{errors.New("NOPERM"): want, lock.ErrLost: 0} {
			r, _ := (&fakeLease{failure: failure}).buys(t, spec)
			if r.ReleasesFailed != failed || r.LeaseLost != (failed == 0) {
				t.Errorf("%s, and a release fails with %v: %+v; want %d failed releases",
					spec, failure, r, failed)
			}
		}
	}
}

// A refused MULTI says nothing of what comes after it, which the server executes.
func TestRefusedMultiLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	g := newFixture(t, testkit.Local(t))
	_, err := g.open("fine:set-px", restricted(g, "multi"), strategies.Env{}).list(g.listing(0))
	g.unknown(err)
	g.sound(1, 0)
}

// The port of the book's code to Java buys as it is published: ZSCORE, then HGET, each a
// request of its own, and a pipeline without MULTI; it tries for its lock once a second.
func TestJavaPortSendsWhatItPublishes(t *testing.T) {
	inMarket(t, func(g *fixture) {
		spec := parse(g, reference.RowsOf(reference.Jedis)[3].Strategy)
		if spec.String() != "coarse:write=pipeline:read=one-by-one:poll=1s" {
			g.Errorf("the port locks the market as %s", spec)
		}

		sent := g.traffic(spec.String()).sent
		want := [][]string{{"zscore"}, {"hget"}}
		if got := sent[step.Acquired]; !reflect.DeepEqual(got, want) {
			g.Errorf("it reads by %q, want %q", got, want)
		}
		want = [][]string{{"hincrby", "hincrby", "sadd", "zrem"}}
		if got := sent[step.BeforeWrite]; !reflect.DeepEqual(got, want) {
			g.Errorf("it writes by %q, want %q", got, want)
		}
	})
}
