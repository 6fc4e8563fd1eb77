package market_test

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

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

// Where items share sums, an audit tells sound markets from others as one does that has each client's own account of each
// item, and settles as many operations of unknown outcome, whatever was traded and whatever went wrong.
func TestAuditOfSharedSums(t *testing.T) {
	s := testkit.Embedded(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, s)
		known, circulating := market.NewSharedCirculation(market.MaxItems, 3, rapid.IntRange(1, 50).Draw(rt, "sums")), market.NewLedger(3)
		circulating.Circulate(known)
		for i, owner := range []market.UserID{1, 3} {
			circulating.Minted(market.ItemID(1+i*market.BatchSize), owner, nil)
		}
		lost := 0
		outcome := func(label string) (err error, applied bool) {
			if lost == 3 { // all of them may belong to one sum
				return nil, true
			}
			switch rapid.SampledFrom([]string{"applied", "applied", "applied", "lost", "lost, applied"}).Draw(rt, label) {
			case "lost":
				return errLost, false
			case "lost, applied":
				lost++
				return errLost, true
			}
			return nil, true
		}
		var listed []market.ItemID // at rest, as far as is known
		items := rapid.SliceOfNDistinct(rapid.IntRange(1, market.BatchSize), 0, 12, rapid.ID[int]).Draw(rt, "items")
		for _, item := range items {
			id, price := market.ItemID(item), rapid.Int64Range(1, 3).Draw(rt, "price")
			err, applied := outcome("listing")
			if applied {
				w.lists(id, price, err)
			} else {
				w.ledger.Listed(market.Listing{Item: id, Seller: 1, Price: price}, err)
			}
			circulating.Listed(market.Listing{Item: id, Seller: 1, Price: price}, err)
			if err != nil || rapid.Bool().Draw(rt, "stays") {
				if applied {
					listed = append(listed, id)
				}
				continue
			}
			if err, applied = outcome("purchase"); applied {
				w.buys(id, price, err)
			} else {
				w.ledger.Purchased(order(id, 2, price), err)
			}
			circulating.Purchased(order(id, 2, price), err)
		}
		item := market.ItemID(rapid.IntRange(1, market.BatchSize).Draw(rt, "damaged"))
		switch rapid.SampledFrom([]string{"none", "none", "moved", "vanished", "swapped", "price", "coin", "twice"}).Draw(rt, "damage") {
		case "moved":
			w.do("smove", w.keys.Inventory(1), w.keys.Inventory(3), int64(item))
		case "vanished":
			w.do("srem", w.keys.Inventory(1), int64(item))
		case "swapped":
			w.do("smove", w.keys.Inventory(1), w.keys.Inventory(3), 1)
			w.do("smove", w.keys.Inventory(3), w.keys.Inventory(1), 1001)
		case "price":
			if len(listed) > 0 {
				w.do("zincrby", w.keys.Market(), 0.5, market.Member(listed[0], 1))
			}
		case "coin":
			w.do("hincrby", w.keys.User(2), "funds", -1)
		case "twice":
			w.ledger.Purchased(order(item, 3, 0), nil)
			circulating.Purchased(order(item, 3, 0), nil)
		}
		want := w.audit()
		got, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, circulating)
		if err != nil {
			rt.Fatal(err)
		}
		if got.OK() != want.OK() || want.ItemProblems == 0 && got.MoneyProblems != want.MoneyProblems {
			rt.Fatalf("found %+v, want %+v", got, want)
		}
		if want.OK() && !reflect.DeepEqual(got, want) {
			rt.Errorf("found %+v, want %+v", got, want)
		}
	})
}

// An audit names the items that share a sum if it cannot tell which of them went wrong, and those that it can.
func TestAuditNamesSharedSum(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(r ring)
	}{
		{
			"sold twice to one", "one or more of the 20 items whose number leaves 1 when divided by 100 lie where the listings and sales",
			func(r ring) { r.buy(1, 1, 2, 30); r.ledger.Purchased(order(1, 2, 0), nil) },
		},
		{"nowhere", "item 1, which user 1 minted, is nowhere", func(r ring) { r.do("zrem", r.keys.Market(), "1.1") }},
		{"never minted", "one or more of the 20 items whose number leaves 0 when divided by 100 lie where the listings and sales",
			func(r ring) { r.ledger.Purchased(order(5000, 2, 0), nil) }},
		{"no item", "item 0 was traded but never minted", func(r ring) { r.ledger.Purchased(order(0, 2, 0), nil) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ring{newWorld(t, testkit.Embedded(t)), market.NewSharedCirculation(market.MaxItems, 3, 100)}
			r.ledger.Circulate(r.known)
			r.list(1, 1, 30)
			c.do(r)
			v := r.audit()
			if v.ItemProblems != 1 || v.MoneyProblems != 0 || !strings.HasPrefix(v.Problems[0], c.want) {
				t.Errorf("found %+v, want %q", v, c.want)
			}
		})
	}
}

// Clients in several processes have a circulation each, and an audit adds them up.
func TestAuditAddsCirculations(t *testing.T) {
	r := newRing(t, testkit.Embedded(t))
	other := market.NewLedger(3)
	other.Circulate(market.NewCirculation(2*market.BatchSize, 3))
	r.list(1, 1, 30)
	r.bought(1, 1, 2, 30)
	other.Purchased(order(1, 2, 30), nil)
	if v := r.audit(other); !v.OK() || v.Items != 2*market.BatchSize {
		t.Errorf("found %+v", v)
	}
	if v := r.audit(); v.ItemProblems != 1 || v.MoneyProblems != 2 {
		t.Errorf("without what the other client knows: %+v", v)
	}
}

// A ledger that circulates does not grow with what it notes: neither with items that are sold again and again, nor with new
// ones, but by 24 bytes for each batch of these.
func TestCirculatingLedgerDoesNotGrow(t *testing.T) {
	const accounts, items = 1000, 3_000_000
	l := market.NewLedger(accounts)
	l.Circulate(market.NewCirculation(market.MaxItems, accounts))
	l.Minted(1, 1, nil)
	x, o := market.Listing{Item: 1, Seller: 1, Price: 30}, order(1, 2, 30)
	if n := testing.AllocsPerRun(1000, func() { l.Listed(x, nil); l.Purchased(o, nil) }); n != 0 {
		t.Errorf("%v allocations for a listing and a purchase", n)
	}
	before := allocated()
	for id := market.ItemID(1); id <= items; id++ {
		if id%market.BatchSize == 1 {
			l.Minted(id, 1, nil)
		}
		l.Listed(market.Listing{Item: id, Seller: 1, Price: 30}, nil)
		l.Purchased(order(id, market.UserID(id%accounts+1), 30), nil)
	}
	if grown := allocated() - before; grown > 100*items/market.BatchSize+100_000 { // half of it copied as the list grew
		t.Errorf("%d bytes for %d items", grown, items)
	}
	if last := l.LastMinted(); last != items {
		t.Errorf("the last item is %d, want %d", last, items)
	}
}

// allocated is how many bytes have been allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
