package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// A location is where an item is. The zero location is nowhere: the item was not minted.
type location struct {
	user   market.UserID // whose inventory, or who lists it
	listed bool
	price  int64
}

func (p location) String() string {
	switch {
	case p == location{}:
		return "nowhere"
	case p.listed:
		return fmt.Sprintf("on the market, listed by %d for %s", p.user, coins(p.price))
	}
	return fmt.Sprintf("in the inventory of %d", p.user)
}

func (f Found) location() location { return location{f.User, f.Listed, f.Price} }

func coins(n int64) string {
	if n == 1 {
		return "1 coin"
	}
	return fmt.Sprintf("%d coins", n)
}

// A move takes an item from one location to another. A move that may happen does so if it can, and has no effect
// otherwise: an order in which it comes after everything else is one in which it never happened.
type move struct {
	from, to location
	may      bool
}

func (m move) apply(at state) (state, bool) {
	switch {
	case at == state(m.from):
		return m.to, true
	case m.may:
		return at, true
	}
	return at, false
}

func (m move) pending() action { m.may = true; return m }

func (m move) String() string {
	text := fmt.Sprintf("minted for %d", m.to.user)
	switch {
	case m.to.listed:
		text = fmt.Sprintf("listed by %d for %s", m.to.user, coins(m.to.price))
	case m.from.listed:
		text = fmt.Sprintf("sold by %d to %d for %s", m.from.user, m.to.user, coins(m.from.price))
	}
	if m.may {
		text += ", outcome not told"
	}
	return text
}

// A look is a refusal that says where an item was, or was not.
type look struct {
	reason string
	user   market.UserID
	price  int64
}

func (l look) apply(at state) (state, bool) {
	p := at.(location)
	listed := p.listed && p.user == l.user
	switch l.reason {
	case notOwned:
		return at, p != location{user: l.user}
	case notListed:
		return at, !listed
	default: // priceChanged
		return at, listed && p.price != l.price
	}
}

func (look) pending() action { return nil }

func (l look) String() string {
	switch l.reason {
	case notOwned:
		return fmt.Sprintf("refused to %d as not owned", l.user)
	case notListed:
		return fmt.Sprintf("refused to a buyer as not listed by %d", l.user)
	default:
		return fmt.Sprintf("refused to a buyer as listed by %d at another price than %s", l.user, coins(l.price))
	}
}

// The refusals that say something of an item. Those of contention, of a lost lock and the like say nothing.
var (
	notOwned          = market.Reason(market.ErrNotOwned)
	notListed         = market.Reason(market.ErrNotListed)
	priceChanged      = market.Reason(market.ErrPriceChanged)
	insufficientFunds = market.Reason(market.ErrInsufficientFunds)
)

// An ending is where an item lay when every worker had stopped: in one location, or wrongly in none or several.
type ending []location

func (e ending) apply(at state) (state, bool) {
	if len(e) == 0 {
		return at, at == state(location{})
	}
	return at, len(e) == 1 && at == state(e[0])
}

func (ending) pending() action { return nil }

func (e ending) String() string {
	switch len(e) {
	case 0:
		return "in the end it lies nowhere"
	case 1:
		return fmt.Sprintf("in the end it lies %s", e[0])
	}
	text := fmt.Sprintf("in the end it lies %s", e[0])
	for _, p := range e[1:] {
		text += fmt.Sprintf(" and %s", p)
	}
	return text
}

// action is what an operation does to its item; nil if it says nothing of it.
func (o *Op) action() action {
	listed := location{o.Seller, true, o.Price}
	m := move{from: listed, to: location{user: o.Buyer}, may: o.Outcome == Unknown}
	if o.Kind == List {
		m.from, m.to = location{user: o.Seller}, listed
	}
	switch {
	case o.Outcome != Refused:
		return m
	case o.Reason == notOwned && o.Kind == List, o.Kind == Purchase && (o.Reason == notListed || o.Reason == priceChanged):
		return look{o.Reason, o.Seller, o.Price}
	}
	return nil
}

// A trace is all that is recorded of one item.
type trace struct {
	item  market.ItemID
	mints []*Mint
	ops   []*Op
	final []Found
}

// steps are the operations on the item and its end.
func (l *trace) steps() []step {
	var all []step
	for _, m := range l.mints {
		minted := move{to: location{user: m.Owner}, may: m.Outcome == Unknown}
		all = append(all, step{m.Worker - 1, m.Start, m.returned(), minted, nil})
	}
	for _, o := range l.ops {
		if a := o.action(); a != nil {
			all = append(all, step{o.Worker - 1, o.Start, o.returned(), a, o})
		}
	}
	return append(all, l.ending())
}

