package market_test

import (
	"context"
	"errors"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

var errLost = errors.New("the reply was lost")

// world is a market of three accounts with 100 coins each. Users 1 and 3 own a
// batch of items; user 1 sells.
type world struct {
	testing.TB
	ctx     context.Context
	conn    *redisconn.Conn
	keys    market.Keys
	opening market.Opening
	ledger  *market.Ledger
}

func newWorld(t testing.TB, s *backend.Server) *world {
	t.Helper()
	w := &world{
		TB: t, ctx: t.Context(), conn: testkit.Dial(t, s), keys: testkit.Keys(t),
		opening: market.Opening{Accounts: 3, Funds: 100}, ledger: new(market.Ledger),
	}
	w.must(marketstore.Seed(w.ctx, w.conn, w.keys, w.opening))
	for _, owner := range []market.UserID{1, 3} {
		first, err := marketstore.Mint(w.ctx, w.conn, w.keys, owner)
		w.must(err)
		w.ledger.Minted(first, owner, nil)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// lists moves an item of user 1 to the market, and notes in the ledger what its
// client got as the outcome.
func (w *world) lists(item market.ItemID, price int64, outcome error) {
	w.Helper()
	w.offers(item, 1, price, outcome)
}

func (w *world) offers(item market.ItemID, seller market.UserID, price int64, outcome error) {
	w.Helper()
	w.do("srem", w.keys.Inventory(seller), int64(item))
	w.do("zadd", w.keys.Market(), price, market.Member(item, seller))
	w.ledger.Listed(market.Listing{Item: item, Seller: seller, Price: price}, outcome)
}

// buys moves a listed item of user 1 to user 2, and notes in the ledger what
// its client got as the outcome.
func (w *world) buys(item market.ItemID, price int64, outcome error) {
	w.Helper()
	w.sells(market.Order{Item: item, Seller: 1, Buyer: 2, Price: price}, outcome)
}

func (w *world) sells(o market.Order, outcome error) {
	w.Helper()
	w.do("zrem", w.keys.Market(), market.Member(o.Item, o.Seller))
	w.do("sadd", w.keys.Inventory(o.Buyer), int64(o.Item))
	w.pay(o.Buyer, o.Seller, o.Price)
	w.ledger.Purchased(o, outcome)
}

// round sells item 2, which user 1 has listed at 30, to user 2, to 3, and back
// to 1, who lists it as before.
func (w *world) round() {
	w.Helper()
	for _, o := range []market.Order{
		{Item: 2, Seller: 1, Buyer: 2, Price: 30},
		{Item: 2, Seller: 2, Buyer: 3, Price: 5},
		{Item: 2, Seller: 3, Buyer: 1, Price: 7},
	} {
		w.sells(o, nil)
		w.offers(2, o.Buyer, map[market.UserID]int64{1: 30, 2: 5, 3: 7}[o.Buyer], nil)
	}
}

func (w *world) pay(from, to market.UserID, coins int64) {
	w.Helper()
	w.do("hincrby", w.keys.User(from), "funds", -coins)
	w.do("hincrby", w.keys.User(to), "funds", coins)
}

func (w *world) do(command ...any) {
	w.Helper()
	w.must(w.conn.Do(w.ctx, command...).Err())
}

func order(item market.ItemID, buyer market.UserID, price int64) market.Order {
	return market.Order{Item: item, Seller: 1, Buyer: buyer, Price: price}
}

func (w *world) audit(more ...*market.Ledger) market.AuditResult {
	w.Helper()
	v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, append([]*market.Ledger{w.ledger}, more...)...)
	w.must(err)
	return v
}
