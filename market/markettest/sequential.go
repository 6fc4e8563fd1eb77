package markettest

import (
	"context"
	"fmt"
	"maps"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/market"
)

func listingMovesTheItem(f *fixture) {
	item := f.mint(seller)
	want := f.snapshot()
	delete(want.Inventory[seller], item)
	want.Listings[market.Member(item, seller)] = 30

	f.worker(nil).lists(item, 30)
	f.matches(want)
}

func listingUnownedIsRefused(f *fixture) {
	sellers, buyers := f.mint(seller), f.mint(buyer)
	w := f.worker(nil)
	w.lists(sellers, 30)
	before := f.snapshot()
	for _, item := range []market.ItemID{sellers, buyers, buyers + market.BatchSize} { // listed, another's, nobody's
		err := w.list(f.ctx, market.Listing{Item: item, Seller: seller, Price: 40})
		f.refused(err, market.ErrNotOwned, before)
	}
	f.mint(seller) // so that the locks of the item that was nobody's can be enumerated
}

func purchaseMovesItemAndCoins(f *fixture) { purchaseAt(f, 30) }

func exactFundsSuffice(f *fixture) { purchaseAt(f, couple.Funds) }

func purchaseAt(f *fixture, price int64) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), price)
	want := f.snapshot()
	want.Funds[seller] += price
	want.Funds[buyer] -= price
	want.Inventory[buyer] = map[market.ItemID]bool{order.Item: true}
	maps.DeleteFunc(want.Listings, func(string, int64) bool { return true })

	f.applied(w.purchase(f.ctx, order))
	f.matches(want)
}

func orderOfUnlistedIsRefused(f *fixture) {
	item := f.mint(seller)
	w := f.worker(nil)
	sold := w.lists(item, 30)
	f.applied(w.purchase(f.ctx, sold))
	listed := w.lists(item+1, 30)
	before := f.snapshot()

	unlisted, another := listed, listed
	unlisted.Item = item + 2
	another.Seller = buyer
	for _, o := range []market.Order{sold, unlisted, another} {
		f.refused(w.purchase(f.ctx, o), market.ErrNotListed, before)
	}
}

func orderAtAnotherPriceIsRefused(f *fixture) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), 30)
	before := f.snapshot()
	for _, price := range []int64{29, 31} {
		order.Price = price
		f.refused(w.purchase(f.ctx, order), market.ErrPriceChanged, before)
	}
}

func orderBeyondFundsIsRefused(f *fixture) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), couple.Funds+1)
	before := f.snapshot()
	f.refused(w.purchase(f.ctx, order), market.ErrInsufficientFunds, before)
}

func ownListingIsGivenBack(f *fixture) {
	item := f.mint(seller)
	want := f.snapshot()
	w := f.worker(nil)
	order := w.lists(item, 30)
	order.Buyer = seller
	f.applied(w.purchase(f.ctx, order))
	f.matches(want)
}

func operationsLeaveNothingBehind(f *fixture) {
	item := f.mint(seller)
	w := f.worker(nil)
	order := w.lists(item, 30)
	w.leftNothing("a listing")
	listed := market.Listing{Item: item, Seller: seller, Price: 30}
	if err := w.list(f.ctx, listed); market.Refused(err) {
		w.leftNothing("a refused listing")
	}

	cheaper, unlisted := order, order
	cheaper.Price = 29
	unlisted.Item = item + 1
	dear := w.lists(item+2, couple.Funds+1)
	for _, o := range []market.Order{cheaper, unlisted, dear} {
		if err := w.purchase(f.ctx, o); market.Refused(err) {
			w.leftNothing("a refused order (" + market.Reason(err) + ")")
		}
	}

	f.applied(w.purchase(f.ctx, order))
	w.leftNothing("a purchase")
}

var trio = market.Opening{Accounts: 3, Funds: 20}

// tradedItems is how many items change hands in a random sequence: few, so that operations meet.
const tradedItems = 2

// An operation of a random sequence is a listing or, if it has a buyer, an order.
type operation struct {
	market.Order
	worker int
}

// usualPrice makes an item of odd number affordable at first, and one of even number not.
func usualPrice(item market.ItemID) int64 { return []int64{trio.Funds + 1, trio.Funds * 3 / 4}[item%2] }

// drawOperation draws an operation. One seller and an item's usual price are frequent, so that orders often match
// listings.
func drawOperation(t *rapid.T) operation {
	op := operation{worker: rapid.IntRange(0, 1).Draw(t, "worker")}
	op.Item = market.ItemID(rapid.Int64Range(1, tradedItems).Draw(t, "item"))
	op.Seller = rapid.SampledFrom([]market.UserID{seller, seller, seller, 2, 3}).Draw(t, "seller")
	usual := usualPrice(op.Item)
	op.Price = rapid.SampledFrom([]int64{usual, usual, usual, 1}).Draw(t, "price")
	if rapid.Bool().Draw(t, "order") {
		op.Buyer = market.UserID(rapid.IntRange(1, trio.Accounts).Draw(t, "buyer"))
	}
	return op
}

func (op operation) String() string {
	if op.Buyer == 0 {
		return fmt.Sprintf("list item %d of user %d at %d", op.Item, op.Seller, op.Price)
	}
	return fmt.Sprintf("purchase item %d from user %d for user %d at %d", op.Item, op.Seller, op.Buyer, op.Price)
}

func (op operation) on(ctx context.Context, p market.Purchaser) error {
	var err error
	if op.Buyer == 0 {
		_, err = p.List(ctx, market.Listing{Item: op.Item, Seller: op.Seller, Price: op.Price})
	} else {
		_, err = p.Purchase(ctx, op.Order)
	}
	return err
}

// sequenceMatchesReference makes random operations on two connections in turn, the same on the reference, and
// compares each outcome and the end.
func sequenceMatchesReference(f *fixture) {
	workers := []market.Purchaser{f.worker(nil).purchaser, f.worker(nil).purchaser}
	rapid.Check(f, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOperation), 10, 40).Draw(t, "operations")
		f.seed()
		defer f.remove()
		f.giveTradedItems()
		reference := market.NewReference(trio)
		reference.Mint(seller)
		for i, op := range ops {
			got, want := op.on(f.ctx, workers[op.worker]), op.on(f.ctx, reference)
			if market.Reason(got) != market.Reason(want) || (got == nil) != (want == nil) {
				t.Fatalf("operation %d (%s) returned %v, the reference %v", i+1, op, got, want)
			}
		}
		want := reference.Snapshot()
		maps.DeleteFunc(want.Inventory[seller], func(item market.ItemID, _ bool) bool { return item > tradedItems })
		if len(want.Inventory[seller]) == 0 {
			delete(want.Inventory, seller) // as in Redis
		}
		if diff := cmp.Diff(want, f.snapshot()); diff != "" {
			t.Fatalf("the market does not end as the reference (-want +got):\n%s", diff)
		}
	})
}

// giveTradedItems gives the seller the items of a sequence and no whole batch: a hundred sequences would spend most of
// their time on reading the rest of it.
func (f *fixture) giveTradedItems() {
	f.Helper()
	_, err := f.conn.Pipelined(f.ctx, func(p redis.Pipeliner) error {
		p.HIncrBy(f.ctx, f.keys.Run(), "items", tradedItems)
		for item := 1; item <= tradedItems; item++ {
			p.SAdd(f.ctx, f.keys.Inventory(seller), item)
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}
