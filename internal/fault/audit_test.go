package fault

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// Outcomes of an order.
var (
	applied = OpResult{}
	refused = OpResult{Reason: "not_listed", Error: "not listed"}
	lost    = OpResult{Error: "connection reset"}
)

// books is a market's keys on its server, to be changed by hand.
type books struct {
	*setup
	rdb *redis.Client
}

// order notes the outcome of a buyer's order of the first item.
func (b books) order(buyer market.UserID, o OpResult) {
	order := market.Order{Item: b.item(0), Seller: seller, Buyer: buyer, Price: price}
	buy := command{Do: doBuy, Order: order}
	b.operations = append(b.operations, &operation{command: buy, done: true, outcome: o})
}

// lists notes the outcome of a listing of an item that the seller still has.
func (b books) lists(o OpResult) {
	list := command{Do: doList, Listing: b.spare(0)}
	b.operations = append(b.operations, &operation{command: list, done: true, outcome: o})
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

func TestAudit(t *testing.T) {
	r := startRunner(t)
	for _, c := range []struct {
		name   string
		change func(books)
		want   verify.Harm
	}{
		{"nothing happened", func(books) {}, verify.NoHarm},
		// Each does to the market what its clients have done, and notes what they were told.
		{"a sale", func(b books) {
			b.sale(2)
			b.order(2, applied)
		}, verify.NoHarm},
		// A client whose reply was lost does not know.
		{"a sale whose reply was lost", func(b books) {
			b.sale(2)
			b.order(2, lost)
		}, verify.NoHarm},
		{"a lost order that did not arrive", func(b books) {
			b.order(2, lost)
		}, verify.NoHarm},
		{
			"a lost order, and one that was applied",
			func(b books) {
				b.sale(2)
				b.order(2, lost)
				b.order(2, applied)
			}, verify.NoHarm,
		},
		{"a refused order", func(b books) {
			b.sale(2)
			b.order(2, applied)
			b.order(3, refused)
		}, verify.NoHarm},
		{
			"two buyers have it",
			func(b books) {
				b.sale(2)
				b.sale(3)
				b.order(2, applied)
				b.order(3, applied)
			}, verify.SoldTwice,
		},
		{"bought, and still for sale", func(b books) {
			b.give(2)
		}, verify.SoldTwice},
		{"coins from nowhere", func(b books) {
			b.coins(2, 1)
		}, verify.CoinsMade},
		{"coins vanished", func(b books) {
			b.coins(2, -1)
		}, verify.CoinsLost},
		{"paid twice", func(b books) {
			b.sale(2)
			b.sale(2)
			b.order(2, applied)
		}, verify.ChargedTwice},
		{
			"bought twice by one",
			func(b books) {
				b.sale(2)
				b.sale(2)
				b.order(2, applied)
				b.order(2, applied)
			}, verify.ChargedTwice,
		},
		{
			"told twice, and paid for once",
			func(b books) {
				b.sale(2)
				b.order(2, applied)
				b.order(2, applied)
			}, verify.ChargedTwice,
		},
		{
			"two are told, and one has it",
			func(b books) {
				b.sale(2)
				b.coins(3, -price)
				b.coins(seller, price)
				b.order(2, applied)
				b.order(3, applied)
			},
			verify.SoldTwice,
		},
		{"paid, and told that it was refused", func(b books) {
			b.sale(2)
			b.order(2, refused)
		}, verify.ToldNo},
		{
			"paid once, told no after a lost reply",
			func(b books) {
				b.sale(2)
				b.order(2, lost)
				b.order(2, refused)
			}, verify.NoHarm,
		},
		{"told that it bought, and nothing moved", func(b books) {
			b.order(2, applied)
		}, verify.ToldYes},
		{"two were told so, and nothing moved", func(b books) {
			b.order(2, applied)
			b.order(3, applied)
		}, verify.ToldYes},
		{"told that it listed, and nothing moved", func(b books) {
			b.lists(applied)
		}, verify.ToldYes},
		{"a refused listing", func(b books) {
			b.lists(refused)
		}, verify.NoHarm},
		{
			"paid for more than it had",
			func(b books) {
				b.fund(2, price-1)
				b.sale(2)
				b.order(2, applied)
			}, verify.Overdrawn,
		},
		{"not paid", func(b books) {
			b.give(2)
			b.delist()
			b.order(2, applied)
		}, verify.NotPaid},
		{"items weigh more than coins", func(b books) {
			b.sale(2)
			b.give(3)
			b.coins(4, 1)
		}, verify.SoldTwice},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &setup{ctx: t.Context(), runner: r, scheme: scheme(t, "watch"), ttl: TTL}
			var got verify.Harm
			var why string

			err := s.attempt(false, func() {
				c.change(books{s, s.conn.Client})
				got, why = s.audit()
			})

			if err != nil {
				t.Fatal(err)
			}
			if got != c.want || got != verify.NoHarm && why == "" {
				t.Errorf("counted %s (%s), want %s", got, why, c.want)
			}
		})
	}
}
