package bench

import (
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// TestRoundTrips: what a purchase costs when nobody is in the way, and that the driver counts neither more nor less. A
// seller lists, and when it has ended a buyer buys.
//
//   - watch: WATCH; ZSCORE; HGET; MULTI, HINCRBY, HINCRBY, SADD, ZREM, EXEC. EXEC ends the watch, so there is no UNWATCH.
//   - unsafe: ZSCORE; HGET; HGET; HSET; HSET; SADD; ZREM.
//   - coarse, fine: SETNX; MULTI, ZSCORE, HGET, EXEC; MULTI and the four writes, EXEC; and the release as printed:
//     WATCH; GET; MULTI, DEL, EXEC.
//   - fine-wallet: a second SETNX and a second release.
func TestRoundTrips(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, want := range []struct {
			strategy             string
			roundTrips, commands float64
		}{
			{"watch", 4, 9}, {"unsafe", 7, 7}, {"coarse", 6, 16}, {"fine", 6, 16}, {"fine-wallet", 10, 22},
		} {
			c := config(t, s, spec(t, want.strategy))
			c.Purchases = 30
			row := inTurn(t, c)
			if row.Bought != 30 || row.Polls != 0 || row.Retries != 0 || row.Gone != 0 {
				t.Errorf("%s: bought %d, polls %d, retries %d, gone %d; want 30 and nobody in the way",
					want.strategy, row.Bought, row.Polls, row.Retries, row.Gone)
			}
			if row.RoundTripsPerPurchase != want.roundTrips || row.CommandsPerPurchase != want.commands {
				t.Errorf("%s: %v round trips and %v commands a purchase, want %v and %v", want.strategy,
					row.RoundTripsPerPurchase, row.CommandsPerPurchase, want.roundTrips, want.commands)
			}
		}
	})
}

// inTurn runs a row of 1x1 in which the buyer starts when the seller has ended.
func inTurn(t *testing.T, c Config) Row {
	t.Helper()
	if _, err := c.seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	crew, err := hire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	seller, buyer := crew.sellers[0], crew.buyers[0]
	first, err := seller.goods.mint(t.Context(), seller.account)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		l := market.Listing{Item: first + market.ItemID(i), Seller: seller.account, Price: 5}
		if _, err := seller.purchaser.List(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	buyer.buy(t.Context())
	if err := crew.close(); err != nil {
		t.Error(err)
	}
	return crew.row(c)
}
