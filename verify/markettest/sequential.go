package markettest

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/market"
)

func purchaseMovesItemAndCoins(f *fixture) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), opening.Funds)
	want := f.snapshot()
	want.Funds[seller] += order.Price
	want.Funds[buyer] -= order.Price
	want.Inventory[buyer] = map[market.ItemID]bool{order.Item: true}
	maps.DeleteFunc(want.Listings, func(string, int64) bool { return true })

	f.applied(w.purchase(f.Ctx, order))
	f.matches(want)
}

func operationsLeaveNothingBehind(f *fixture) {
	item := f.mint(seller)
	w := f.worker(nil)
	order := w.lists(item, 30)
	w.leftNothing("a listing")
	if err := w.list(f.Ctx, market.Listing{Item: item, Seller: seller, Price: 30}); market.Refused(err) {
		w.leftNothing("a refused listing")
	}
	cheaper, unlisted := order, order
	cheaper.Price, unlisted.Item = 29, item+1
	for _, o := range []market.Order{cheaper, unlisted, w.lists(item+2, opening.Funds+1), order} {
		err := w.purchase(f.Ctx, o)
		w.leftNothing("an order (" + market.Reason(err) + ")")
	}
}

var trio = market.Opening{Accounts: 3, Funds: 20}

// tradedItems is how many items change hands in a random sequence: few, so that operations meet.
const tradedItems = 2

// An operation of a random sequence is a listing or, if it has a buyer, an order.
type operation struct {
	market.Order
	worker int
}

// drawOperation draws an operation: orders often match listings, because one seller and an item's price are frequent.
func drawOperation(t *rapid.T) operation {
	op := operation{worker: rapid.IntRange(0, 1).Draw(t, "worker")}
	op.Item = market.ItemID(rapid.Int64Range(1, tradedItems).Draw(t, "item"))
	op.Seller = rapid.SampledFrom([]market.UserID{seller, seller, seller, 2, 3}).Draw(t, "seller")
	usual := []int64{trio.Funds + 1, trio.Funds}[op.Item%2] // at first an item of odd number is just affordable
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

// deal makes an order, or without a buyer the listing.
func deal(ctx context.Context, p market.Purchaser, o market.Order) (err error) {
	if o.Buyer == 0 {
		_, err = p.List(ctx, listing(o))
	} else {
		_, err = p.Purchase(ctx, o)
	}
	return err
}

func listing(o market.Order) market.Listing {
	return market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}
}

// sequenceMatchesReference compares random operations of two workers in turn, and their end, with the reference.
func sequenceMatchesReference(f *fixture) {
	workers := []market.Purchaser{f.worker(nil).purchaser, f.worker(nil).purchaser}
	f.remove()
	rapid.Check(f, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOperation), 10, 40).Draw(t, "operations")
		f.seed(trio)
		defer f.remove()
		f.mint(seller)
		reference := market.NewReference(trio)
		reference.Mint(seller)
		for i, op := range ops {
			got, want := deal(f.Ctx, workers[op.worker], op.Order), deal(f.Ctx, reference, op.Order)
			if market.Reason(got) != market.Reason(want) || (got == nil) != (want == nil) {
				t.Fatalf("operation %d (%s) returned %v, the reference %v", i+1, op, got, want)
			}
		}
		want := reference.Snapshot()
		if got := f.snapshot(); !reflect.DeepEqual(want, got) {
			t.Fatalf("the market does not end as the reference (-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}
