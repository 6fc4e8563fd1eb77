package strategies_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// Of two buyers one claims the item; of one account that can pay once, one
// purchase is repaired.
func TestClaimWhileEveryClientLives(t *testing.T) {
	inMarket(t, func(g *fixture) {
		order := g.offer(0)
		another := g.offer(1)
		gate := step.Hold(step.Acquired)
		first := g.held("claim", gate, order)

		if _, err := g.worker("claim", nil).purchase(rival(order)); !errors.Is(err, market.ErrNotListed) {
			g.Errorf("purchase of a claimed item: %v, want %v", err, market.ErrNotListed)
		}

		if _, err := g.worker("claim", nil).purchase(another); err != nil {
			g.Error(err)
		}

		const spent = "the first buyer, who has spent the coins meanwhile"
		g.ends(spent, gate, first, market.ErrInsufficientFunds)
		listings := g.snapshot().Listings
		if _, listed := listings[market.Member(order.Item, seller)]; !listed {
			g.Error("the item is not for sale again")
		}
		g.sound(0, 0)
	})
}
