package market_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// halfLost is a sound market of two sellers, 1 and 3, and two buyers, 2 and 4, that each traded with all others. The
// ledger of 3 and 4 is lost. Each has one item that is listed, and one that is not. User 2 was not told whether it bought
// item 1001 for 10 coins, and it did. Of a third batch a lost client reserved the ids, and minted nothing.
func halfLost(t *testing.T, s *backend.Server) *world {
	w := &world{
		TB: t, ctx: t.Context(), conn: testkit.Dial(t, s), keys: testkit.Keys(t),
		opening: market.Opening{Accounts: 4, Funds: 100}, ledger: market.NewLedger(4),
	}
	w.must(market.Seed(w.ctx, w.conn, w.keys, w.opening))
	gone := market.NewLedger(4)
	ledgers := map[market.UserID]*market.Ledger{1: w.ledger, 2: w.ledger, 3: gone, 4: gone}
	for _, seller := range []market.UserID{1, 3} {
		first, err := market.Mint(w.ctx, w.conn, w.keys, seller)
		w.must(err)
		ledgers[seller].Minted(first, seller, nil)
	}
	for _, x := range []struct {
		item          market.ItemID
		seller, buyer market.UserID
		price         int64
		outcome       error
	}{
		{1, 1, 2, 30, nil}, {2, 1, 4, 20, nil}, {3, 1, 0, 7, nil}, {4, 1, 4, 5, errLost},
		{1001, 3, 2, 10, errLost}, {1002, 3, 4, 40, nil}, {1003, 3, 0, 9, nil},
	} {
		w.do("srem", w.keys.Inventory(x.seller), int64(x.item))
		ledgers[x.seller].Listed(market.Listing{Item: x.item, Seller: x.seller, Price: x.price}, x.outcome)
		if x.buyer == 0 {
			w.do("zadd", w.keys.Market(), x.price, market.Member(x.item, x.seller))
			continue
		}
		w.do("sadd", w.keys.Inventory(x.buyer), int64(x.item))
		w.pay(x.buyer, x.seller, x.price)
		ledgers[x.buyer].Purchased(market.Order{Item: x.item, Seller: x.seller, Buyer: x.buyer, Price: x.price}, x.outcome)
	}
	w.opening.Lost = &market.Lost{Accounts: []market.UserID{3, 4}, Items: 3 * market.BatchSize}
	return w
}

// TestAuditWithoutTheLedgersOfLostClients: what they bought is settled by where items lie. Accounts of the others are
// judged each, theirs together.
func TestAuditWithoutTheLedgersOfLostClients(t *testing.T) {
	for _, d := range []damage{
		{name: "none", do: func(*world) {}},
		{name: "coins moved between lost accounts", do: func(w *world) { w.pay(3, 4, 5) }},
		{name: "a coin gone from a seller's account", money: 1, says: "account of user 1 holds 154 coins, and should hold 155",
			do: func(w *world) { w.do("hincrby", w.keys.User(1), "funds", -1) }},
		{name: "coins moved from a lost account", money: 2, says: "2 accounts of clients that were lost hold 180 coins together",
			do: func(w *world) { w.pay(3, 1, 5) }},
		{name: "a coin made in a lost account", money: 1, says: "hold 186 coins together, and should hold 185 (+1)",
			do: func(w *world) { w.do("hincrby", w.keys.User(4), "funds", 1) }},
		{name: "a lost account overdrawn", money: 1, says: "account of user 4 is overdrawn: -1 coins",
			do: func(w *world) { w.pay(4, 3, 36) }},
		{name: "a lost client paid nothing", money: 2, says: "account of user 1 holds 135 coins, and should hold 155 (-20)",
			do: func(w *world) { w.pay(1, 4, 20) }},
		{name: "an item that was bought lies with a lost buyer", items: 1, says: "item 1 was bought by user 2 but lies in inventory:4",
			do: func(w *world) { w.do("smove", w.keys.Inventory(2), w.keys.Inventory(4), 1) }},
		{name: "an item that was not listed lies with a lost buyer", items: 1, says: "item 9 of user 1 was neither listed nor bought",
			do: func(w *world) { w.do("smove", w.keys.Inventory(1), w.keys.Inventory(4), 9) }},
		{name: "an item of a lost seller taken", items: 1, says: "item 1009 of a client that was lost lies in inventory:2",
			do: func(w *world) { w.do("smove", w.keys.Inventory(3), w.keys.Inventory(2), 1009) }},
		{name: "an item of a lost seller gone", items: 1, says: "item 1003 of a client that was lost is nowhere",
			do: func(w *world) { w.do("zrem", w.keys.Market(), market.Member(1003, 3)) }},
		{name: "a bought item of a lost seller gone", items: 1, says: "item 1004 of a client that was lost is nowhere",
			do: func(w *world) {
				w.ledger.Purchased(market.Order{Item: 1004, Seller: 3, Buyer: 2, Price: 0}, nil)
				w.do("srem", w.keys.Inventory(3), 1004)
			}},
		{name: "an item beyond those that were minted", items: 1, says: "item 5000 lies in inventory:4 but was never minted",
			do: func(w *world) { w.do("sadd", w.keys.Inventory(4), 5000) }},
	} {
		t.Run(d.name, func(t *testing.T) {
			w := halfLost(t, testkit.Embedded(t))
			d.do(w)
			v := w.audit()
			if v.ItemProblems != d.items || v.MoneyProblems != d.money || !strings.Contains(strings.Join(v.Problems, "\n"), d.says) {
				t.Errorf("%d items and %d accounts are wrong: %q; want %d and %d: %s", v.ItemProblems, v.MoneyProblems, v.Problems,
					d.items, d.money, d.says)
			}
			if d.name == "none" && (v.Items != 2*market.BatchSize || v.Funds != 400 || v.Applied != 4 || v.NotApplied != 0) {
				t.Errorf("found %+v", v)
			}
		})
	}
}

func TestAuditNeedsAllLedgersOfItemsThatCirculate(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	circulating := market.NewLedger(3)
	circulating.Circulate(market.NewCirculation(2*market.BatchSize, 3))
	w.opening.Lost = &market.Lost{Accounts: []market.UserID{2}, Items: 2 * market.BatchSize}
	if v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, circulating); err == nil {
		t.Errorf("found %+v", v)
	}
}
