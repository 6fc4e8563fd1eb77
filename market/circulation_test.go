package market_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// ring is a world whose items circulate among its three users. Items 1 and 2 are user 1's, and item 1001 is user 3's.
type ring struct {
	*world
	known *market.Circulation
}

func newRing(t testing.TB, s *backend.Server) ring {
	r := ring{newWorld(t, s), market.NewCirculation(2*market.BatchSize, 3)}
	r.ledger.Circulate(r.known)
	return r
}

// client is the ledger of one more client.
func (r ring) client() *market.Ledger {
	l := market.NewLedger(3)
	l.Circulate(r.known)
	return l
}

// list moves an item from its owner's inventory to the market, and tells the owner so.
func (r ring) list(item market.ItemID, seller market.UserID, price int64) {
	r.Helper()
	r.listed(item, seller, price)
	r.ledger.Listed(market.Listing{Item: item, Seller: seller, Price: price}, nil)
}

func (r ring) listed(item market.ItemID, seller market.UserID, price int64) {
	r.Helper()
	r.do("srem", r.keys.Inventory(seller), int64(item))
	r.do("zadd", r.keys.Market(), price, market.Member(item, seller))
}

// buy moves a listed item to its buyer, and tells the buyer so.
func (r ring) buy(item market.ItemID, seller, buyer market.UserID, price int64) {
	r.Helper()
	r.bought(item, seller, buyer, price)
	r.ledger.Purchased(market.Order{Item: item, Seller: seller, Buyer: buyer, Price: price}, nil)
}

func (r ring) bought(item market.ItemID, seller, buyer market.UserID, price int64) {
	r.Helper()
	r.do("zrem", r.keys.Market(), market.Member(item, seller))
	r.do("sadd", r.keys.Inventory(buyer), int64(item))
	r.pay(buyer, seller, price)
}

// round sells an item from user 1 to 2, to 3, and back to 1, who lists it as before.
func (r ring) round(item market.ItemID) {
	r.Helper()
	r.buy(item, 1, 2, 30)
	r.list(item, 2, 5)
	r.buy(item, 2, 3, 5)
	r.list(item, 3, 7)
	r.buy(item, 3, 1, 7)
	r.list(item, 1, 30)
}

// Items may be sold again and again, from a user to the same user too, and whatever went wrong on the way is found.
func TestAuditOfCirculatingItems(t *testing.T) {
	const notLed = "where the listings and sales that clients were told of do not lead"
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, c := range []struct {
			name         string
			do           func(r ring)
			items, money int64
			says         string
		}{
			{name: "nothing more", do: func(ring) {}},
			{name: "twice round", do: func(r ring) { r.round(1); r.round(1) }},
			{name: "from a user to itself", do: func(r ring) { r.buy(1, 1, 1, 30); r.list(1, 1, 31) }},
			{name: "sold twice", items: 1, says: "item 1 is in two places: inventory:2 and inventory:3", do: func(r ring) {
				r.buy(1, 1, 2, 30)
				r.buy(1, 1, 3, 30)
			}},
			{name: "sold twice, and both bought by one in the end", items: 1, says: "item 1 lies in inventory:3, " + notLed,
				do: func(r ring) {
					r.buy(1, 1, 2, 30)
					r.buy(1, 1, 3, 30)
					r.list(1, 2, 5)
					r.buy(1, 2, 3, 5)
				}},
			{name: "sold twice to one", items: 1, says: "item 1 lies in inventory:2, " + notLed, do: func(r ring) {
				r.buy(1, 1, 2, 30)
				r.pay(2, 1, 30)
				r.ledger.Purchased(order(1, 2, 30), nil)
			}},
			{name: "listed by nobody", items: 1, says: "item 7 lies in market: (seller 1) at 9 coins, " + notLed,
				do: func(r ring) { r.listed(7, 1, 9) }},
			{name: "listed at another price", items: 1, says: "item 1 lies in market: (seller 1) at 29.5 coins, " + notLed,
				do: func(r ring) { r.do("zadd", r.keys.Market(), 29.5, "1.1") }},
			{name: "bought, and listed still", items: 1, says: "item 1 lies in market: (seller 1) at 30 coins, " + notLed,
				do: func(r ring) {
					r.pay(2, 1, 30)
					r.ledger.Purchased(order(1, 2, 30), nil)
				}},
			{name: "nowhere", items: 1, says: "item 1, which user 1 minted, is nowhere",
				do: func(r ring) { r.do("zrem", r.keys.Market(), "1.1") }},
			{name: "never minted", items: 1, says: "item 5000 was traded but never minted",
				do: func(r ring) { r.ledger.Purchased(order(5000, 2, 0), nil) }},
			{name: "a lost coin", money: 1, says: "account of user 2 holds 74 coins, and should hold 75 (-1)",
				do: func(r ring) { r.round(1); r.do("hincrby", r.keys.User(2), "funds", -1) }},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRing(t, s)
				r.list(1, 1, 30)
				r.list(2, 1, 40)
				r.list(1001, 3, 50)
				c.do(r)
				v := r.audit()
				if v.ItemProblems != c.items || v.MoneyProblems != c.money || !strings.Contains(strings.Join(v.Problems, "\n"), c.says) {
					t.Errorf("found %d items and %d accounts, want %d and %d, and %q: %q", v.ItemProblems, v.MoneyProblems, c.items,
						c.money, c.says, v.Problems)
				}
				if v.OK() && v.Items != 2*market.BatchSize {
					t.Errorf("%d items are sound, want %d", v.Items, 2*market.BatchSize)
				}
			})
		}
	})
}

