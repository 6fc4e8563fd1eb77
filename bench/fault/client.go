package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/child"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// clientTimeout is how long a client may take to answer before the machine, not the scheme, is to blame.
const clientTimeout = 30 * time.Second

// A client is a client in a scenario, seen from the parent: a process of its own with an account, a connection and a
// Purchaser. Its methods end the run where they fail.
type client struct {
	setup   *setup
	name    string
	account market.UserID
	process *child.Process
	events  chan event
	op      *operation // under way, or the last one
	dead    bool

	// Of a scheme that calls no steps: the client's proxy to the market, and the command that is held there.
	proxy *wire.Proxy
	trap  *wire.Trap
}

// An operation is what a client did.
type operation struct {
	order   *market.Order // nil: it did not buy
	began   time.Time
	done    bool
	outcome Outcome
}

// client starts a client with an account of its own, which is ready when this returns.
func (s *setup) client(name string) *client {
	c := &client{
		setup: s, name: name, account: seller + 1 + market.UserID(len(s.clients)), events: make(chan event, 16),
	}
	config := s.config
	if !s.scheme.Steps {
		c.proxy = s.proxy(config.Market)
		config.Market = endpointOf(c.proxy.Target())
	}
	if err := c.start(); err != nil {
		s.fail(fmt.Errorf("start client %s: %w", name, err))
	}
	s.clients = append(s.clients, c)
	if err := c.process.Send(config); err != nil {
		s.fail(fmt.Errorf("configure client %s: %w", name, err))
	}
	if e, ok := c.next(clientTimeout); !ok || !e.Ready {
		s.fail(fmt.Errorf("client %s did not open %s in %s", name, s.scheme.Name, clientTimeout))
	}
	return c
}

// start starts the client's process.
func (c *client) start() (err error) {
	if c.process, err = child.Start(childRole, c.setup.runner.folder); err == nil {
		go c.read()
	}
	return err
}

// read passes on what the child reports until it ends.
func (c *client) read() {
	defer close(c.events)
	for {
		var e event
		if c.process.Receive(&e) != nil {
			return
		}
		c.events <- e
	}
}

// at is a step to be held at.
func at(name step.Name) step.Point { return step.Point{At: name} }

// list begins to offer an item of the setup's seller.
func (c *client) list(l market.Listing, hold ...step.Point) {
	c.begin(nil, command{Do: doList, Listing: l, Hold: hold})
}

// buy begins to order an item.
func (c *client) buy(item market.ItemID, hold ...step.Point) { c.buyAt(price, item, hold...) }

// buyAt is buy at a price that may not be the item's.
func (c *client) buyAt(price int64, item market.ItemID, hold ...step.Point) {
	o := market.Order{Item: item, Seller: seller, Buyer: c.account, Price: price}
	c.begin(&o, command{Do: doBuy, Order: o, Hold: hold})
}

// buyUntil begins to order an item, and returns when the client is held at a step.
func (c *client) buyUntil(item market.ItemID, name step.Name) {
	c.buy(item, at(name))
	c.reaches(name)
}

// browseUntil begins to look for an item under a shared lock, and returns when the client is held at a step.
func (c *client) browseUntil(item market.ItemID, name step.Name) {
	l := market.Listing{Item: item, Seller: seller}
	c.begin(nil, command{Do: doBrowse, Listing: l, Hold: []step.Point{at(name)}})
	c.reaches(name)
}

// draw begins to try the lock of a draw, once. If it gets the lock it draws, and gives the lock back or keeps it.
func (c *client) draw(lock string, keep bool, hold ...step.Point) {
	c.begin(nil, command{Do: doDraw, Lock: lock, Keep: keep, Hold: hold})
}

func (c *client) begin(order *market.Order, cmd command) {
	c.op = &operation{order: order, began: time.Now()}
	c.setup.operations = append(c.setup.operations, c.op)
	if c.proxy != nil && len(cmd.Hold) > 0 {
		c.trap, cmd.Hold = c.proxy.Hold(wire.Match{Nth: c.setup.nth}), nil
	}
	c.do(cmd)
}

func (c *client) do(cmd command) {
	if err := c.process.Send(cmd); err != nil {
		c.setup.fail(fmt.Errorf("send client %s the command %s: %w", c.name, cmd.Do, err))
	}
}

// goOn lets it go from where it is held.
func (c *client) goOn() { c.release(doGo) }

// finish lets it go to the end of its operation, past all other steps at which it was to be held, and returns the
// outcome.
func (c *client) finish() Outcome {
	c.release(doFree)
	return c.ends()
}

func (c *client) release(do string) {
	if c.trap == nil {
		c.do(command{Do: do})
		return
	}
	c.trap.Open()
	c.trap = nil
}

// held waits until it is held somewhere, and says where; empty when the operation ended first, or was not held in time.
func (c *client) held(within time.Duration) step.Name {
	e, ok := c.next(within)
	if !ok {
		return ""
	}
	return e.At
}

