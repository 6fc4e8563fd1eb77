package history

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// A location is where an item is. The zero location is nowhere: the item was not minted.
type location struct {
	user   market.UserID // whose inventory, or who lists it
	listed bool
	price  int64
}

func (l location) String() string {
	switch {
	case l == location{}:
		return "lies nowhere"
	case l.listed:
		return fmt.Sprintf("lies on the market, listed by %d for %s", l.user, coins(l.price))
	}
	return fmt.Sprintf("lies in the inventory of %d", l.user)
}

func coins(n int64) string { return english.Plural(int(n), "coin", "") }

// A move takes an item from one location to another. Moves are compared with ==.
type move struct{ from, to location }

func (m move) apply(at state) (state, bool) { return m.to, at == state(m.from) }

func (m move) String() string {
	switch {
	case m.to.listed:
		return fmt.Sprintf("listed by %d for %s", m.to.user, coins(m.to.price))
	case m.from.listed:
		return fmt.Sprintf("sold by %d to %d for %s", m.from.user, m.to.user, coins(m.from.price))
	}
	return fmt.Sprintf("minted for %d", m.to.user)
}

// action is what an operation does to its item, or says of it; nil if that is nothing.
func (o *Op) action() action {
	owned := location{user: o.Seller}
	listed := location{user: o.Seller, listed: true, price: o.Price}

	switch {
	case o.Outcome == Refused:
		return o.refusal()
	case o.Item == 0: // a mint that failed before it had any
		return nil
	case o.Kind == Mint:
		return move{from: location{}, to: owned}
	case o.Kind == List:
		return move{from: owned, to: listed}
	}
	return move{from: listed, to: location{user: o.Buyer}}
}

// refusal is what a refused operation says of its item. That of contention, of lacking
// coins and the like says nothing.
func (o *Op) refusal() action {
	listed := func(l location) bool {
		return l.listed && l.user == o.Seller
	}
	answer := func(text string, holds func(location) bool) action {
		return reading{
			text:  text,
			wrong: "refused, though there was no such moment",
			holds: func(s state) bool { return holds(s.(location)) },
		}
	}

	// A refusal is right if at some moment of the call the item was where the refusal says.
	switch {
	case o.Kind == List && o.Reason == market.Reason(market.ErrNotOwned):
		text := fmt.Sprintf("refused to %d as not owned", o.Seller)
		return answer(text, func(l location) bool {
			return l != location{user: o.Seller}
		})

	case o.Kind == Purchase && o.Reason == market.Reason(market.ErrNotListed):
		text := fmt.Sprintf("refused to a buyer as not listed by %d", o.Seller)
		return answer(text, func(l location) bool {
			return !listed(l)
		})

	case o.Kind == Purchase && o.Reason == market.Reason(market.ErrPriceChanged):
		text := fmt.Sprintf("refused to a buyer as listed by %d at another price than %s",
			o.Seller, coins(o.Price))
		return answer(text, func(l location) bool {
			return listed(l) && l.price != o.Price
		})
	}
	return nil
}

// finalReading is what the market's end says of an item: where it lies. It should be one
// place; gather has made nowhere one, so that there is always a place.
func finalReading(places []location) reading {
	r := reading{
		wrong: "nothing brought it there",
		holds: func(s state) bool { return len(places) == 1 && s == state(places[0]) },
	}
	switch {
	case len(places) > 1:
		r.wrong = verify.SoldTwice.String()
	case places[0] == location{}:
		r.wrong = verify.ItemLost.String()
	}

	var lies []string
	for _, l := range places {
		lies = append(lies, l.String())
	}
	r.text = "in the end it " + strings.Join(lies, " and ")
	return r
}

// A trace is all that is recorded of one item.
type trace struct {
	item  market.ItemID
	steps []step
	end   []location
}

// gather finds the traces of all items, and what is on the market and no listing.
func (c *checker) gather(p *Part) {
	traces := tracesOf{}
	for i := range c.h.Ops {
		traces.note(&c.h.Ops[i])
	}

	// An item may lie in several places at the end, which is a violation that its trace shows.
	for _, user := range slices.Sorted(maps.Keys(c.h.Final.Inventory)) {
		for item := range c.h.Final.Inventory[user] {
			traces.endsAt(item, location{user: user})
		}
	}
	for _, member := range slices.Sorted(maps.Keys(c.h.Final.Listings)) {
		item, seller, err := market.ParseMember(member)
		if err != nil {
			p.addViolation("the market holds %q, which is no listing", member)
			continue
		}
		traces.endsAt(item, location{user: seller, listed: true, price: c.h.Final.Listings[member]})
	}

	for _, item := range slices.Sorted(maps.Keys(traces)) {
		t := traces[item]
		if len(t.end) == 0 { // it is nowhere, as before it was minted
			t.end = []location{{}}
		}
		c.traces = append(c.traces, t)
	}
}

// tracesOf has the trace of each item.
type tracesOf map[market.ItemID]*trace

func (all tracesOf) of(item market.ItemID) *trace {
	if all[item] == nil {
		all[item] = &trace{item: item}
	}
	return all[item]
}

// note adds what an operation does to its item, or to each item of a batch.
func (all tracesOf) note(o *Op) {
	act := o.action()
	if act == nil {
		return
	}

	items := 1
	if o.Kind == Mint {
		items = market.BatchSize
	}
	for n := range items {
		t := all.of(o.Item + market.ItemID(n))
		t.steps = append(t.steps, o.step(act))
	}
}

