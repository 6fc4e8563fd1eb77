package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

func purchaseMovesItemAndCoins(f *fixture) {
	w := f.worker(nil)
	order := w.lists(f.mint(seller), opening.Funds)
	want := f.snapshot()
	want.Funds[seller] += order.Price
	want.Funds[buyer] -= order.Price
	want.Inventory[buyer] = map[market.ItemID]bool{order.Item: true}
	maps.DeleteFunc(want.Listings, func(string, int64) bool {
		return true
	})

	f.applied(w.trade(f.Ctx, order))
	f.matches(want)
}

func operationsLeaveNothingBehind(f *fixture) {
	item := f.mint(seller)
	w := f.worker(nil)
	order := w.lists(item, 30)
	w.leftNothing("a listing")
	again := market.Order{Item: item, Seller: seller, Price: 30}
	if err := w.trade(f.Ctx, again); market.Refused(err) {
		w.leftNothing("a refused listing")
	}

	cheaper := order
	cheaper.Price = 29
	unlisted := order
	unlisted.Item = item + 1
	expensive := w.lists(item+2, opening.Funds+1)
	for _, o := range []market.Order{cheaper, unlisted, expensive, order} {
		err := w.trade(f.Ctx, o)
		w.leftNothing("an order (" + market.Reason(err) + ")")
	}
}

var trio = market.Opening{Accounts: 3, Funds: 20}

// tradedItems is how many items change hands in a random sequence: few, so that
// operations meet.
const tradedItems = 2

// An operation of a random sequence is a listing or, if it has a buyer, an order.
type operation struct {
	market.Order
	worker int
}

// drawOperation draws an operation: orders often match listings, because one seller and
// an item's price are frequent.
func drawOperation(t *rapid.T) operation {
	op := operation{worker: rapid.IntRange(0, 1).Draw(t, "worker")}
	op.Item = market.ItemID(rapid.Int64Range(1, tradedItems).Draw(t, "item"))
	op.Seller = rapid.SampledFrom([]market.UserID{seller, seller, seller, 2, 3}).Draw(t, "seller")
	// At first an item of odd number is just affordable.
	usual := []int64{trio.Funds + 1, trio.Funds}[op.Item%2]
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

// deal makes an order, or without a buyer lists the item.
func deal(ctx context.Context, p market.Purchaser, o market.Order) (market.Receipt, error) {
	if o.Buyer == 0 {
		return p.List(ctx, listing(o))
	}
	return p.Purchase(ctx, o)
}

// note notes in a ledger what became of a deal.
func note(l *market.Ledger, o market.Order, err error) {
	if o.Buyer == 0 {
		l.Listed(listing(o), err)
	} else {
		l.Purchased(o, err)
	}
}

func listing(o market.Order) market.Listing {
	return market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}
}

