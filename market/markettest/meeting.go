package markettest

import (
	"context"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/step"
)

const (
	// grace is how long the suite waits for a worker to finish, to come to its write or to wait for a lock. It
	// passes only where a worker waits and does not tell.
	grace = 200 * time.Millisecond

	// prompt is how soon an operation has to end after its context.
	prompt = 2 * time.Second
)

// A call is an order under way in a goroutine of its own.
type call struct {
	cancel  context.CancelFunc
	write   *step.Gate // holds the worker once, before its write
	waiting *step.Gate // does not hold: tells that the worker waits for a lock
	done    chan struct{}
	err     error // set when done is closed
}

// start makes an order with a worker of its own and returns when it has finished, is held before its write, or
// waits.
func (f *floor) start(o market.Order) *call {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	c := &call{cancel: cancel, write: step.Hold(step.BeforeWrite), waiting: step.Hold(step.Waiting), done: make(chan struct{})}
	c.waiting.Open()
	w := f.worker(func(ctx context.Context, at step.Name) {
		c.write.Observe(ctx, at)
		c.waiting.Observe(ctx, at)
	})
	f.run(c, func() error { return w.purchase(ctx, o) })
	select {
	case <-c.write.Reached():
	case <-c.waiting.Reached():
	case <-c.done:
	case <-time.After(grace):
	}
	return c
}

// run runs the call's operation. The test does not end before it has.
func (f *floor) run(c *call, operation func() error) {
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
func (f *floor) contest(orders []market.Order) (applied int) {
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
