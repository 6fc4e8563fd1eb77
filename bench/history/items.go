package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/market"
)

// A life is all that is known of one item.
type life struct {
	item  market.ItemID
	mints []*Mint
	ops   []*Op
	final []Found
}

// steps are the life's operations and its end.
func (l *life) steps() []step {
	var all []step
	for _, m := range l.mints {
		all = append(all, step{m.Worker - 1, m.Start, m.returned(), move{to: place{user: m.Owner}, may: m.Outcome == Unknown}, nil})
	}
	for _, o := range l.ops {
		if a := o.action(); a != nil {
			all = append(all, step{o.Worker - 1, o.Start, o.returned(), a, o})
		}
	}
	return append(all, l.ending())
}

// ending is the last step: where the item lies when everybody has gone.
func (l *life) ending() step {
	end := ending{}
	for _, f := range l.final {
		end = append(end, f.place())
	}
	return step{0, atEnd, atEnd, end, nil}
}

// gather finds the lives of all items, in their order. Those that were minted once and lie there ever since are only
// counted. Batches that were refused hold nothing.
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
			c.lives = append(c.lives, &l)
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

// next is the life of the next item; false when there is none.
func (g *gatherer) next() (l life, ok bool) {
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
func (l *life) still() bool {
	return len(l.ops) == 0 && len(l.mints) == 1 && l.mints[0].Outcome == Applied &&
		len(l.final) == 1 && l.final[0].place() == place{user: l.mints[0].Owner}
}

// items puts the life of each item in order.
func (c *checker) items() *Part {
	p := newPart("items")
	for _, l := range c.lives {
		if c.ctx.Err() != nil {
			p.doubt("time ran out at item %d", l.item)
			break
		}
		switch result, found := c.inOrder(place{}, l.steps(), lastPlace); result {
		case Violated:
			p.tell(found, "item %d: %s", l.item, found.itemStory())
		case Undecided:
			p.doubt("item %d: too many operations at a time, or time ran out", l.item)
		}
	}
	for _, stray := range c.h.Strays {
		p.tell(nil, "%s", stray)
	}
	p.Checked = fmt.Sprintf("%d items, %d of them with operations: %d listings and orders, %d batches minted", c.still+len(c.lives),
		len(c.lives), len(c.h.Ops), count(c.h.Mints, func(m Mint) bool { return m.Outcome != Refused }))
	return p
}

// lastPlace is where an item is after steps that are all certain, whatever their order was: each move leaves one place
// and enters another, so that the last place is the one that was entered once more than it was left, or the first.
func lastPlace(from state, steps []step) state {
	visits := map[state]int{from: 1}
	for _, s := range steps {
		if m, ok := s.act.(move); ok {
			visits[m.from]--
			visits[m.to]++
		}
	}
	for at, n := range visits {
		if n == 1 {
			return at
		}
	}
	return from
}