// sequenceMatchesReference compares random operations of two workers in turn, and
// their end, with the reference.
func sequenceMatchesReference(f *fixture) {
	// An audit follows other checks. Here the end of each sequence is compared instead.
	workers := []market.Purchaser{f.worker(nil).purchaser, f.worker(nil).purchaser}
	f.remove() // each sequence begins with a market of its own

	rapid.Check(f, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawOperation), 10, 40).Draw(t, "operations")
		f.seed(trio)
		defer f.remove()
		f.mint(seller) // from item 1 on, as drawOperation has them: each seed counts anew

		reference := marketstore.NewReference(trio)
		reference.Mint(seller)
		for i, op := range ops {
			_, got := deal(f.Ctx, workers[op.worker], op.Order)
			_, want := deal(f.Ctx, reference, op.Order)
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

const (
	// longestPrompt is how soon an operation must end on a busy machine too: before a lock
	// times out, 10 s.
	longestPrompt = 5 * time.Second

	// meetingTime is how long a check lets an order meet a held one if the order neither ends
	// nor reports that it waits.
	meetingTime = 200 * time.Millisecond
)

// A meeting is two orders of which the first is held while the second is made.
type meeting struct {
	orders func() [2]market.Order
	// While the first order is held, and the second has ended or waits.
	during func(second *Call) // nil: nothing
	// Checks what became of both.
	judge func(h *HeldRequest, first, second error)
}

// meet holds an order before each of its requests, while a worker makes another one,
// until that has ended or waits. Then the first one goes on.
func (f *fixture) meet(m meeting) {
	f.Helper()
	f.HoldAtEach("an order", func(h *HeldRequest) bool {
		return f.meetAt(h, m)
	})
}

// meetAt holds the first order at one point. It reports false if it did not come there.
func (f *fixture) meetAt(h *HeldRequest, m meeting) bool {
	f.Helper()
	// The orders come first: they may begin a new market, to whose ledgers those of the workers
	// are added.
	both := m.orders()

	waiting := step.Hold(step.Waiting)
	waiting.Open() // it holds nobody, and only tells
	first := f.open(nil, f.NewProxies())
	second := f.worker(waiting.Observe)

	// Only a worker that is connected can be held, and clients connect when they have to: here
	// for an item that is not for sale, the last of the batch of which both[0] has the first.
	absent := both[0]
	absent.Item += market.BatchSize - 1
	_ = first.trade(f.Ctx, absent)
	if !h.Arm(first.proxies) {
		return false
	}

	held := f.Start(func(ctx context.Context) error {
		return first.trade(ctx, both[0])
	})
	if !f.AwaitHold(held, h) {
		f.AwaitEnd(held, opTimeout, "an order that was not held")
		f.applied(held.Err)
		return false
	}
	other := f.Start(func(ctx context.Context) error {
		return second.trade(ctx, both[1])
	})

	select {
	case <-waiting.Reached():
	case <-other.Done:
	case <-time.After(meetingTime):
	}
	if m.during != nil {
		m.during(other)
	}

	h.Open()
	f.AwaitEnd(held, opTimeout, "an order that was held")
	f.AwaitEnd(other, opTimeout, "an order that met another one")
	m.judge(h, held.Err, other.Err)
	return true
}

// one checks that one of two orders that met was applied, and the other one refused.
func (f *fixture) one(h *HeldRequest, first, second error) {
	f.Helper()
	if (first == nil) == (second == nil) || !market.Refused(errors.Join(first, second)) {
		const wrong = "of two orders, the first held %s while the second was made, " +
			"one is to be applied and one refused: %v; %v"
		f.Errorf(wrong, h, first, second)
	}
}

func (f *fixture) sameItem() [2]market.Order {
	first := f.worker(nil).lists(f.mint(seller), 1)
	second := first
	second.Buyer++
	return [2]market.Order{first, second}
}

func oneOrderIsApplied(f *fixture) { f.meet(meeting{orders: f.sameItem, judge: f.one}) }

func accountIsNotOverdrawn(f *fixture) {
	orders := func() [2]market.Order {
		f.close() // in the next market the account is full again
		f.seed(opening)
		item := f.mint(seller)
		w := f.worker(nil)
		return [2]market.Order{w.lists(item, opening.Funds*2/3), w.lists(item+1, opening.Funds*2/3)}
	}

	judge := func(h *HeldRequest, first, second error) {
		f.one(h, first, second)
		if funds := f.snapshot().Funds[buyer]; funds < 0 {
			f.Errorf("the account is overdrawn: %d coins, by an order that was held %s", funds, h)
		}
	}

	f.meet(meeting{orders: orders, judge: judge})
}

func cancellationEndsAWait(f *fixture) {
	cancel := func(second *Call) {
		second.Cancel()
		f.AwaitEnd(second, f.prompt, "an order whose context had ended")
	}
	judge := func(h *HeldRequest, first, second error) {
		switch {
		case first == nil && second == nil:
			f.Errorf("both orders of one item were applied; the first was held %s", h)
		case market.Refused(first) && market.Refused(second):
			f.Errorf("neither of two orders of one item was applied: %v; %v", first, second)
		}
	}
	f.meet(meeting{orders: f.sameItem, during: cancel, judge: judge})
}

const (
	tradeSellers = 3
	tradeBuyers  = 4
	tradeItems   = 12 // of each seller
)

// manyTrade has every buyer try to buy every item while sellers list them, and again
// after that. All can pay for all.
func manyTrade(f *fixture) {
	// Buyers begin while sellers list, so that they find some items not for sale yet. When all
	// are listed, each buyer tries once more.
	var orders []market.Order
	var sellers, buyers sync.WaitGroup
	for s := market.UserID(1); s <= tradeSellers; s++ {
		w := f.worker(nil)
		first := f.mint(s)
		var items []market.Order
		for item := first; item < first+tradeItems; item++ {
			items = append(items, market.Order{Item: item, Seller: s, Price: 1})
		}
		orders = append(orders, items...)
		sellers.Go(func() { w.listAll(items) })
	}

	var sold atomic.Int64
	for b := market.UserID(tradeSellers + 1); b <= tradeSellers+tradeBuyers; b++ {
		w := f.worker(nil)
		buyers.Go(func() {
			sold.Add(w.buyAll(orders, b))
			sellers.Wait()
			sold.Add(w.buyAll(orders, b))
		})
	}

	buyers.Wait()
	if n := sold.Load(); n != int64(len(orders)) {
		f.Errorf("%d purchases were applied, want %d: one for each item", n, len(orders))
	}
}

func (w *worker) listAll(items []market.Order) {
	for _, o := range items {
		if err := w.trade(w.fixture.Ctx, o); err != nil {
			w.fixture.Errorf("list item %d: %v", o.Item, err)
		}
	}
}

// buyAll makes all orders for one buyer, and returns how many were applied. The others are
// to be refused.
func (w *worker) buyAll(orders []market.Order, b market.UserID) (bought int64) {
	for _, o := range orders {
		o.Buyer = b
		err := w.trade(w.fixture.Ctx, o)
		switch {
		case err == nil:
			bought++
		case !market.Refused(err):
			w.fixture.Errorf("order of item %d has an unknown outcome although nothing broke: %v", o.Item, err)
		}
	}
	return bought
}

func endedContextAppliesNothing(f *fixture) {
	item := f.mint(seller)
	w := f.worker(nil)
	order := w.lists(item, 30)
	before := f.snapshot()
	ended, cancel := context.WithCancel(f.Ctx)
	cancel()

	for _, err := range []error{
		w.trade(ended, order),
		w.trade(ended, market.Order{Item: item + 1, Seller: seller, Price: 30}),
	} {
		if err == nil {
			f.Errorf("an operation reported success although its context had ended before")
		}
	}
	f.matches(before)
	w.leftNothing("an operation whose context had ended")
	f.applied(w.trade(f.Ctx, order))
	w.lists(item+1, 30)
}

var allSteps = []step.Name{
	step.Acquired, step.Read, step.BeforeWrite, step.Written, step.BeforeRelease,
}

// cancellationAtAnyStep cancels an order at each step. The next worker finds the item
// sold, or buys it, and the first worker can trade again.
func cancellationAtAnyStep(f *fixture) {
	item := f.mint(seller)
	second := f.worker(nil)
	held := false
	for i, at := range allSteps {
		// Each step has two items: one whose order is cancelled, and one to trade afterwards.
		order := second.lists(item+market.ItemID(2*i), 1)
		gate := step.Hold(at)
		first := f.worker(gate.Observe)

		c := f.Start(func(ctx context.Context) error {
			return first.trade(ctx, order)
		})
		held = f.AwaitPoint(c, gate.Reached()) || held // one without this step finishes its order
		c.Cancel()
		f.AwaitEnd(c, f.prompt, "an operation whose context had ended")
		err := c.Err
		gate.Open() // the first worker trades once more below
		first.leftNothing("an order cancelled at the step " + string(at))

		again := second.trade(f.Ctx, order)
		switch {
		case err == nil && !errors.Is(again, market.ErrNotListed):
			f.Fatalf("an order cancelled at %s was applied, and the next one of the item returned %v",
				at, again)
		case market.Refused(err) && again != nil:
			f.Fatalf("an order cancelled at %s was refused (%v), and so was the next one: %v",
				at, err, again)
		}
		f.applied(first.trade(f.Ctx, first.lists(order.Item+1, 1)))
	}
	if !held {
		f.Unchecked("it reports no step")
	}
}
