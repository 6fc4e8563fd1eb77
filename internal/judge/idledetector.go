package judge

import (
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/wire"
)

// An idleDetector tells which clients wait for others. What happens next is chosen only
// when all do: otherwise microseconds would decide which requests are there to choose
// from, and the same choices would not lead to the same points again.
//
// A client at its gate, a holder and one that is stopped wait for a choice. Any other is
// a process that can say nothing about itself, so its threads are looked at every
// lookEvery, as the kernel has them: which run now, and how long each has run so far. The
// client is idle once
//
//   - it has run since the last look before it was given something: a line of its input, or
//     a reply. One that has not may not have been woken yet, and looks just like an idle one.
//     Whether one that has ran before or after it was given that, no look tells; and
//   - in enoughLooks in a row no thread was running, and none had run since the look
//     before. What still computes runs, and what waits for a reply, a line or a timer
//     does not.
//
// So an idle client does nothing by itself, but what a timer has it do, which comes when
// time passes: that, too, happens only when nobody has anything else to do. If the detector
// is wrong nevertheless, a schedule does not come to the point that it is for, which the
// search notices, and plays it again.
//
// A client that asks what it has asked before, although nothing has changed since, waits,
// too: it polls. To let its request through is not worth a choice, as the answer will be
// the same.
type idleDetector struct {
	clients []observed
	changes int // how often something happened that a poll may see
}

// An observed client.
type observed struct {
	reacts    bool   // it was given something, and has not run since the look before
	ran       string // see program.Child.Activity
	given     int64  // see wire.Proxy.Replies
	idleLooks int

	asked      map[string]bool // in this schedule
	askedSince map[string]bool // since something changed
	changes    int             // what it was then
}

// How often threads are looked at, how many looks in a row have to show the same, and how
// long clients are waited for.
const (
	lookEvery   = 200 * time.Microsecond
	enoughLooks = 4
	settleLimit = 300 * time.Millisecond
)

func newIdleDetector(clients int) *idleDetector {
	d := &idleDetector{clients: make([]observed, clients)}
	for i := range d.clients {
		d.clients[i].asked = map[string]bool{}
	}
	return d
}

// reacts notes whether a client was given something just now, to which it will react.
func (d *idleDetector) reacts(client int, will bool) { d.clients[client].reacts = will }

// restart has the looks at a client so far not count.
func (d *idleDetector) restart(client int) { d.clients[client].idleLooks = 0 }

// busy looks at a client, and reports whether it may still do something. Each call is one look,
// as idleDetector counts them.
func (d *idleDetector) busy(client int, p *program.Child, gate *wire.Proxy) bool {
	c := &d.clients[client]
	given := gate.Replies()
	ran, waiting := p.Activity()
	underway := gate.Underway() || p.Unheard()

	c.idleLooks++
	hasRun := ran != c.ran
	if hasRun {
		c.reacts = false
	}
	if hasRun || !waiting || underway || given != c.given {
		c.ran = ran
		c.given = given
		c.idleLooks = 0
	}
	return c.reacts || c.idleLooks < enoughLooks
}

// changed notes that something has happened that a poll may see.
func (d *idleDetector) changed() { d.changes++ }

// asks notes a request of a client that is let through.
func (d *idleDetector) asks(client int, request string) {
	c := &d.clients[client]
	if c.askedSince == nil || c.changes != d.changes {
		c.askedSince = map[string]bool{}
		c.changes = d.changes
	}
	c.asked[request] = true
	c.askedSince[request] = true
}

// isNew reports whether a client has not asked this in the schedule.
func (d *idleDetector) isNew(client int, request string) bool {
	return !d.clients[client].asked[request]
}

// polls reports whether a client has asked this since something changed.
func (d *idleDetector) polls(client int, request string) bool {
	c := &d.clients[client]
	return c.changes == d.changes && c.askedSince[request]
}
