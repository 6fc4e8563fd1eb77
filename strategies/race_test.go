package strategies_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/step"
)

// Two programs spend 80 coins each from one account that holds 100, for different items: fine lets them.
func TestFineOverdrawsASharedAccount(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		g := newStage(t, s)
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
			backendtest.Each(t, func(t *testing.T, s *backend.Server) {
				g := newStage(t, s)
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

// Two buyers who both decided to buy one item: unsafe sells it to both, and one payment is lost.
func TestUnsafeSellsTwiceAndLosesCoins(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		g := newStage(t, s)
		order := g.offer(0)
		rival := order
		rival.Buyer = 3
		one, other := step.Hold(step.BeforeWrite), step.Hold(step.BeforeWrite)
		first, second := g.held("unsafe", one, order), g.held("unsafe", other, rival)
		one.Open()
		if got := <-first; got.err != nil {
			t.Fatal(got.err)
		}
		other.Open()
		if got := <-second; got.err != nil {
			t.Fatal(got.err)
		}
		if funds := g.funds(seller); funds != 180 {
			t.Errorf("the seller holds %d coins, want 180: paid once for two sales", funds)
		}
		v := g.audit()
		if v.ItemProblems != 1 || v.MoneyProblems != 1 || !strings.Contains(strings.Join(v.Problems, ""), "sold twice") {
			t.Errorf("audit: %+v; want an item sold twice and one wrong account", v)
		}
	})
}

func TestLockedGivesUpInTime(t *testing.T) {
	for _, spec := range []string{"coarse", "fine", "fine-wallet"} {
		t.Run(spec, func(t *testing.T) {
			backendtest.Each(t, func(t *testing.T, s *backend.Server) {
				g := newStage(t, s)
				order := g.offer(0)
				gate := step.Hold(step.BeforeWrite)
				first := g.held(spec, gate, order)
				r, err := g.actor(spec+":timeout=50ms", s, nil).purchase(order)
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
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		g := newStage(t, s)
		gate := step.Hold(step.BeforeWrite)
		mine, other := g.offer(0), g.offer(1)
		first := g.held("fine-wallet", gate, mine)
		if r, err := g.actor("fine-wallet:timeout=0s", s, nil).purchase(other); !errors.Is(err, market.ErrContended) || r.Retries != 1 {
			t.Errorf("timed out: %d retries, %v; want 1, %v", r.Retries, err, market.ErrContended)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a := g.actor("fine-wallet", s, once(step.Waiting, cancel))
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
