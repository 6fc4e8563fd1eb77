package markettest

import (
	"context"
	"errors"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/step"
)

func endedContextAppliesNothing(f *floor) {
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

// cancellationAtAnyStep cancels an order at each step. Whatever came of it, a second worker finds the item sold or
// can buy it, and the first one goes on as if nothing had been.
func cancellationAtAnyStep(f *floor) {
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
// this step finishes undisturbed.
func (f *floor) cancelled(gate *step.Gate, operation func(context.Context) error) error {
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

func (f *floor) endsPromptly(c *call) {
	f.Helper()
	select {
	case <-c.done:
	case <-time.After(prompt):
		f.Errorf("the operation did not end within %s of its context", prompt)
	}
}

// cancellationEndsAWait cancels an order that meets another one held before its write.
func cancellationEndsAWait(f *floor) {
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