func (all tracesOf) endsAt(item market.ItemID, at location) {
	t := all.of(item)
	t.end = append(t.end, at)
}

func (c *checker) items() *Part {
	p := newPart("items")
	c.gather(p)
	moved := 0
	for _, t := range c.traces {
		if len(t.steps) == 1 && len(t.end) == 1 && t.steps[0].act == action(move{to: t.end[0]}) {
			continue // minted, and never moved
		}

		moved++
		whole := append(slices.Clip(t.steps), step{call: atEnd, ret: atEnd, act: finalReading(t.end)})
		c.judge(p, fmt.Sprintf("item %d", t.item), location{}, whole)
	}

	mints := filter(c.h.Ops, isMint)
	trades := len(c.h.Ops) - len(mints)
	minted := len(filter(mints, func(o Op) bool { return o.Outcome != Refused }))
	p.Checked = fmt.Sprintf("%d items, %d of them with operations: "+
		"%d listings and orders, %d batches minted",
		len(c.traces), moved, trades, minted)
	return p
}

func isMint(o Op) bool { return o.Kind == Mint }

// settle finds out by where items lie which orders of unknown outcome were applied. An
// order's accounts stay open if another operation of its buyer on the item is of unknown
// outcome, too, such as a resale or an order at another price.
func (c *checker) settle() {
	c.applied = map[*Op]bool{}
	c.unsettled = map[market.UserID]bool{}
	for _, t := range c.traces {
		unknown := filter(t.steps, func(s step) bool {
			return s.op.Outcome == Unknown
		})
		for _, s := range unknown {
			movesCoins := s.op.Kind == Purchase && s.op.Seller != s.op.Buyer
			if movesCoins {
				c.settleOrder(t, s.op, unknown)
			}
		}
	}
}

// settleOrder decides whether an order of unknown outcome was applied, given all steps of its
// item that are of unknown outcome. If that cannot be told, both accounts stay unsettled.
func (c *checker) settleOrder(t *trace, o *Op, unknown []step) {
	// The item may have come to its buyer, or left it, by another one of these. Orders with the same
	// seller and price move the same coins, so that it does not matter which of them was applied.
	ambiguous := slices.ContainsFunc(unknown, func(other step) bool {
		x := other.op
		return x.Seller == o.Buyer || x.Buyer == o.Buyer && (x.Seller != o.Seller || x.Price != o.Price)
	})

	// Orders that are settled already count as known, so that of two like ones only as many are
	// applied as are missing.
	switch missing := t.missing(location{user: o.Buyer}, c.applied); {
	case ambiguous || missing < 0 || missing > 1:
		c.unsettled[o.Seller] = true
		c.unsettled[o.Buyer] = true
	case missing == 1:
		c.applied[o] = true
	}
}

// missing is how many operations must have brought an item to a location besides
// those that were applied for sure.
func (t *trace) missing(at location, applied map[*Op]bool) (n int) {
	n = len(filter(t.end, func(end location) bool {
		return end == at
	}))

	for _, s := range t.steps {
		m, ok := s.act.(move)
		if !ok || s.op.Outcome == Unknown && !applied[s.op] {
			continue
		}
		if m.to == at {
			n--
		}
		if m.from == at {
			n++
		}
	}
	return n
}

// paid reports whether an order is known to have moved its coins.
func (c *checker) paid(o *Op) bool { return o.Outcome == Applied || c.applied[o] }

// accounts has the market's own audit compare what each account holds at the end with its
// opening, sales and purchases.
func (c *checker) accounts() *Part {
	p := newPart("accounts")
	p.Checked = fmt.Sprintf(
		"%d accounts: opening, sales and purchases against what each holds at the end", c.h.Accounts)

	var paid market.Ledger
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		order := market.Order{Item: o.Item, Seller: o.Seller, Buyer: o.Buyer, Price: o.Price}
		switch {
		case o.Kind != Purchase || o.Outcome == Refused:
		case c.paid(o):
			paid.Purchased(order, nil)
		default:
			paid.Purchased(order, errUnknown)
		}
	}

	opening := market.Opening{Accounts: c.h.Accounts, Funds: c.h.Funds}
	// It describes every problem, and OfAudit names them in the same order.
	result := market.AuditFunds(c.h.Final.Funds, opening, &paid)
	for i, found := range findings.OfAudit(result) {
		account := result.Problems[i]
		switch {
		case c.unsettled[account.User] && account.Kind != market.NoFunds:
		case account.Kind == market.Overdrawn && c.overdrawn[account.User]: // which payments tells in full
		case len(c.unsettled) > 0:
			// how many coins there should be is not known: the text stands, but nobody can say
			// that some are lost
			p.addViolation("%s", account.Text)
		default:
			p.addViolation("%s", found)
		}
	}

	for _, id := range slices.Sorted(maps.Keys(c.unsettled)) {
		p.addDoubt(notSettled, id)
	}
	return p
}

const notSettled = "account %d: it is not known which orders of unknown outcome were applied"

// errUnknown is no refusal, so that a Ledger notes an order with it as of unknown outcome.
var errUnknown = errors.New("the outcome is unknown")
