package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// clientTimeout is how long a client may take to answer before the machine, not
// the scheme, is to blame.
const clientTimeout = 30 * time.Second

// A client is a client in a scenario, seen from the parent. Its methods end the
// run where they fail.
type client struct {
	setup   *setup
	name    string
	account market.UserID
	process *process.Process
	in, out *os.File // of its process
	send    *json.Encoder
	events  chan event
	op      *operation // under way, or the last one
	at      step.Name  // where it is held; empty: nowhere, as far as is known
	dead    bool
	paused  bool          // its scenario has paused it
	stood   time.Duration // the longest time for which its process stood still before that

	readsClock bool // it has read its clock while that was wrong
}

type operation struct {
	command
	began   time.Time
	gaveUp  int // how often it gave up and was made again
	done    bool
	outcome OpResult
}

// client starts a client with an account of its own, which is ready when this returns. Its
// account and its number are its place among the clients, which it takes before anything is
// sent: whatever fails from then on, it is ended with the others. The opening has accounts for
// the seller and nine clients: at an order of a tenth market.Audit would panic, and of more
// accounts findings.moneyHarm might not see every problem.
func (s *setup) client(name string) *client {
	c := &client{
		setup:   s,
		name:    name,
		account: seller + 1 + market.UserID(len(s.clients)),
		events:  make(chan event, 16),
	}
	c.check(c.start(s.runner.folder))

	go c.read()
	s.config.Number = len(s.clients)
	s.clients = append(s.clients, c)

	c.check(c.send.Encode(s.config))
	if e, ok := c.next(clientTimeout); !ok || !e.Ready {
		fail(fmt.Errorf("client %s did not open %s in %s", name, s.scheme.Name, clientTimeout))
	}
	return c
}

// Marks a process that is this program once more, as a client in a scenario.
const childEnv = "MARKETSIM_CHILD"

// start starts its process. On Linux it dies with this one, however that ends; elsewhere
// it ends when its input does.
func (c *client) start(folder *process.Folder) error {
	program, errProgram := os.Executable()

	// Errors are joined below, since all ends of pipes that were opened have to be closed.
	childIn, in, errIn := os.Pipe()
	out, childOut, errOut := os.Pipe()
	c.in = in
	c.out = out
	c.send = json.NewEncoder(in)

	c.process = &process.Process{
		Program: program,
		Folder:  folder,
		Env:     append(os.Environ(), childEnv+"=1"),
		Stdin:   childIn,
		Stdout:  childOut,
	}

	err := errors.Join(errProgram, errIn, errOut)
	if err == nil {
		err = c.process.Start(context.Background())
	}

	// The child has its own. With childOut open here, read would see no end when it dies.
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
	}
	return err
}

// check is the function check, with the client's name in the error.
func (c *client) check(err error) {
	if err != nil {
		fail(fmt.Errorf("client %s: %w", c.name, err))
	}
}

// read passes on what its process reports, in a goroutine of its own. It closes events
// when nothing more comes: next takes that for a failure, end for the end of the process.
func (c *client) read() {
	defer close(c.events)
	defer c.out.Close()
	for lines := json.NewDecoder(c.out); ; {
		var e event
		if lines.Decode(&e) != nil {
			return
		}
		c.events <- e
	}
}

func at(name step.Name) step.Breakpoint { return step.Breakpoint{At: name} }

// list begins to offer an item of the setup's seller. It returns when it began,
// as buy and the like do.
func (c *client) list(l market.Listing, hold ...step.Breakpoint) time.Time {
	return c.begin(command{Do: doList, Listing: l, Hold: hold})
}

func (c *client) buy(item market.ItemID, hold ...step.Breakpoint) time.Time {
	return c.buyAt(price, item, hold...)
}

// buyToEnd is buy to its end.
func (c *client) buyToEnd(item market.ItemID) OpResult {
	c.buy(item)
	return c.ends()
}

// buyAt is buy at a price that may not be the item's.
func (c *client) buyAt(price int64, item market.ItemID, hold ...step.Breakpoint) time.Time {
	o := market.Order{Item: item, Seller: seller, Buyer: c.account, Price: price}
	return c.begin(command{Do: doBuy, Order: o, Hold: hold})
}

