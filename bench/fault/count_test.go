package fault

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// What became of an order.
var (
	applied = Outcome{}
	refused = Outcome{Reason: "not_listed", Error: "not listed"}
	lost    = Outcome{Error: "connection reset"}
)

// books is a market's keys on its server, to be changed by hand.
type books struct {
	*Stage
	rdb *redis.Client
}

// order notes what a buyer was told of their order of the first item.
func (b books) order(buyer market.UserID, told Outcome) {
	o := &market.Order{Item: b.item(0), Seller: seller, Buyer: buyer, Price: price}
	b.operations = append(b.operations, &operation{order: o, done: true, outcome: told})
}

func (b books) coins(user market.UserID, n int64) {
	b.rdb.HIncrBy(context.Background(), b.keys.User(user), "funds", n)
}

// delist takes the first item from the market, and give puts it into inventories.
func (b books) delist() {
	b.rdb.ZRem(context.Background(), b.keys.Market(), market.Member(b.item(0), seller))
}

func (b books) give(users ...market.UserID) {
	for _, u := range users {
		b.rdb.SAdd(context.Background(), b.keys.Inventory(u), int64(b.item(0)))
	}
}

// sale moves coins and the item as a purchase does.
func (b books) sale(buyer market.UserID) {
	b.coins(buyer, -price)
	b.coins(seller, price)
	b.delist()
	b.give(buyer)
}

func TestCount(t *testing.T) {
	lab := openLab(t)
	for _, c := range []struct {
		name string
		play func(books)
		want Verdict
	}{
		{"nothing happened", func(books) {}, Safe},
		{"a sale", func(b books) { b.sale(2); b.order(2, applied) }, Safe},
		{"a sale whose reply was lost", func(b books) { b.sale(2); b.order(2, lost) }, Safe},
		{"a lost order that did not arrive", func(b books) { b.order(2, lost) }, Safe},
		{"a lost order, and one that was applied", func(b books) { b.sale(2); b.order(2, lost); b.order(2, applied) }, Safe},
		{"a refused order", func(b books) { b.sale(2); b.order(2, applied); b.order(3, refused) }, Safe},
		{"two buyers have it", func(b books) { b.sale(2); b.sale(3); b.order(2, applied); b.order(3, applied) }, SoldTwice},
		{"bought, and still for sale", func(b books) { b.give(2) }, SoldTwice},
		{"coins from nowhere", func(b books) { b.coins(2, 1) }, CoinsMade},
		{"coins vanished", func(b books) { b.coins(2, -1) }, CoinsLost},
		{"paid twice", func(b books) { b.sale(2); b.sale(2); b.order(2, applied) }, ChargedTwice},
		{"paid, and told that it was refused", func(b books) { b.sale(2); b.order(2, refused) }, ChargedTwice},
		{"goods weigh more than coins", func(b books) { b.sale(2); b.give(3); b.coins(4, 1) }, SoldTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t.Context(), lab, subject(t, "watch"), TTL)
			c.play(books{s, s.conn.Client})
			got, why := s.count()
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			if got != c.want || got != Safe && why == "" {
				t.Errorf("counted %s (%s), want %s", got, why, c.want)
			}
		})
	}
}
