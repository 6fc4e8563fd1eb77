package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/marketsim/marketsim/market"
)

// A generator makes a history by trading on the reference market, one operation after the other, and then pretends that
// each took longer, so that they overlap.
type generator struct {
	draw     func(n int) int // 0 to n-1
	accounts int
	funds    int64
	items    int // that are traded in, of the first batch; later batches follow when these are sold
	spread   int // how many operations an operation may overlap, before and after
	lost     int // in a thousand replies
	relist   bool
}

// history makes so many operations.
func (g generator) history(operations int) *History {
	h := &History{Header: Header{
		Run: "generated:", Subject: "reference", Mix: "1x1", Accounts: g.accounts, Funds: g.funds, Began: time.Unix(0,
			0).UTC(),
	}, Workers: []string{"seller", "buyer"}}
	r := market.NewReference(market.Opening{Accounts: g.accounts, Funds: g.funds})
	const tick = 1000
	interval := func(n int) (start, end int64) { // around the moment at which it happens
		at := int64(n+g.spread+1) * tick
		return at - int64(g.draw(g.spread*tick+1)), at + int64(g.draw(g.spread*tick+1))
	}
	owner := map[market.ItemID]market.UserID{}
	offers := map[market.ItemID]Op{}
	var first market.ItemID
	mint := func(n int) {
		start, end := interval(n)
		seller := market.UserID(1 + g.draw(g.accounts))
		first = r.Mint(seller)
		h.Mints = append(h.Mints, Mint{Worker: 1, Start: start, End: end, First: first, Owner: seller, Outcome: Applied})
		for i := range g.items {
			owner[first+market.ItemID(i)] = seller
		}
	}
	mint(0)
	for n := 1; n <= operations; n++ {
		if !g.relist && n%(4*g.items) == 0 {
			mint(n)
			continue
		}
		o := Op{Worker: 1 + g.draw(2), Kind: List, Item: first + market.ItemID(g.draw(g.items)),
			Price: int64(1 + g.draw(100))}
		o.Start, o.End = interval(n)
		o.Seller = owner[o.Item]
		if offer, ok := offers[o.Item]; ok && g.draw(4) > 0 {
			o.Kind, o.Seller, o.Price, o.Buyer = Purchase, offer.Seller, offer.Price, market.UserID(1+g.draw(g.accounts))
			if g.draw(8) == 0 {
				o.Price++
			}
		}
		var err error
		lost := g.draw(1000) < g.lost
		if !lost || g.draw(2) == 0 { // a lost one may never have happened
			if err = o.do(r); err == nil && o.Kind == List {
				offers[o.Item] = o
			} else if err == nil {
				owner[o.Item] = o.Buyer
				if g.relist {
					delete(offers, o.Item)
				}
			}
		}
		o.Outcome, o.Reason = Applied, market.Reason(err)
		switch {
		case lost:
			o.Outcome, o.Reason = Unknown, ""
			o.End = o.Start + 1
		case o.Reason != "":
			o.Outcome = Refused
		}
		h.Ops = append(h.Ops, o)
	}
	h.end(r.Snapshot())
	return h
}

// do makes the operation on the reference.
func (o *Op) do(r *market.Reference) error {
	if o.Kind == List {
		_, err := r.List(context.Background(), market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price})
		return err
	}
	_, err := r.Purchase(context.Background(), market.Order{Item: o.Item, Seller: o.Seller, Buyer: o.Buyer,
		Price: o.Price})
	return err
}

// end notes a market's end.
func (h *History) end(s market.Snapshot) {
	h.FinalFunds = s.Funds
	for user, items := range s.Inventory {
		for item := range items {
			h.Final = append(h.Final, Found{Item: item, User: user})
		}
	}
	for member, price := range s.Listings {
		item, seller, _ := market.ParseMember(member)
		h.Final = append(h.Final, Found{Item: item, User: seller, Listed: true, Price: price})
	}
	slices.SortFunc(h.Final, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.User, b.User))
	})
}
