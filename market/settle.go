package market

import "slices"

// settle decides the operations of unknown outcome by where their items lie, and books those found applied, so that
// the rest of the audit treats them like any other.
func (a *auditor) settle() {
	a.settleMints()
	for _, l := range a.ledgers {
		for _, x := range l.unsureListings {
			a.settleListing(x)
		}
	}
	for _, l := range a.ledgers {
		for _, o := range l.unsureOrders {
			a.settleOrder(o)
		}
	}
}

// settleMints forgets the items of a batch that was not confirmed and of which nothing is there: one SADD makes
// all of a batch or nothing.
func (a *auditor) settleMints() {
	for _, l := range a.ledgers {
		for _, m := range l.minted {
			batch := a.found[m.first : m.first+BatchSize]
			if m.unsure && !slices.ContainsFunc(batch, func(p place) bool { return p != 0 }) {
				a.minters[batchOf(m.first)] = 0
			}
		}
	}
}

// settleListing books a listing when its item has left the seller's inventory.
func (a *auditor) settleListing(x Listing) {
	if a.minter(x.Item) == 0 || a.found[x.Item] == 0 || a.found[x.Item] == place(x.Seller) {
		a.verdict.NotApplied++
		return
	}
	a.verdict.Applied++
	a.listed.set(x.Item)
}

// settleOrder books an order when its item lies with the buyer and no order that was confirmed or settled before
// explains why.
func (a *auditor) settleOrder(o Order) {
	if a.minter(o.Item) == 0 || a.found[o.Item] != place(o.Buyer) || a.sold.has(o.Item) {
		a.verdict.NotApplied++
		return
	}
	a.verdict.Applied++
	a.sold.set(o.Item)
	a.settled[o.Item] = place(o.Buyer)
	a.deltas[o.Seller] += o.Price
	a.deltas[o.Buyer] -= o.Price
}
