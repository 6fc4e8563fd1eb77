package marketstore

import (
	"context"
	"sync"

	"github.com/marketsim/marketsim/market"
)

// Reference is the market in memory, one operation at a time: the sequential oracle.
// It is safe for concurrent use.
type Reference struct {
	mu    sync.Mutex
	state market.Snapshot
	next  market.ItemID
}

var _ market.Purchaser = (*Reference)(nil)

// NewReference opens a reference market, as Seed opens one in Redis.
func NewReference(o market.Opening) *Reference {
	r := &Reference{next: 1, state: market.Snapshot{
		Funds:     map[market.UserID]int64{},
		Inventory: map[market.UserID]map[market.ItemID]bool{},
		Listings:  map[string]int64{},
	}}
	for id := market.UserID(1); id <= market.UserID(o.Accounts); id++ {
		r.state.Funds[id] = o.Funds
	}
	return r
}

// Mint gives owner market.BatchSize new items, as the function Mint does in Redis.
func (r *Reference) Mint(owner market.UserID) (first market.ItemID) {
	r.mu.Lock()
	defer r.mu.Unlock()

	first = r.next
	for r.next < first+market.BatchSize {
		r.give(owner, r.next)
		r.next++
	}
	return first
}

func (r *Reference) give(owner market.UserID, item market.ItemID) {
	if r.state.Inventory[owner] == nil {
		r.state.Inventory[owner] = map[market.ItemID]bool{}
	}
	r.state.Inventory[owner][item] = true
}

// List implements Purchaser.
func (r *Reference) List(_ context.Context, l market.Listing) (market.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	owned := r.state.Inventory[l.Seller]
	if !owned[l.Item] {
		return market.Receipt{}, market.ErrNotOwned
	}

	delete(owned, l.Item)
	if len(owned) == 0 { // then there is no inventory, as in Redis
		delete(r.state.Inventory, l.Seller)
	}
	r.state.Listings[market.Member(l.Item, l.Seller)] = l.Price
	return market.Receipt{}, nil
}

// Purchase implements Purchaser.
func (r *Reference) Purchase(_ context.Context, o market.Order) (market.Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	// Refusals come in the order that market.Purchaser promises.
	member := market.Member(o.Item, o.Seller)
	price, listed := r.state.Listings[member]
	switch {
	case !listed:
		return market.Receipt{}, market.ErrNotListed
	case price != o.Price:
		return market.Receipt{}, market.ErrPriceChanged
	case r.state.Funds[o.Buyer] < price:
		return market.Receipt{}, market.ErrInsufficientFunds
	}

	r.state.Funds[o.Seller] += price
	r.state.Funds[o.Buyer] -= price
	r.give(o.Buyer, o.Item)
	delete(r.state.Listings, member)
	return market.Receipt{}, nil
}

// Snapshot returns the whole state, which later operations change: none may be under way.
func (r *Reference) Snapshot() market.Snapshot { return r.state }
