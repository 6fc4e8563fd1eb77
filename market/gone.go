package market

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNotJudged is returned, wrapped, by an audit of a market that can be read, and of which nobody can say whether it is
// right.
var ErrNotJudged = errors.New("the market cannot be judged")

// unjudgeable says why the market cannot be judged, though it can be read.
func (a *auditor) unjudgeable() error {
	const again = "of items that are sold again and again: nobody knows who paid what for them"
	gone := a.opening.MayBeGone
	switch {
	case gone && a.circling != nil:
		return fmt.Errorf("%w: acknowledged writes may be gone %s", ErrNotJudged, again)
	case gone && a.remade != 0:
		return fmt.Errorf("%w: item %d was made twice: the server lost that it was made, and gave its number to another client, "+
			"so that nobody knows which of the two was sold", ErrNotJudged, a.remade)
	}
	return nil
}

// settleGone takes back what was acknowledged and is gone: purchases whose item does not lie with the buyer, listings whose
// item lies with its seller again, and batches of items of which nothing is there. Of several buyers of an item, each of
// whom was told so, the one with whom it lies has bought it.
func (a *auditor) settleGone() {
	if !a.opening.MayBeGone {
		return
	}
	prices := a.unsurePrices()
	for _, o := range a.again {
		if buyer := a.buyers[o.Item]; buyer != place(o.Buyer) && a.found[o.Item] == place(o.Buyer) {
			a.buyers[o.Item], o.Buyer = place(o.Buyer), UserID(buyer)
		}
		a.takeBack(o.Item, o.Buyer, prices)
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		if buyer := a.buyers[id]; buyer != 0 && a.found[id] != buyer {
			a.takeBack(id, UserID(buyer), prices)
			a.buyers[id] = 0
		}
		if a.listed.Test(uint(id)) && a.buyers[id] == 0 &&
			(a.found[id] == a.minter(id) || a.found[id] == 0 && a.unmade(id)) {
			a.result.GoneListings++
			a.listed.Clear(uint(id))
		}
	}
	for batch, minter := range a.minters {
		if first := ItemID(1 + batch*BatchSize); minter != 0 && a.unmade(first) {
			a.result.GoneItems += BatchSize
			a.minters[batch] = 0
		}
	}
}

// takeBack undoes a purchase that is gone.
func (a *auditor) takeBack(id ItemID, buyer UserID, unsure map[ItemID]int64) {
	price, ok := unsure[id]
	if !ok {
		price = int64(a.asked[id])
	}
	a.result.GonePurchases++
	transfer(a.deltas, Order{Item: id, Seller: UserID(a.minter(id)), Buyer: buyer, Price: -price})
}

// unsurePrices is what was asked for items of which nobody knows whether they were listed: they may have been, and sold.
func (a *auditor) unsurePrices() map[ItemID]int64 {
	prices := map[ItemID]int64{}
	for _, l := range a.ledgers {
		for _, x := range l.unsureListings {
			prices[x.Item] = x.Price
		}
	}
	return prices
}

// unmade reports whether nothing is there of the batch of an item.
func (a *auditor) unmade(id ItemID) bool {
	first := 1 + batchOf(id)*BatchSize
	return !slices.ContainsFunc(a.found[first:first+BatchSize], func(p place) bool { return p != 0 })
}
