package market_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// A damage is done to a sound market in which user 1 has listed items 1 and 2 at 30 coins and user 2 has bought 1.
type damage struct {
	name         string
	do           func(w *world)
	items, money int64
	says         string
}

var damages = []damage{
	{name: "none", do: func(*world) {}},
	{name: "lost coin", money: 1, says: "account of user 1 holds 129 coins, and should hold 130 (-1)", do: func(w *world) {
		w.do("hincrby", w.keys.User(1), "funds", -1)
	}},
	{name: "coins moved between accounts", money: 2, says: "account of user 3 holds 95 coins", do: func(w *world) {
		w.pay(3, 1, 5)
	}},
	{name: "lost update", money: 1, says: "should hold 130 (-30)", do: func(w *world) {
		w.do("hset", w.keys.User(1), "funds", 100)
	}},
	{name: "overdrawn account", money: 1, says: "account of user 2 is overdrawn: -10 coins", do: func(w *world) {
		w.lists(3, 80, nil)
		w.buys(3, 80, nil)
	}},
	{name: "account gone", money: 1, says: "account of user 3 has no readable funds", do: func(w *world) {
		w.do("del", w.keys.User(3))
	}},
	{name: "funds that are no number", money: 1, says: "account of user 3 has no readable funds", do: func(w *world) {
		w.do("hset", w.keys.User(3), "funds", "many")
	}},
	{name: "item lost", items: 1, says: "item 7 of user 1 is nowhere", do: func(w *world) {
		w.do("srem", w.keys.Inventory(1), 7)
	}},
	{name: "item in two inventories", items: 1, says: "item 7 is in two places: inventory:1 and inventory:3", do: func(w *world) {
		w.do("sadd", w.keys.Inventory(3), 7)
	}},
	{name: "item in market and inventory", items: 1, says: "item 7 is in two places: inventory:1 and market: (seller 1)", do: func(w *world) {
		w.do("zadd", w.keys.Market(), 30, "7.1")
	}},
	{name: "item listed by two", items: 1, says: "item 2 is in two places: market: (seller", do: func(w *world) {
		w.do("zadd", w.keys.Market(), 30, "2.3")
	}},
	{name: "item listed by nobody", items: 1, says: "item 7 of user 1 was neither listed nor bought", do: func(w *world) {
		w.do("srem", w.keys.Inventory(1), 7)
		w.do("zadd", w.keys.Market(), 30, "7.1")
	}},
	{name: "listing by a user without an account", items: 1, says: "item 2 is listed by user 4294967297, who has no account", do: func(w *world) {
		w.do("zrem", w.keys.Market(), "2.1")
		w.do("zadd", w.keys.Market(), 30, "2.4294967297")
	}},
	{name: "listing by a negative user", items: 1, says: "item 7 is listed by user -1, who has no account", do: func(w *world) {
		w.do("srem", w.keys.Inventory(1), 7)
		w.do("zadd", w.keys.Market(), 30, "7.-1")
	}},
	{name: "item never minted", items: 1, says: "item 5000 lies in inventory:3 but was never minted", do: func(w *world) {
		w.do("sadd", w.keys.Inventory(3), 5000)
	}},
	{name: "item with a giant id", items: 1, says: "item 9000000000000000000 lies in market:", do: func(w *world) {
		w.do("zadd", w.keys.Market(), 1, "9000000000000000000.1")
	}},
	{name: "bought item not with its buyer", items: 1, says: "item 1 was bought by user 2 but lies in inventory:3", do: func(w *world) {
		w.do("smove", w.keys.Inventory(2), w.keys.Inventory(3), 1)
	}},
	{name: "listed item back with its seller", items: 1, says: "item 2 was listed by user 1 and bought by nobody but lies in inventory:1", do: func(w *world) {
		w.do("zrem", w.keys.Market(), "2.1")
		w.do("sadd", w.keys.Inventory(1), 2)
	}},
	{name: "sold twice", items: 1, says: "item 1 was sold twice: to user 2 and to user 3", do: func(w *world) {
		w.pay(3, 1, 30)
		w.ledger.Purchased(order(1, 3, 30), nil)
	}},
	{name: "bought but never minted", items: 1, says: "item 6000 was bought by user 2 but never minted", do: func(w *world) {
		w.ledger.Purchased(order(6000, 2, 0), nil)
	}},
	{name: "junk in an inventory", items: 1, says: `inventory:3 holds "junk", which is not an item`, do: func(w *world) {
		w.do("sadd", w.keys.Inventory(3), "junk")
	}},
	{name: "junk on the market", items: 1, says: `market member "junk" is not of the form`, do: func(w *world) {
		w.do("zadd", w.keys.Market(), 1, "junk")
	}},
	{name: "many at once", items: 21, money: 1, says: "item 7 of user 1 is nowhere", do: func(w *world) {
		for item := range 21 {
			w.do("srem", w.keys.Inventory(1), 7+item)
		}
		w.do("hincrby", w.keys.User(3), "funds", 1)
	}},
}

func TestAuditFindsDamage(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, d := range damages {
			t.Run(d.name, func(t *testing.T) {
				w := newWorld(t, s)
				w.lists(1, 30, nil)
				w.lists(2, 30, nil)
				w.buys(1, 30, nil)
				d.do(w)
				v := w.audit()
				if v.ItemProblems != d.items || v.MoneyProblems != d.money || v.OK() != (d.items+d.money == 0) {
					t.Errorf("found %d items and %d accounts, want %d and %d: %q",
						v.ItemProblems, v.MoneyProblems, d.items, d.money, v.Problems)
				}
				if !strings.Contains(strings.Join(v.Problems, "\n"), d.says) {
					t.Errorf("it says %q and not %q", v.Problems, d.says)
				}
				if len(v.Problems) > 20 {
					t.Errorf("it tells %d problems in words", len(v.Problems))
				}
			})
		}
	})
}

func TestAuditCountsWhatIsWhereItShouldBe(t *testing.T) {
	w := newWorld(t, backendtest.Embedded(t))
	w.lists(1, 30, nil)
	w.buys(1, 30, nil)
	if v := w.audit(); v.Items != 2*market.BatchSize || v.Funds != 300 || v.Applied+v.NotApplied != 0 {
		t.Errorf("%+v; want %d items and 300 coins", v, 2*market.BatchSize)
	}
}

func TestAuditOfAnUnreadableMarketIsAnError(t *testing.T) {
	w := newWorld(t, backendtest.Embedded(t))
	w.do("set", w.keys.Market(), "not a sorted set")
	if v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, w.ledger); err == nil {
		t.Errorf("verdict %+v and no error", v)
	}
}