// Operations of unknown outcome are settled by where the item lies after all that is known.
func TestAuditSettlesCirculatingItems(t *testing.T) {
	for _, c := range []struct {
		name                string
		do                  func(r ring, other, third *market.Ledger)
		applied, notApplied int64
	}{
		{name: "purchase, applied", applied: 1, do: func(r ring, other, _ *market.Ledger) {
			r.bought(1, 1, 2, 30)
			other.Purchased(order(1, 2, 30), errLost)
		}},
		{name: "purchase, not applied", notApplied: 1, do: func(_ ring, other, _ *market.Ledger) {
			other.Purchased(order(1, 2, 30), errLost)
		}},
		{name: "one of two purchases", applied: 1, notApplied: 1, do: func(r ring, other, third *market.Ledger) {
			third.Purchased(order(1, 3, 30), errLost)
			r.bought(1, 1, 2, 30)
			other.Purchased(order(1, 2, 30), errLost)
		}},
		{name: "purchase of what came back to its seller", notApplied: 1, do: func(r ring, other, _ *market.Ledger) {
			other.Purchased(order(1, 2, 30), errLost)
			r.round(1)
		}},
		{name: "listing, applied", applied: 1, do: func(r ring, other, _ *market.Ledger) {
			r.buy(1, 1, 2, 30)
			r.listed(1, 2, 8)
			other.Listed(market.Listing{Item: 1, Seller: 2, Price: 8}, errLost)
		}},
		{name: "listing, not applied", notApplied: 1, do: func(r ring, other, _ *market.Ledger) {
			r.buy(1, 1, 2, 30)
			other.Listed(market.Listing{Item: 1, Seller: 2, Price: 8}, errLost)
		}},
		{name: "listing that others went on from", applied: 1, do: func(r ring, other, _ *market.Ledger) {
			r.buy(1, 1, 2, 30)
			r.listed(1, 2, 8)
			other.Listed(market.Listing{Item: 1, Seller: 2, Price: 8}, errLost)
			r.buy(1, 2, 3, 8)
			r.list(1, 3, 9)
		}},
		{name: "listing that another bought, all lost", applied: 2, do: func(r ring, other, third *market.Ledger) {
			r.buy(1, 1, 2, 30)
			r.listed(1, 2, 8)
			other.Listed(market.Listing{Item: 1, Seller: 2, Price: 8}, errLost)
			r.bought(1, 2, 3, 8)
			third.Purchased(market.Order{Item: 1, Seller: 2, Buyer: 3, Price: 8}, errLost)
		}},
		{name: "of an item that was never minted", notApplied: 1, do: func(_ ring, other, _ *market.Ledger) {
			other.Purchased(order(5000, 2, 30), errLost)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRing(t, testkit.Embedded(t))
			r.list(1, 1, 30)
			other, third := r.client(), r.client()
			c.do(r, other, third)
			for range 2 { // an audit changes nothing that the next one needs
				v := r.audit(other, third)
				if !v.OK() || v.Applied != c.applied || v.NotApplied != c.notApplied {
					t.Errorf("applied %d, not applied %d, problems %q; want %d, %d, none", v.Applied, v.NotApplied, v.Problems,
						c.applied, c.notApplied)
				}
			}
		})
	}
}