func (c *client) buyUntil(item market.ItemID, name step.Name) time.Time {
	began := c.buy(item, at(name))
	c.awaitStep(name)
	return began
}

func (c *client) keptFrom(
	item market.ItemID, leaseBegan time.Time, hold ...step.Breakpoint) verify.KeptOut {

	c.buy(item, hold...)
	return c.setup.keptOut(c, leaseBegan)
}

// listUntilRelease is list of the i-th spare item, and returns when the client is held
// before it releases.
func (c *client) listUntilRelease(i int) market.Listing {
	l := c.setup.spare(i)
	c.list(l, at(step.BeforeRelease))
	c.awaitStep(step.BeforeRelease)
	return l
}

// browseUntilAcquired begins to look for an item under a shared lock, and returns when
// the client has that.
func (c *client) browseUntilAcquired(item market.ItemID) time.Time {
	l := market.Listing{Item: item, Seller: seller}
	began := c.begin(command{Do: doBrowse, Listing: l, Hold: []step.Breakpoint{at(step.Acquired)}})
	c.awaitStep(step.Acquired)
	return began
}

// begin tells it to begin an operation. Its last one must have ended: what its process reports
// is noted of c.op, and its process lets only the newest one go on (see child.serve).
func (c *client) begin(cmd command) time.Time {
	c.op = &operation{command: cmd, began: time.Now(), outcome: OpResult{Error: "it has not ended"}}
	c.setup.operations = append(c.setup.operations, c.op)
	c.tell(cmd)
	return c.op.began
}

// tell sends a command to its process, which is then no longer where it was held.
func (c *client) tell(cmd command) {
	c.at = ""
	c.check(c.send.Encode(cmd))
}

func (c *client) goOn() { c.tell(command{Do: doGo}) }

// free lets it go to the end of its operation, past all other steps at which it
// was to be held.
func (c *client) free() { c.tell(command{Do: doFree}) }

func (c *client) finish() OpResult {
	c.free()
	return c.ends()
}

// held waits until it is held, and says where; empty: its operation ended before
// that, or it was not held in time.
func (c *client) held(within time.Duration) step.Name {
	e, _ := c.next(within)
	return e.At
}

// awaitStep waits until it is held at a step. Anything else fails the run.
func (c *client) awaitStep(name step.Name) {
	c.held(clientTimeout)
	c.mustBe(name)
}

