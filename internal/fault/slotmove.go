package fault

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

func slotMove() Scenario {
	return Scenario{
		Name: "slot-move", Title: "the market's slot moves to another master while clients buy",
		Needs: "redis-server, redis-cli", OnCluster: true, run: moveSlot,
	}
}

// A mover is a client of which the slot moves away.
type mover struct {
	*client
	duringItem, afterItem market.ItemID // what it orders while the slot moves, and afterwards

	ordered       time.Time // when it ordered the first
	refusedDuring bool      // that order was refused
	after         int       // how often the second was
}

const ordersAfter = 3 // how often a client orders the second item, if it is refused

// moveSlot moves the market's slot under two clients, of which one follows. Each orders an item
// when all keys have moved and the slot has not (ASK, and TRYAGAIN where a key does not exist
// yet), and another when the slot has (MOVED). What is refused was not executed. A client that
// connects anew afterwards finds the slot; it is kept out where another could not release its
// lock meanwhile.
func moveSlot(s *setup) observed {
	stays := &mover{client: s.client("A"), duringItem: s.item(0), afterItem: s.item(1)}
	s.config.Follow = true
	follows := &mover{client: s.client("B"), duringItem: s.item(2), afterItem: s.item(3)}
	s.config.Follow = false // for C, which finds the slot as it connects

	other := must(s.cluster.OtherMaster(s.ctx, s.keys.Market()))
	move := must(s.cluster.BeginMove(s.ctx, s.keys.Market(), other))
	check(move.AllKeys(s.ctx))
	for _, m := range []*mover{stays, follows} {
		m.ordered = m.buy(m.duringItem)
		m.endsWithin(s.ttl / 4) // who follows may wait for the slot
	}

	check(move.AllKeys(s.ctx)) // those that clients have made
	check(move.End(s.ctx))
	s.noteFault(true, "")
	for _, m := range []*mover{stays, follows} {
		m.refusedDuring = m.wasRefused(m.ends())
		for m.after < ordersAfter && m.wasRefused(m.buyToEnd(m.afterItem)) {
			m.after++
		}
	}

	s.awaitMaster(other)
	kept := verify.AtOnce
	anew := s.client("C")
	for _, m := range []*mover{stays, follows} {
		if m.refusedDuring {
			since := m.ordered
			if !s.scheme.TakesLock() { // no lease has begun: the wait of C alone is measured
				since = time.Now()
			}
			kept = longer(kept, anew.keptFrom(m.duringItem, since))
		}
	}
	why := stays.met("a client that does not follow") + "; " + follows.met("one that follows")
	if kept != verify.AtOnce {
		why += "; it could not release its lock"
	}
	return s.conclude(kept, why)
}

// wasRefused reports whether an order was certainly not executed because of the move.
func (m *mover) wasRefused(o OpResult) bool {
	refused := o.Reason == market.Reason(market.ErrRejected)
	if !refused && !o.Applied() {
		fail(fmt.Errorf("%w: an order of client %s is %s", errLate, m.name, o))
	}
	return refused
}

// met says what became of its orders.
func (m *mover) met(who string) string {
	text := who + " is served while the slot moves"
	if m.refusedDuring {
		text = who + " is refused while the slot moves"
	}

	switch {
	case m.after == ordersAfter:
		text += ", and afterwards until it connects anew"
	case m.after > 0:
		text += fmt.Sprintf(", %s more afterwards, and then served", english.Plural(m.after, "time", ""))
	case m.refusedDuring:
		text += ", and served afterwards"
	default:
		text += " and afterwards"
	}
	return text
}

// awaitMaster returns when the cluster says that a node has the market's slot, and goes there.
func (s *setup) awaitMaster(node int) {
	check(process.Await(s.ctx, pollEvery, func() error {
		master, err := s.cluster.Master(s.ctx, s.keys.Market())
		if err == nil && master != node {
			err = fmt.Errorf("%s has the slot, and not yet %s", s.cluster.Addrs()[master], s.cluster.Addrs()[node])
		}
		return err
	}))
	s.conn = own(s, must(s.server.Dialer(s.keys.Market()).Dial(s.ctx)))
}
