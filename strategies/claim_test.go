package strategies_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// Between the claim and the rest the item is nowhere: a client that goes no further leaves it there.
func TestClaimLosesTheItemOfAClientThatDies(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order := g.offer(0)
		var w *worker
		w = g.worker("claim", s, once(step.Acquired, func() { g.must(w.conn.Close()) }))
		_, err := w.purchase(order)
		if err == nil || market.Refused(err) {
			t.Errorf("purchase: %v, want an unknown outcome", err)
		}
		if v := g.audit(); v.ItemProblems != 1 {
			t.Errorf("audit: %+v, want an item that is nowhere", v)
		}
	})
}

// Of two buyers one claims the item; of one account that can pay once, one purchase is repaired.
func TestClaimWhileEveryClientLives(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		g := newFixture(t, s)
		order, another, gate := g.offer(0), g.offer(1), step.Hold(step.Acquired)
		first := g.held("claim", gate, order)
		if _, err := g.worker("claim", s, nil).purchase(rival(order)); !errors.Is(err, market.ErrNotListed) {
			t.Errorf("purchase of a claimed item: %v, want %v", err, market.ErrNotListed)
		}
		if _, err := g.worker("claim", s, nil).purchase(another); err != nil {
			t.Error(err)
		}
		g.ends("the first buyer, who has spent the coins meanwhile", gate, first, market.ErrInsufficientFunds)
		if _, listed := g.snapshot().Listings[market.Member(order.Item, seller)]; !listed {
			t.Error("the item is not for sale again")
		}
		g.sound(0, 0)
	})
}
