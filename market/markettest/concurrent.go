package markettest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

const (
	// grace is how long the suite waits for a worker to finish, to come to its write or to wait for a lock. The whole
	// of it passes only where a worker waits without reporting the step.
	grace = 10 * time.Second

	// prompt is how soon after its context an operation must end, on a busy machine too, and before the time-out of a
	// lock, 10 s, would end it.
	prompt = 5 * time.Second
)

// A call is an order under way in a goroutine of its own.
type call struct {
	cancel  context.CancelFunc
	read    *step.Gate // open; reached when the worker has read
	write   *step.Gate // holds the worker once, before its write
	waiting *step.Gate // open; reached when the worker waits for a lock
	done    chan struct{}
	receipt market.Receipt // this and err are set when done is closed
	err     error
}

// start makes an order with a worker of its own and returns when it has finished, is held before its write, or
// waits.
func (f *fixture) start(o market.Order) *call {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	c := &call{
		cancel: cancel, read: step.Hold(step.Read), write: step.Hold(step.BeforeWrite), waiting: step.Hold(step.Waiting),
		done: make(chan struct{}),
	}
	c.read.Open()
	c.waiting.Open()
	w := f.worker(func(ctx context.Context, at step.Name) {
		c.read.Observe(ctx, at)
		c.write.Observe(ctx, at)
		c.waiting.Observe(ctx, at)
	})
	f.run(c, func() error {
		err := w.purchase(ctx, o)
		c.receipt = w.receipt
		return err
	})
	select {
	case <-c.write.Reached():
	case <-c.waiting.Reached():
	case <-c.done:
	case <-time.After(grace):
	}
	return c
}

// run runs the call's operation. The test does not end before it has.
func (f *fixture) run(c *call, operation func() error) {
	go func() {
		defer close(c.done)
		c.err = operation()
	}()
	f.Cleanup(func() {
		c.cancel()
		c.write.Open()
		<-c.done
	})
}

// result lets the call go on and returns its outcome.
func (c *call) result() error {
	c.write.Open()
	<-c.done
	return c.err
}

// contest lets orders meet, each by a worker of its own, and returns how many were applied. An outcome that the
// worker does not know is an error: nothing broke.
func (f *fixture) contest(orders []market.Order) (applied int) {
	f.Helper()
	var calls []*call
	for _, o := range orders {
		calls = append(calls, f.start(o))
	}
	for _, c := range calls {
		c.write.Open()
	}
	for _, c := range calls {
		switch err := c.result(); {
		case err == nil:
			applied++
		case !market.Refused(err):
			f.Errorf("an order has an unknown outcome although nothing broke: %v", err)
		}
	}
	return applied
}

// contestants is how many workers meet.
const contestants = 8

func oneOrderIsApplied(f *fixture) {
	order := f.worker(nil).lists(f.mint(seller), 30)
	var orders []market.Order
	for i := range contestants {
		order.Buyer = buyer + market.UserID(i)
		orders = append(orders, order)
	}
	if n := f.contest(orders); n != 1 {
		f.Errorf("%d of %d orders of one item were applied, want 1", n, contestants)
	}
}

func accountIsNotOverdrawn(f *fixture) {
	first := f.mint(seller)
	w := f.worker(nil)
	var orders []market.Order
	for i := range contestants {
		orders = append(orders, w.lists(first+market.ItemID(i), crowd.Funds*2/3))
	}
	if n := f.contest(orders); n != 1 {
		f.Errorf("%d purchases were paid from an account that can pay 1", n)
	}
	if funds := f.snapshot().Funds[buyer]; funds < 0 {
		f.Errorf("the account is overdrawn: %d coins", funds)
	}
}

// receiptSplitsTheTime keeps one order from going on while another of the same item is under way. What that costs is in
// their receipts: of the first, which holds a lock if there is one, and of the second, which waits for it or is thrown
// away and made again.
func receiptSplitsTheTime(f *fixture) {
	order := f.worker(nil).lists(f.mint(seller), 30)
	first, second := f.start(order), f.start(order)
	both := time.Now()
	f.snapshot() // time passes
	if reached(second.done) || reached(second.write.Reached()) && !reached(second.read.Reached()) {
		return // it neither waits for the first nor can be thrown away: perhaps it reads and writes by one command
	}
	passed := time.Since(both)
	f.applied(first.result())
	if err := second.result(); !errors.Is(err, market.ErrNotListed) {
		f.Errorf("the second order of an item returned %v, want %v", err, market.ErrNotListed)
	}
	r := second.receipt
	if r.LockWait+r.LockHold+r.Thrown < passed {
		f.Errorf("an order was kept waiting or made in vain for %s, and its receipt says %s waiting for locks, %s holding "+
			"them and %s thrown away", passed, r.LockWait, r.LockHold, r.Thrown)
	}
	if r.LockWait >= passed && first.receipt.LockHold < passed {
		f.Errorf("an order waited for a lock for %s while another was held for %s before its write, whose receipt says %s "+
			"holding it", r.LockWait, passed, first.receipt.LockHold)
	}
	if (r.Thrown > 0) != (r.Retries > 0) {
		f.Errorf("the receipt says %d retries, and %s thrown away", r.Retries, r.Thrown)
	}
}

