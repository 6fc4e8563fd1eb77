package markettest

import (
	"context"
	"fmt"
	"reflect"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/market"
)

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
	op.Price = rapid.SampledFrom([]int64{usualPrice(op.Item), usualPrice(op.Item), usualPrice(op.Item), 1}).Draw(t, "price")
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
func sequenceMatchesReference(f *floor) {
	workers := []market.Purchaser{f.worker(nil).purchaser, f.worker(nil).purchaser}
	rapid.Check(f, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOperation), 10, 40).Draw(t, "operations")
		f.seed()
		defer f.remove()
		f.mint(seller)
		reference := market.NewReference(trio)
		reference.Mint(seller)
		for i, op := range ops {
			got, want := op.on(f.ctx, workers[op.worker]), op.on(f.ctx, reference)
			if market.Reason(got) != market.Reason(want) || (got == nil) != (want == nil) {
				t.Fatalf("operation %d (%s) returned %v, the reference %v", i+1, op, got, want)
			}
		}
		if got, want := f.snapshot(), reference.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Fatalf("the market does not end as the reference:\n%s", difference(got, want))
		}
	})
}
