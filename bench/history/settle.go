package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/market"
)

// maxUnknown bounds the operations of unknown outcome on one item that are settled by trying all.
const maxUnknown = 10

// A guess is a set of an item's operations of unknown outcome that may be those that were applied.
type guess struct {
	steps  []step
	orders []*Op // those that move coins
}

// settle returns the ways in which the item's orders of unknown outcome may have ended: for each payment that fits
// where the item lies, the orders that make it; of orders that pay the same those that were called first, because
// whatever the later ones may have done, they may have done, too. It returns nil when there are too many to tell. Sure is
// false when it could not be decided whether each of the ways is one.
func (c *checker) settle(l *life) (ways [][]*Op, sure bool) {
	if len(l.unknownOrders()) == 0 {
		return [][]*Op{nil}, true
	}
	certain, unknown := l.split()
	if len(unknown) > maxUnknown {
		return nil, true
	}
	sure = true
	all := guesses(unknown)
	fitting := distinct(keep(all, func(g guess) bool { return l.fits(certain, g.steps) }))
	if len(fitting) > 1 {
		fitting = keep(fitting, func(g guess) bool {
			result, _ := c.inOrder(place{}, append(slices.Concat(certain, g.steps), l.ending()), lastPlace)
			sure = sure && result != Undecided
			return result != Violated
		})
	}
	if len(fitting) == 0 { // the item's life is wrong anyhow
		fitting = distinct(all)
	}
	ways = make([][]*Op, len(fitting))
	for i, g := range fitting {
		ways[i] = g.orders
	}
	return ways, sure
}

// unknownOrders are the item's orders of unknown outcome.
func (l *life) unknownOrders() (orders []*Op) {
	for _, o := range l.ops {
		if o.Kind == Purchase && o.Outcome == Unknown {
			orders = append(orders, o)
		}
	}
	return orders
}

// split parts what certainly happened to the item from what may have, the latter by call. What may have happened is
// returned as if it had, at any time from its call on.
func (l *life) split() (certain, unknown []step) {
	for _, s := range l.steps() {
		m, ok := s.act.(move)
		switch {
		case ok && m.may:
			m.may = false
			s.act = m
			unknown = append(unknown, s)
		case s.call < atEnd:
			certain = append(certain, s)
		}
	}
	slices.SortStableFunc(unknown, byCall)
	return certain, unknown
}

// guesses are all sets of steps. One that holds earlier steps comes before one that holds later ones instead.
func guesses(unknown []step) (all []guess) {
	for set := range 1 << len(unknown) {
		var g guess
		for i, s := range unknown {
			if set&(1<<i) == 0 {
				continue
			}
			g.steps = append(g.steps, s)
			if s.op != nil && s.op.Kind == Purchase {
				g.orders = append(g.orders, s.op)
			}
		}
		all = append(all, g)
	}
	return all
}

// fits reports whether moves can lead to where the item lies: it left every place as often as it came to it.
func (l *life) fits(certain, guessed []step) bool {
	end := place{}
	switch len(l.final) {
	case 0:
	case 1:
		end = l.final[0].place()
	default:
		return false
	}
	visits := map[place]int{{}: 1}
	for _, s := range slices.Concat(certain, guessed) {
		if m, ok := s.act.(move); ok {
			visits[m.from]--
			visits[m.to]++
		}
	}
	visits[end]--
	for _, n := range visits {
		if n != 0 {
			return false
		}
	}
	return true
}

// distinct keeps the first of the guesses that move the same coins.
func distinct(all []guess) []guess {
	seen := map[string]bool{}
	return keep(all, func(g guess) bool {
		var payments []string
		for _, o := range g.orders {
			payments = append(payments, fmt.Sprint([3]int64{int64(o.Seller), int64(o.Buyer), o.Price}))
		}
		slices.Sort(payments)
		key := strings.Join(payments, " ")
		defer func() { seen[key] = true }()
		return !seen[key]
	})
}

func keep(all []guess, good func(guess) bool) (kept []guess) {
	for _, g := range all {
		if good(g) {
			kept = append(kept, g)
		}
	}
	return kept
}

// balances is the change of each account.
type balances map[market.UserID]int64

func (b balances) book(orders ...*Op) {
	for _, o := range orders {
		b[o.Seller] += o.Price
		b[o.Buyer] -= o.Price
	}
}
