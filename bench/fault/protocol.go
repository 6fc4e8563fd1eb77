package fault

import (
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/step"
)

// The parent and a child talk in lines of JSON: one casting, then commands down, and events up.

// casting tells a child who it is.
type casting struct {
	Subject   string
	Prefix    string
	Accounts  int
	Market    endpoint
	Locks     *endpoint // where the locks live, if that is not the market's server
	Masters   []endpoint
	ZooKeeper []string
	Etcd      []string
	Clock     time.Duration // how far its wall clock is ahead
	Resend    bool          // its client sends a command again by itself, as go-redis does by default
}

// endpoint is a private server, which has neither password nor TLS.
type endpoint struct{ Network, Addr string }

func at(t backend.Target) endpoint { return endpoint{t.Network, t.Addr} }

func (e endpoint) target() backend.Target { return backend.Target{Network: e.Network, Addr: e.Addr} }

// What a child can be told to do.
const (
	doList = "list"
	doBuy  = "buy"
	doLook = "look" // browse under a shared lock
	doGo   = "go"   // from where it is held
	doFree = "free" // from where it is held, and be held nowhere else
)

type command struct {
	Do      string
	Listing market.Listing
	Order   market.Order
	Hold    []Point // where it is held, once each
}

// A Point is where an operation is held.
type Point struct {
	At    step.Name
	After step.Name // only once this step was passed; empty: at once
}

// event is what a child reports; one of its fields is set.
type event struct {
	Ready bool      // its Purchaser is open
	At    step.Name // it is held there
	Done  *Outcome
	Error string // it cannot go on
}

// Outcome is what a client was told of its operation.
type Outcome struct {
	Reason    string // why it was refused, as market.Reason names it
	Error     string // any error's text
	LeaseLost bool   // as in market.Receipt
	Torn      bool   // of a look: the item was not in exactly one place
}

// Applied reports whether the operation was applied for sure.
func (o Outcome) Applied() bool { return o.Error == "" }

// Unknown reports whether the client was not told what became of it.
func (o Outcome) Unknown() bool { return o.Error != "" && o.Reason == "" }

func outcomeOf(r market.Receipt, err error) *Outcome {
	o := &Outcome{Reason: market.Reason(err), LeaseLost: r.LeaseLost}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

// errVanished is what became of an operation whose client was killed.
var errVanished = errors.New("its client was killed")

// String tells an outcome to a reader.
func (o Outcome) String() string {
	switch {
	case o.Applied():
		return "applied"
	case o.Unknown():
		return fmt.Sprintf("unknown (%s)", o.Error)
	}
	return "refused: " + o.Reason
}
