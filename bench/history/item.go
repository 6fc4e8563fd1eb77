package history

import (
	"fmt"

	"github.com/marketsim/marketsim/market"
)

// A place is where an item is: the state of an item's life. The zero place is nowhere: it was not minted.
type place struct {
	user   market.UserID // whose inventory, or who lists it
	listed bool
	price  int64
}

func (p place) String() string {
	switch {
	case p == place{}:
		return "nowhere"
	case p.listed:
		return fmt.Sprintf("on the market, listed by %d for %s", p.user, coins(p.price))
	}
	return fmt.Sprintf("in the inventory of %d", p.user)
}

func (f Found) place() place { return place{f.User, f.Listed, f.Price} }

func coins(n int64) string {
	if n == 1 {
		return "1 coin"
	}
	return fmt.Sprintf("%d coins", n)
}

// A move takes an item from one place to another. One that may happen does so if it can, and has no effect otherwise:
// that it never happened is an order in which it comes after everything else.
type move struct {
	from, to place
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
		text += ", perhaps"
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
	p := at.(place)
	listed := p.listed && p.user == l.user
	switch l.reason {
	case notOwned:
		return at, p != place{user: l.user}
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

// An ending is where an item lay when everybody had gone. In two places, or nowhere, is not a place.
type ending []place

func (e ending) apply(at state) (state, bool) {
	if len(e) == 0 {
		return at, at == state(place{})
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
	listed := place{o.Seller, true, o.Price}
	m := move{from: listed, to: place{user: o.Buyer}, may: o.Outcome == Unknown}
	if o.Kind == List {
		m.from, m.to = place{user: o.Seller}, listed
	}
	switch {
	case o.Outcome != Refused:
		return m
	case o.Reason == notOwned && o.Kind == List, o.Kind == Purchase && (o.Reason == notListed || o.Reason == priceChanged):
		return look{o.Reason, o.Seller, o.Price}
	}
	return nil
}