// reaches waits until it is held at a step. Anything else fails the run.
func (c *client) reaches(name step.Name) {
	got := c.held(clientTimeout)
	if got == name {
		return
	}
	outcome := "its operation goes on"
	if c.op.done {
		outcome = c.op.outcome.String()
	}
	if name == step.Waiting && got == "" && (!c.op.done || c.op.outcome.Reason == "contended") {
		c.setup.fail(errSilent)
	}
	if name == step.Read && c.op.done && c.op.outcome.Applied() {
		c.setup.cannot("it reads, decides and writes by one command")
	}
	err := fmt.Errorf("client %s was expected at %q and came to %q (%s)", c.name, name, got, outcome)
	if o := c.op.outcome; c.op.done && (o.Unknown() || slices.Contains(inTime, o.Reason)) {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	c.setup.fail(err)
}

// inTime are the reasons for which an operation is refused that a faster machine makes in time.
var inTime = []string{"contended", "lock_lost", "not_sent"}

// buyBeside tries to buy an item whose lock another client may hold, and reports whether it got in. It is held where
// it begins to wait and before it writes: whichever comes first tells. Where it begins to wait late, the machine was too
// slow; where it never does, the lock does not say that it waits.
func (c *client) buyBeside(item market.ItemID) bool {
	c.buy(item, at(step.Waiting), at(step.BeforeWrite))
	switch c.held(c.setup.ttl / 2) {
	case step.BeforeWrite:
		return true
	case step.Waiting:
		c.goOn()
	default:
		if c.op.done || c.setup.scheme.need() == lock.NeedsEtcd {
			break
		}
		if c.held(c.setup.ttl) == step.Waiting {
			c.setup.fail(errLate)
		}
		c.setup.fail(errSilent)
	}
	return false
}

// ends waits for the end of its operation and returns the outcome. Where it is held on its way, it goes on.
func (c *client) ends() Outcome {
	o, ok := c.endsWithin(clientTimeout)
	if !ok {
		c.setup.fail(fmt.Errorf("client %s did not end its operation in %s", c.name, clientTimeout))
	}
	return o
}

// endsWithin is ends for a client that may be stuck: false if it did not end in time.
func (c *client) endsWithin(d time.Duration) (Outcome, bool) {
	for limit := time.Now().Add(d); !c.op.done; {
		e, ok := c.next(time.Until(limit))
		if !ok {
			return Outcome{}, false
		}
		if e.Done == nil { // held on its way
			c.goOn()
		}
	}
	return c.op.outcome, true
}

// getsIn is endsWithin for a client that has got nothing if it gave up waiting.
func (c *client) getsIn(d time.Duration) bool {
	o, ended := c.endsWithin(d)
	return ended && o.Reason != "contended"
}

// next waits for what it reports next; false when it reported nothing in time.
func (c *client) next(within time.Duration) (event, bool) {
	late := time.NewTimer(within)
	defer late.Stop()
	var caught <-chan struct{}
	if c.trap != nil {
		caught = c.trap.Reached()
	}
	select {
	case <-caught:
		return event{At: step.BeforeWrite}, true
	case e, ok := <-c.events:
		switch {
		case !ok:
			c.setup.fail(fmt.Errorf("client %s ended: %s", c.name, c.process.Log()))
		case e.Lacks:
			c.setup.fail(fmt.Errorf("%w: client %s: %s", backend.ErrUnavailable, c.name, e.Error))
		case e.Late:
			c.setup.fail(fmt.Errorf("%w: client %s: %s", errLate, c.name, e.Error))
		case e.Error != "":
			c.setup.fail(fmt.Errorf("client %s: %s", c.name, e.Error))
		case e.Done != nil:
			c.op.done, c.op.outcome = true, *e.Done
		}
		return e, true
	case <-late.C:
	case <-c.setup.ctx.Done():
		c.setup.fail(c.setup.ctx.Err())
	}
	return event{}, false
}

// pause stops its process, as a long garbage collection or a sleeping laptop does.
func (c *client) pause() { c.signal(c.process.Pause) }

// resume lets a paused process run on.
func (c *client) resume() { c.signal(c.process.Resume) }

func (c *client) signal(send func() error) {
	if err := send(); err != nil {
		c.setup.fail(fmt.Errorf("signal client %s: %w", c.name, err))
	}
}

// kill ends its process at once. What became of its operation is not known.
func (c *client) kill() { c.setup.check(c.end()) }

// end is kill for a run that is over, and may have failed.
func (c *client) end() (err error) {
	if c.dead {
		return nil
	}
	c.dead = true
	if err = c.process.Kill(); err != nil {
		err = fmt.Errorf("kill client %s: %w", c.name, err)
	}
	for e := range c.events { // what it said before it died counts
		if e.Done != nil {
			c.op.done, c.op.outcome = true, *e.Done
		}
	}
	if c.op != nil && !c.op.done {
		c.op.done, c.op.outcome = true, Outcome{Error: "its client was killed"}
	}
	return err
}