// ending is the last step: where the item lies when every worker has stopped.
func (l *trace) ending() step {
	end := ending{}
	for _, f := range l.final {
		end = append(end, f.location())
	}
	return step{0, atEnd, atEnd, end, nil}
}

// gather finds the traces of all items, in their order. Items that were minted once and never moved are only counted.
// Batches that were refused hold no items.
func (c *checker) gather() {
	g := &gatherer{final: c.h.Final}
	for i := range c.h.Ops {
		g.ops = append(g.ops, &c.h.Ops[i])
	}
	for i := range c.h.Mints {
		if m := &c.h.Mints[i]; m.First > 0 && m.Outcome != Refused {
			g.mints = append(g.mints, m)
		}
	}
	slices.SortStableFunc(g.ops, func(a, b *Op) int { return cmp.Compare(a.Item, b.Item) })
	slices.SortStableFunc(g.mints, func(a, b *Mint) int { return cmp.Compare(a.First, b.First) })
	for l, ok := g.next(); ok; l, ok = g.next() {
		if l.still() {
			c.still++
		} else {
			c.traces = append(c.traces, &l)
		}
	}
}

// gatherer goes through three lists, each in the order of items, at once.
type gatherer struct {
	ops   []*Op
	mints []*Mint // those that may hold the next item, and later ones
	final []Found
	last  market.ItemID
}

// next is the trace of the next item; false when there is none.
func (g *gatherer) next() (l trace, ok bool) {
	g.mints = g.mints[dropped(g.mints, func(m *Mint) bool { return m.First+market.BatchSize-1 <= g.last }):]
	earliest := func(item market.ItemID) {
		if !ok || item < l.item {
			l.item, ok = item, true
		}
	}
	if len(g.ops) > 0 {
		earliest(g.ops[0].Item)
	}
	if len(g.final) > 0 {
		earliest(g.final[0].Item)
	}
	if len(g.mints) > 0 {
		earliest(max(g.last+1, g.mints[0].First))
	}
	g.last = l.item
	for _, m := range g.mints {
		if m.First > l.item {
			break
		}
		l.mints = append(l.mints, m)
	}
	n := dropped(g.ops, func(o *Op) bool { return o.Item == l.item })
	l.ops, g.ops = g.ops[:n], g.ops[n:]
	n = dropped(g.final, func(f Found) bool { return f.Item == l.item })
	l.final, g.final = g.final[:n], g.final[n:]
	return l, ok
}

// dropped is how many elements at the beginning are so.
func dropped[T any](all []T, so func(T) bool) int {
	for i, one := range all {
		if !so(one) {
			return i
		}
	}
	return len(all)
}

// still reports whether an item was minted for certain, and is where it was minted.
func (l *trace) still() bool {
	return len(l.ops) == 0 && len(l.mints) == 1 && l.mints[0].Outcome == Applied &&
		len(l.final) == 1 && l.final[0].location() == location{user: l.mints[0].Owner}
}

// items looks for an order of the operations on each item.
func (c *checker) items() *Part {
	p := newPart("items")
	for _, l := range c.traces {
		if c.ctx.Err() != nil {
			p.doubt("time ran out at item %d", l.item)
			break
		}
		switch result, found := c.inOrder(location{}, l.steps(), lastLocation); result {
		case Violated:
			p.show(found, telling{fmt.Sprintf("item %d", l.item), found.itemStart(), found.told(), found.itemFault()})
		case Undecided:
			p.doubt("item %d: too many operations at a time, or time ran out", l.item)
		}
	}
	for _, stray := range c.h.Strays {
		p.tell("%s", stray)
	}
	p.Checked = fmt.Sprintf("%d items, %d of them with operations: %d listings and orders, %d batches minted",
		c.still+len(c.traces), len(c.traces), len(c.h.Ops),
		count(c.h.Mints, func(m Mint) bool { return m.Outcome != Refused }))
	return p
}

// lastLocation is where an item is after steps that are all certain, whatever their order was: each move leaves one
// location and enters another, so that the last is the one that was entered once more than it was left, or the first.
func lastLocation(from state, steps []step) state {
	for at, n := range visits(from.(location), steps) {
		if n == 1 {
			return at
		}
	}
	return from
}

// visits is how many times more an item that begins in a location came to each location than it left it.
func visits(from location, steps []step) map[location]int {
	all := map[location]int{from: 1}
	for _, s := range steps {
		if m, ok := s.act.(move); ok {
			all[m.from]--
			all[m.to]++
		}
	}
	return all
}
