package market_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// Operations of unknown outcome are settled by where their items lie; none is a problem.
var unknowns = []struct {
	name                string
	do                  func(w *world, other *market.Ledger)
	applied, notApplied int64
}{
	{name: "purchase, applied", applied: 1, do: func(w *world, _ *market.Ledger) {
		w.lists(1, 30, nil)
		w.buys(1, 30, errLost)
	}},
	{name: "purchase, not applied", notApplied: 1, do: func(w *world, _ *market.Ledger) {
		w.lists(1, 30, nil)
		w.ledger.Purchased(order(1, 2, 30), errLost)
	}},
	{name: "purchase of what another bought for certain", notApplied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(1, 30, nil)
			w.buys(1, 30, nil)
			other.Purchased(order(1, 3, 30), errLost)
		}},
	{name: "two orders of one item for one wallet", applied: 1, notApplied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(1, 30, nil)
			w.buys(1, 30, errLost)
			other.Purchased(order(1, 2, 30), errLost)
		}},
	{name: "one certain and one unknown order for one wallet", notApplied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(1, 30, nil)
			other.Purchased(order(1, 2, 30), errLost)
			w.buys(1, 30, nil)
		}},
	{name: "listing, applied", applied: 1, do: func(w *world, _ *market.Ledger) {
		w.lists(1, 30, errLost)
	}},
	{name: "listing, not applied", notApplied: 1, do: func(w *world, _ *market.Ledger) {
		w.ledger.Listed(market.Listing{Item: 1, Seller: 1, Price: 30}, errLost)
	}},
	{name: "listing and purchase, both applied", applied: 2, do: func(w *world, _ *market.Ledger) {
		w.lists(1, 30, errLost)
		w.buys(1, 30, errLost)
	}},
	{name: "purchase of a listing that another client made for certain", applied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(1, 30, market.ErrContended) // noted by the other client instead
			other.Listed(market.Listing{Item: 1, Seller: 1, Price: 30}, nil)
			w.buys(1, 30, errLost)
		}},
	{name: "one of two purchases", applied: 1, notApplied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(1, 30, nil)
			other.Purchased(order(1, 3, 30), errLost)
			w.buys(1, 30, errLost)
		}},
	{name: "purchase of what came back to its seller", notApplied: 1,
		do: func(w *world, other *market.Ledger) {
			w.lists(2, 30, nil)
			other.Purchased(order(2, 2, 30), errLost)
			w.round()
		}},
	{name: "listing by a buyer that others went on from", applied: 1,
		do: func(w *world, _ *market.Ledger) {
			w.lists(1, 30, nil)
			w.buys(1, 30, nil)
			w.offers(1, 2, 8, errLost)
			w.sells(market.Order{Item: 1, Seller: 2, Buyer: 3, Price: 8}, nil)
			w.offers(1, 3, 9, nil)
		}},
	{name: "listing by a buyer and the purchase of it", applied: 2,
		do: func(w *world, _ *market.Ledger) {
			w.lists(1, 30, nil)
			w.buys(1, 30, nil)
			w.offers(1, 2, 8, errLost)
			w.sells(market.Order{Item: 1, Seller: 2, Buyer: 3, Price: 8}, errLost)
		}},
	{name: "purchase of what was never minted", notApplied: 1,
		do: func(_ *world, other *market.Ledger) {
			other.Purchased(order(5000, 2, 30), errLost)
		}},
	{name: "mint, present", do: func(w *world, other *market.Ledger) {
		first, err := marketstore.Mint(w.ctx, w.conn, w.keys, 2)
		w.must(err)
		other.Minted(first, 2, errLost)
	}},
	{name: "mint, absent", do: func(w *world, other *market.Ledger) {
		other.Minted(2*market.BatchSize+1, 2, errLost)
	}},
	{name: "mint that reserved nothing", do: func(_ *world, other *market.Ledger) {
		other.Minted(0, 2, errLost)
	}},
}

func TestAuditSettlesUnknownOutcomes(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, u := range unknowns {
			t.Run(u.name, func(t *testing.T) {
				w, other := newWorld(t, s), new(market.Ledger)
				u.do(w, other)
				for range 2 { // an audit changes nothing that the next one needs
					v := w.audit(other)
					if !v.OK() || v.Applied != u.applied || v.NotApplied != u.notApplied {
						t.Errorf("applied %d, not applied %d, problems %q; want %d, %d, none",
							v.Applied, v.NotApplied, v.Problems, u.applied, u.notApplied)
					}
				}
			})
		}
	})
}

// An unsure batch of which something is there was minted, so what is missing of
// it was lost.
func TestAuditFindsItemLostFromUnsureMint(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	first, err := marketstore.Mint(w.ctx, w.conn, w.keys, 2)
	w.must(err)
	w.ledger.Minted(first, 2, errLost)
	w.do("srem", w.keys.Inventory(2), int64(first))
	if v := w.audit(); v.ItemProblems != 1 || v.Items != 3*market.BatchSize-1 {
		t.Errorf("%d problems, %d sound items, want 1 and %d",
			v.ItemProblems, v.Items, 3*market.BatchSize-1)
	}
}

// A refused operation leaves no trace in a ledger, whatever is wrapped with the reason.
func TestLedgerIgnoresWhatWasRefused(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	for _, err := range []error{
		market.ErrNotListed, market.ErrContended, market.ErrRejected, market.ErrNotSent,
	} {
		w.ledger.Purchased(order(1, 2, 30), err)
		w.ledger.Listed(market.Listing{Item: 1, Seller: 1, Price: 30}, err)
	}
	if v := w.audit(); !v.OK() || v.Applied+v.NotApplied != 0 {
		t.Errorf("%+v", v)
	}
}