// reached reports whether a channel is closed.
func reached(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

const (
	tradeSellers = 3
	tradeBuyers  = 4
	tradeItems   = 25 // of each seller
	tradePrice   = 1
)

// manyTrade lets sellers list while every buyer tries to buy every item. All can pay for all, so each item is sold,
// once.
func manyTrade(f *fixture) {
	feeds := make([]chan market.Order, tradeBuyers)
	for i := range feeds {
		feeds[i] = make(chan market.Order, tradeSellers*tradeItems)
	}
	var sellers, buyers sync.WaitGroup
	for s := market.UserID(1); s <= tradeSellers; s++ {
		w, first := f.worker(nil), f.mint(s)
		sellers.Go(func() { w.sell(s, first, feeds) })
	}
	sold := make([]int, tradeBuyers)
	for i, feed := range feeds {
		w := f.worker(nil)
		buyers.Go(func() { sold[i] = w.buy(tradeSellers+market.UserID(i+1), feed) })
	}
	sellers.Wait()
	for _, feed := range feeds {
		close(feed)
	}
	buyers.Wait()
	total := 0
	for _, n := range sold {
		total += n
	}
	if want := tradeSellers * tradeItems; total != want {
		f.Errorf("%d purchases were applied, want %d: one an item", total, want)
	}
}

// sell lists items and sends an order of each to every buyer.
func (w *worker) sell(as market.UserID, first market.ItemID, feeds []chan market.Order) {
	for item := first; item < first+tradeItems; item++ {
		if err := w.list(w.fixture.ctx, market.Listing{Item: item, Seller: as, Price: tradePrice}); err != nil {
			w.fixture.Errorf("list item %d: %v", item, err)
			continue
		}
		for _, feed := range feeds {
			feed <- market.Order{Item: item, Seller: as, Price: tradePrice}
		}
	}
}

// buy makes all orders of a feed and returns how many were applied.
func (w *worker) buy(as market.UserID, feed <-chan market.Order) (bought int) {
	for o := range feed {
		o.Buyer = as
		switch err := w.purchase(w.fixture.ctx, o); {
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
	ended, cancel := context.WithCancel(f.ctx)
	cancel()

	for _, err := range []error{
		w.purchase(ended, order),
		w.list(ended, market.Listing{Item: item + 1, Seller: seller, Price: 30}),
	} {
		if err == nil {
			f.Errorf("an operation reported success although its context had ended before")
		}
	}
	f.matches(before)
	w.leftNothing("an operation whose context had ended")
	f.applied(w.purchase(f.ctx, order))
	w.lists(item+1, 30)
}

var allSteps = []step.Name{step.Acquired, step.Read, step.BeforeWrite, step.Written, step.BeforeRelease}

// cancellationAtAnyStep cancels an order at each step. Whatever its outcome, a second worker finds the item sold or can
// buy it, and the first worker can go on.
func cancellationAtAnyStep(f *fixture) {
	item := f.mint(seller)
	second := f.worker(nil)
	for i, at := range allSteps {
		order := second.lists(item+market.ItemID(2*i), 1)
		gate := step.Hold(at)
		first := f.worker(gate.Observe)
		err := f.cancelled(gate, func(ctx context.Context) error { return first.purchase(ctx, order) })
		first.leftNothing("an order cancelled at the step " + string(at))

		again := second.purchase(f.ctx, order)
		switch {
		case err == nil && !errors.Is(again, market.ErrNotListed):
			f.Fatalf("an order cancelled at %s was applied, and the next one of the item returned %v", at, again)
		case market.Refused(err) && again != nil:
			f.Fatalf("an order cancelled at %s was refused (%v), and so was the next one: %v", at, err, again)
		}
		f.applied(first.purchase(f.ctx, first.lists(order.Item+1, 1)))
	}
}

// cancelled cancels the operation's context while it is held at the gate, and returns its outcome. A worker without
// this step finishes its operation.
func (f *fixture) cancelled(gate *step.Gate, operation func(context.Context) error) error {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	c := &call{cancel: cancel, write: gate, done: make(chan struct{})}
	f.run(c, func() error { return operation(ctx) })
	select {
	case <-gate.Reached():
	case <-c.done:
	}
	cancel()
	f.endsPromptly(c)
	return c.result()
}

func (f *fixture) endsPromptly(c *call) {
	f.Helper()
	select {
	case <-c.done:
	case <-time.After(prompt):
		f.Errorf("the operation did not end within %s of its context", prompt)
	}
}

// cancellationEndsAWait cancels an order that meets another one held before its write.
func cancellationEndsAWait(f *fixture) {
	order := f.worker(nil).lists(f.mint(seller), 30)
	first := f.start(order)
	second := f.start(order)
	second.cancel()
	f.endsPromptly(second)
	err := first.result()
	switch again := second.result(); {
	case err == nil && again == nil:
		f.Errorf("both orders of one item were applied")
	case market.Refused(err) && market.Refused(again):
		f.Errorf("neither of two orders of one item was applied: %v; %v", err, again)
	case again != nil && !market.Refused(again):
		f.Logf("the cancelled order's outcome is unknown: %v", again)
	}
}