// mustBe ends the run if it is not held at a step: by errUnclear or notApplicable if the
// scheme may not report that step, by errLate if a slow machine explains where it is, and
// else by an error with which Runner.Run ends.
func (c *client) mustBe(name step.Name) {
	if c.at == name {
		return
	}

	mayWait := c.at == "" && (!c.op.done || c.op.outcome.Reason == contended)
	if name == step.Waiting && mayWait {
		fail(errUnclear)
	}
	if name == step.Read && c.op.done && c.op.outcome.Applied() {
		notApplicable("it tells of no step between its read and its write")
	}

	err := fmt.Errorf("it was expected at %q and came to %q", name, c.at)
	if c.op.done {
		err = fmt.Errorf("%w (%s)", err, c.op.outcome)
	}

	// On a faster machine, an operation that is refused for one of these reasons would have been
	// in time. They are names of market.Reason; empty: the outcome is unknown.
	late := []string{"", contended, "lock_lost", "not_sent"}
	if c.op.done && !c.op.outcome.Applied() && slices.Contains(late, c.op.outcome.Reason) {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	c.check(err)
}

// buyBeside tries to buy an item whose lock another client may hold, and reports whether
// it got in: it is held when it begins to wait, and before it writes. If it begins to
// wait late, the machine was too slow.
func (c *client) buyBeside(item market.ItemID) bool {
	c.buy(item, at(step.Waiting), at(step.BeforeWrite))

	// With etcd all of this time passes. Together with what has passed before, in releaseLate a
	// fifth of a lease, it must stay below the three quarters of checkInTime.
	switch c.held(c.setup.ttl / 2) {
	case step.BeforeWrite:
		return true
	case step.Waiting:
		c.goOn()
	default: // the lock of etcd does not report step.Waiting
		if c.op.done || c.setup.scheme.Lock.Needs == lock.NeedsEtcd {
			break
		}
		if c.held(c.setup.ttl) == step.Waiting {
			fail(errLate)
		}
		fail(errUnclear)
	}
	return false
}

// comesBeside is buyBeside while others hold the lock, with leases that began at since
// or later. It ends what all do.
func (c *client) comesBeside(item market.ItemID, since time.Time, holders ...*client) bool {
	in := c.buyBeside(item)
	c.setup.checkInTime(since)
	for _, each := range append(holders, c) {
		each.finish()
	}
	return in
}

// ends waits for the end of its operation and returns the outcome. Whenever it is
// held before that, it goes on.
func (c *client) ends() OpResult {
	o, ok := c.endsWithin(clientTimeout)
	if !ok {
		fail(fmt.Errorf("client %s did not end its operation in %s", c.name, clientTimeout))
	}
	return o
}

// endsWithin is ends for a client that may be stuck: false if it did not end in time.
func (c *client) endsWithin(d time.Duration) (OpResult, bool) {
	for limit := time.Now().Add(d); !c.op.done; {
		e, ok := c.next(time.Until(limit))
		if !ok {
			return OpResult{}, false
		}
		if e.Done == nil { // held on its way
			c.goOn()
		}
	}
	return c.op.outcome, true
}

const contended = "contended" // market.Reason of an operation that gave up waiting for a lock

// getsIn waits until its operation ends or is held, and reports whether that was in time.
// An operation that gives up waiting for a lock, or gets it so late that its lease is
// over, is made again, and counts as one that went on: setup.operations has each,
// and c.op is the last, with the time at which the first began.
func (c *client) getsIn(within time.Duration) bool {
	for limit := time.Now().Add(within); c.at == ""; {
		switch e, ok := c.next(time.Until(limit)); {
		case ok && e.At == step.Waiting:
			c.goOn()

		case ok && e.At == "" && slices.Contains([]string{contended, "lock_lost"}, c.op.outcome.Reason):
			c.setup.wait(pollEvery)
			before := *c.op
			c.begin(before.command)
			c.op.gaveUp = before.gaveUp + 1
			c.op.began = before.began

		default:
			return ok
		}
	}
	return true
}

// next waits for its next report; false if none came in time. It forgets where it
// was held before: only a client that was told to go on, or to begin, is asked.
func (c *client) next(within time.Duration) (event, bool) {
	c.at = ""

	select {
	case e, ok := <-c.events:
		switch {
		case !ok:
			c.check(fmt.Errorf("it ended: %s", c.process.Log()))
		case e.Lacks:
			c.check(fmt.Errorf("%w: %s", process.ErrUnavailable, e.Error))
		case e.Error != "":
			c.check(errors.New(e.Error))
		}

		c.at = e.At
		c.readsClock = e.Clock
		c.note(e)
		return e, true
	case <-time.After(within):
	case <-c.setup.ctx.Done():
		fail(c.setup.ctx.Err())
	}
	return event{}, false
}

// note keeps what counts of every report: the outcome, and for how long the
// process stood still by itself.
func (c *client) note(e event) {
	if !c.paused {
		c.stood = max(c.stood, e.Stood)
	}
	if e.Done != nil {
		c.op.done = true
		c.op.outcome = *e.Done
	}
}

// pause stops its process, as a long garbage collection or a sleeping laptop does.
func (c *client) pause() {
	c.paused = true
	c.check(c.process.Pause())
	c.setup.noteFault(true, "")
}

func (c *client) resume() { c.check(c.process.Resume()) }

// kill ends its process at once. What became of its operation is not known.
func (c *client) kill() {
	check(c.end())
	c.setup.noteFault(true, "")
}

// end is kill for a run that is over, and may have failed. setup.attempt calls it outside guard:
// it returns errors, and must not fail. It may be called again.
func (c *client) end() (err error) {
	if c.dead {
		return nil
	}

	c.dead = true
	// Killed before its input is closed: at the end of that a client goes on from where it is held,
	// to the end of its operation, and gives its locks back (see serve).
	err = c.process.Kill()
	c.in.Close()
	if err != nil {
		err = fmt.Errorf("kill client %s: %w", c.name, err)
	}

	// What it reported before it died counts. Then read closes events.
	for e := range c.events {
		c.note(e)
	}
	if c.op != nil && !c.op.done {
		c.op.done = true
		c.op.outcome = OpResult{Error: "its client was killed"}
	}
	return err
}
