package market

import (
	"context"
	"sync"
)

// Reference is the market in memory, one operation at a time: the sequential oracle. It is a Purchaser, safe for
// concurrent use.
type Reference struct {
	mu    sync.Mutex
	state Snapshot
	next  ItemID
}

var _ Purchaser = (*Reference)(nil)

// NewReference opens a reference market, as Seed opens one in Redis.
func NewReference(o Opening) *Reference {
	r := &Reference{state: newSnapshot(), next: 1}
	for id := UserID(1); id <= UserID(o.Accounts); id++ {
		r.state.Funds[id] = o.Funds
	}
	return r
}

// Mint gives owner BatchSize new items, as the function Mint does in Redis.
func (r *Reference) Mint(owner UserID) (first ItemID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	for r.next < first+BatchSize {
		r.state.put(owner, r.next)
		r.next++
	}
	return first
}

// List implements Purchaser.
func (r *Reference) List(_ context.Context, l Listing) (Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.state.Inventory[l.Seller][l.Item] {
		return Receipt{}, ErrNotOwned
	}
	r.state.take(l.Seller, l.Item)
	r.state.Listings[Member(l.Item, l.Seller)] = l.Price
	return Receipt{}, nil
}

// Purchase implements Purchaser.
func (r *Reference) Purchase(_ context.Context, o Order) (Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	member := Member(o.Item, o.Seller)
	price, listed := r.state.Listings[member]
	switch {
	case !listed:
		return Receipt{}, ErrNotListed
	case price != o.Price:
		return Receipt{}, ErrPriceChanged
	case r.state.Funds[o.Buyer] < price:
		return Receipt{}, ErrInsufficientFunds
	}
	r.state.Funds[o.Seller] += price
	r.state.Funds[o.Buyer] -= price
	r.state.put(o.Buyer, o.Item)
	delete(r.state.Listings, member)
	return Receipt{}, nil
}

// Snapshot returns the whole state, which later operations change.
func (r *Reference) Snapshot() Snapshot { return r.state }
