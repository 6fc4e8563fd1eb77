package fault

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// patience is how long a client may take to answer before the machine, not the subject, is to blame.
const patience = 30 * time.Second

// An Actor is a client in a scenario: a process of its own with an account, a connection and a Purchaser. After a
// failure of the stage its methods do nothing.
type Actor struct {
	stage   *Stage
	name    string
	account market.UserID
	child   *backend.Child
	in      *os.File
	tell    *json.Encoder
	events  chan event
	op      *operation // under way
	dead    bool

	// Of a subject that does not say where it is: its line to the market, and the command that is held there.
	line *wire.Proxy
	trap *wire.Trap
}

// An operation is what an actor did.
type operation struct {
	listing *market.Listing
	order   *market.Order
	done    bool
	outcome Outcome
}

// list begins to offer an item of the stage's seller.
func (a *Actor) list(l market.Listing, hold ...Point) {
	a.begin(&operation{listing: &l}, command{Do: doList, Listing: l, Hold: hold})
}

// buy begins to order an item.
func (a *Actor) buy(item market.ItemID, hold ...Point) {
	o := market.Order{Item: item, Seller: seller, Buyer: a.account, Price: price}
	a.begin(&operation{order: &o}, command{Do: doBuy, Order: o, Hold: hold})
}

// look begins to look for an item under a shared lock.
func (a *Actor) look(item market.ItemID, hold ...Point) {
	a.begin(&operation{}, command{Do: doLook, Listing: market.Listing{Item: item, Seller: seller}, Hold: hold})
}

func (a *Actor) begin(op *operation, cmd command) {
	if a.stage.failed() {
		return
	}
	a.op = op
	a.stage.operations = append(a.stage.operations, op)
	if a.line != nil && len(cmd.Hold) > 0 {
		a.trap, cmd.Hold = a.line.Hold(wire.Match{Nth: a.stage.nth}), nil
	}
	a.send(cmd)
}

func (a *Actor) send(cmd command) {
	if err := a.tell.Encode(cmd); err != nil {
		a.stage.fail(fmt.Errorf("tell client %s to %s: %w", a.name, cmd.Do, err))
	}
}

// goOn lets it go from where it is held.
func (a *Actor) goOn() {
	switch {
	case a.stage.failed():
	case a.trap != nil:
		a.trap.Open()
		a.trap = nil
	default:
		a.send(command{Do: doGo})
	}
}

// free lets it go from where it is held, and on to its end.
func (a *Actor) free() {
	if a.trap != nil {
		a.goOn()
	} else if !a.stage.failed() {
		a.send(command{Do: doFree})
	}
}

// held waits until it is held somewhere, and says where; empty when the operation ended first, or was not held in time.
func (a *Actor) held(within time.Duration) step.Name {
	e, ok := a.next(within)
	if !ok {
		return ""
	}
	return e.At
}

// enters reports whether it gets in where somebody may hold the lock. It is to be held where it begins to wait, and
// before it writes: whichever comes first tells. Where neither comes, the machine was too slow, or its lock cannot say
// that it waits.
func (a *Actor) enters() bool {
	switch at := a.held(a.stage.ttl / 2); {
	case at == step.BeforeWrite:
		return true
	case at == step.Waiting:
		a.goOn()
	case !a.stage.failed() && !a.op.done && a.stage.need() != lock.NeedsEtcd:
		a.stage.fail(errLate)
	}
	return false
}

// reaches waits until it is held at a step. Anything else fails the stage: the play goes on from there.
func (a *Actor) reaches(at step.Name) {
	if got := a.held(patience); got != at && !a.stage.failed() {
		a.stage.fail(fmt.Errorf("client %s was to reach %q and came to %q (%s)", a.name, at, got, a.told()))
	}
}

// ends waits for the end of its operation and returns what it was told. Where it is still held on its way, it goes on.
func (a *Actor) ends() Outcome {
	o, ok := a.endsWithin(patience)
	if !ok && !a.stage.failed() {
		a.stage.fail(fmt.Errorf("client %s did not end its operation in %s", a.name, patience))
	}
	return o
}

// endsWithin is ends for a client that may be stuck.
func (a *Actor) endsWithin(d time.Duration) (Outcome, bool) {
	for limit := time.Now().Add(d); a.op != nil && !a.op.done; {
		e, ok := a.next(time.Until(limit))
		if !ok {
			return Outcome{}, false
		}
		if e.Done == nil { // held on its way
			a.goOn()
		}
	}
	if a.op == nil {
		return Outcome{}, false
	}
	return a.op.outcome, true
}

// next waits for what it reports next; false when it reported nothing in time.
func (a *Actor) next(within time.Duration) (event, bool) {
	if a.stage.failed() {
		return event{}, false
	}
	late := time.NewTimer(within)
	defer late.Stop()
	var caught <-chan struct{}
	if a.trap != nil {
		caught = a.trap.Reached()
	}
	select {
	case <-caught:
		return event{At: step.BeforeWrite}, true
	case e, ok := <-a.events:
		switch {
		case !ok:
			a.stage.fail(fmt.Errorf("client %s ended: %s", a.name, a.child.Log()))
			return event{}, false
		case e.Error != "":
			a.stage.fail(fmt.Errorf("client %s: %s", a.name, e.Error))
			return event{}, false
		case e.Done != nil:
			a.op.done, a.op.outcome = true, *e.Done
		}
		return e, true
	case <-late.C:
		return event{}, false
	case <-a.stage.ctx.Done():
		a.stage.fail(a.stage.ctx.Err())
		return event{}, false
	}
}

func (a *Actor) told() string {
	if a.op == nil || !a.op.done {
		return "still at it"
	}
	return a.op.outcome.String()
}
