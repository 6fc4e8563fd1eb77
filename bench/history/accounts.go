package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/market"
)

// A settlement says which orders of unknown outcome were applied.
type settlement struct {
	applied []*Op
	open    map[market.UserID]bool // the accounts of which that is not known
	unsure  []market.ItemID        // the items of which a way was assumed that may not be possible
}

// doubts notes what a part assumed and could not decide.
func (s *settlement) doubts(p *Part) {
	for _, item := range s.unsure {
		p.doubt("item %d: too many operations at a time, or time ran out, before it was known which of its orders of "+
			"unknown outcome can have been applied", item)
	}
}

// leave notes that it is not known which of the orders were applied.
func (s *settlement) leave(orders ...*Op) {
	for _, o := range orders {
		s.open[o.Seller], s.open[o.Buyer] = true, true
	}
}

// accounts compares what each account holds at the end with its opening, sales and purchases. The operations on an item
// settle its orders of unknown outcome; where that leaves several ways, one of them has to explain all accounts.
func (c *checker) accounts() (*Part, settlement) {
	s := settlement{open: map[market.UserID]bool{}}
	changes := balances{}
	for i := range c.h.Ops {
		if o := &c.h.Ops[i]; o.Kind == Purchase && o.Outcome == Applied {
			changes.book(o)
		}
	}
	var ambiguous [][][]*Op // by item, the ways in which its orders may have ended
	for _, l := range c.traces {
		ways, sure := c.settle(l)
		if !sure {
			s.unsure = append(s.unsure, l.item)
		}
		switch {
		case ways == nil:
			s.leave(l.unknownOrders()...)
		case len(ways) == 1:
			s.applied = append(s.applied, ways[0]...)
			changes.book(ways[0]...)
		default:
			ambiguous = append(ambiguous, ways)
		}
	}
	chosen, sole := c.choose(changes, ambiguous, s.open)
	if chosen == nil && !sole {
		for _, ways := range ambiguous {
			s.leave(slices.Concat(ways...)...)
		}
	}
	changes.book(chosen...)
	p := c.compare(changes, s.open)
	s.doubts(p)
	if sole {
		s.applied = append(s.applied, chosen...)
	} else {
		s.leave(slices.Concat(slices.Concat(ambiguous...)...)...)
	}
	return p, s
}

// maxWays bounds how many ways of settling are tried.
const maxWays = 4096

// choose finds a way of settling that explains all accounts, or else the first; sole says that no other way explains
// them. It chooses nothing when there are too many ways.
func (c *checker) choose(sure balances, ambiguous [][][]*Op, open map[market.UserID]bool) (chosen []*Op, sole bool) {
	total, fits := 1, 0
	for _, ways := range ambiguous {
		if total *= len(ways); total > maxWays {
			return nil, false
		}
	}
	chosen = way(ambiguous, 0)
	for n := range total {
		orders := way(ambiguous, n)
		with := maps.Clone(sure)
		with.book(orders...)
		if !c.explains(with, open) {
			continue
		}
		if fits++; fits == 1 {
			chosen = orders
		}
	}
	return chosen, total == 1 || fits == 1
}

// way is the n-th combination; it is never nil.
func way(ambiguous [][][]*Op, n int) []*Op {
	orders := []*Op{}
	for _, ways := range ambiguous {
		orders = append(orders, ways[n%len(ways)]...)
		n /= len(ways)
	}
	return orders
}

// explains reports whether each account holds what the changes say.
func (c *checker) explains(changes balances, open map[market.UserID]bool) bool {
	for id := market.UserID(1); id <= market.UserID(c.h.Accounts); id++ {
		if funds, ok := c.h.FinalFunds[id]; !open[id] && (!ok || funds != c.h.Funds+changes[id]) {
			return false
		}
	}
	return true
}

// compare judges each account.
func (c *checker) compare(changes balances, open map[market.UserID]bool) *Part {
	p := newPart("accounts")
	p.Checked = fmt.Sprintf("%d accounts: opening, sales and purchases against what each holds at the end", c.h.Accounts)
	for id := market.UserID(1); id <= market.UserID(c.h.Accounts); id++ {
		funds, ok := c.h.FinalFunds[id]
		should := c.h.Funds + changes[id]
		switch {
		case !ok:
			p.tell("account %d is gone", id)
		case open[id]:
			p.doubt("account %d: it is not known which orders of unknown outcome were applied", id)
		case funds < should:
			p.tell("account %d holds %s less than its operations say: %d, and should hold %d", id,
				coins(should-funds), funds, should)
		case funds > should:
			p.tell("account %d holds %s more than its operations say: %d, and should hold %d", id,
				coins(funds-should), funds, should)
		}
	}
	return p
}

// maxUnknown bounds the operations of unknown outcome on one item that are settled by trying all.
const maxUnknown = 10

// A guess is a set of an item's operations of unknown outcome that may be those that were applied.
type guess struct {
	steps  []step
	orders []*Op // those that move coins
}

// settle returns the ways in which the item's orders of unknown outcome may have ended: for each payment that fits
// where the item lies, the orders that make it. Of orders that pay the same it takes those that were called first,
// because they may have done whatever the later ones may have done. It returns nil when there are too many ways. Sure
// is false when it could not be decided whether each of the ways is possible.
func (c *checker) settle(l *trace) (ways [][]*Op, sure bool) {
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
			result, _ := c.inOrder(location{}, append(slices.Concat(certain, g.steps), l.ending()), lastLocation)
			sure = sure && result != Undecided
			return result != Violated
		})
	}
	if len(fitting) == 0 { // what is recorded of the item is wrong anyhow
		fitting = distinct(all)
	}
	ways = make([][]*Op, len(fitting))
	for i, g := range fitting {
		ways[i] = g.orders
	}
	return ways, sure
}

// unknownOrders are the item's orders of unknown outcome.
func (l *trace) unknownOrders() (orders []*Op) {
	for _, o := range l.ops {
		if o.Kind == Purchase && o.Outcome == Unknown {
			orders = append(orders, o)
		}
	}
	return orders
}

// split separates what certainly happened to the item from what may have happened, the latter sorted by call. What may
// have happened is returned as if it had, at any time from its call on.
func (l *trace) split() (certain, unknown []step) {
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

// guesses are all sets of steps. A set that holds earlier steps comes before one that holds later steps instead.
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

// fits reports whether moves can lead to where the item lies: it left every other location as often as it came to it.
func (l *trace) fits(certain, guessed []step) bool {
	end := location{}
	switch len(l.final) {
	case 0:
	case 1:
		end = l.final[0].location()
	default:
		return false
	}
	more := visits(location{}, slices.Concat(certain, guessed))
	more[end]--
	for _, n := range more {
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
