package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

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
	owned, listed := location{user: o.Seller}, location{o.Seller, true, o.Price}
	switch {
	case o.Outcome == Refused:
		return o.refusal()
	case o.Item == 0: // a mint that failed before it had any
		return nil
	case o.Kind == Mint:
		return move{location{}, owned}
	case o.Kind == List:
		return move{owned, listed}
	}
	return move{listed, location{user: o.Buyer}}
}

// refusal is what a refused operation says of its item. That of contention, of a lost lock and the like says nothing.
func (o *Op) refusal() action {
	listed := func(s state) bool { l := s.(location); return l.listed && l.user == o.Seller }
	told := func(text string, holds func(state) bool) action {
		return reading{text, "refused, though there was no such moment", holds}
	}
	switch {
	case o.Kind == List && o.Reason == market.Reason(market.ErrNotOwned):
		return told(fmt.Sprintf("refused to %d as not owned", o.Seller),
			func(s state) bool { return s != state(location{user: o.Seller}) })
	case o.Kind == Purchase && o.Reason == market.Reason(market.ErrNotListed):
		return told(fmt.Sprintf("refused to a buyer as not listed by %d", o.Seller),
			func(s state) bool { return !listed(s) })
	case o.Kind == Purchase && o.Reason == market.Reason(market.ErrPriceChanged):
		return told(fmt.Sprintf("refused to a buyer as listed by %d at another price than %s", o.Seller, coins(o.Price)),
			func(s state) bool { return listed(s) && s.(location).price != o.Price })
	}
	return nil
}

// ending is what the market's end says of an item: where it lies. It should be one place.
func ending(places []location) reading {
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
	traces := map[market.ItemID]*trace{}
	of := func(item market.ItemID) *trace {
		if traces[item] == nil {
			traces[item] = &trace{item: item}
		}
		return traces[item]
	}
	for i := range c.h.Ops {
		o := &c.h.Ops[i]
		act, items := o.action(), 1
		if o.Kind == Mint {
			items = market.BatchSize
		}
		for n := 0; n < items && act != nil; n++ {
			t := of(o.Item + market.ItemID(n))
			t.steps = append(t.steps, o.step(act))
		}
	}
	lies := func(item market.ItemID, at location) { of(item).end = append(of(item).end, at) }
	for _, user := range slices.Sorted(maps.Keys(c.h.Final.Inventory)) {
		for item := range c.h.Final.Inventory[user] {
			lies(item, location{user: user})
		}
	}
	for _, member := range slices.Sorted(maps.Keys(c.h.Final.Listings)) {
		if item, seller, err := market.ParseMember(member); err == nil {
			lies(item, location{seller, true, c.h.Final.Listings[member]})
		} else {
			p.tell("the market holds %q, which is no listing", member)
		}
	}
	for _, item := range slices.Sorted(maps.Keys(traces)) {
		t := traces[item]
		if len(t.end) == 0 {
			t.end = []location{{}}
		}
		c.traces = append(c.traces, t)
	}
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
		whole := append(slices.Clip(t.steps), step{call: atEnd, ret: atEnd, act: ending(t.end)})
		c.judge(p, fmt.Sprintf("item %d", t.item), location{}, whole)
	}
	mints := len(keep(c.h.Ops, func(o Op) bool { return o.Kind == Mint && o.Outcome != Refused }))
	trades := len(keep(c.h.Ops, func(o Op) bool { return o.Kind != Mint }))
	p.Checked = fmt.Sprintf("%d items, %d of them with operations: %d listings and orders, %d batches minted",
		len(c.traces), moved, trades, mints)
	return p
}
