package market

import (
	"fmt"
	"math"
	"sync/atomic"
)

// A Circulation is what the clients of a market know together of its items and coins where items are sold again and again.
// For each item it adds up the places to which the item came, less those that it left; a place is a number of 64 bits,
// drawn from which item it is, who has it there, and at what price it is listed. Where an item was listed and sold in
// turn, all places but the first and the last cancel each other out. Where it was sold twice, or sold without a
// listing, they do not, but for one case in 2^64.
//
// It does not grow. Any number of clients may note their operations in it at a time.
//
// Sources: MSet-Add-Hash of D. Clarke, S. Devadas, M. van Dijk, B. Gassend and G. E. Suh, "Incremental Multiset Hash
// Functions and Their Application to Memory Integrity Checking", ASIACRYPT 2003; places are drawn by the finalizer of
// SplitMix64: G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
type Circulation struct {
	sums     []atomic.Uint64        // by item
	funds    []atomic.Int64         // by account: how much it changed
	unminted atomic.Pointer[ItemID] // what is beyond the items, and somebody was told to have traded; nil: nothing
}

// NewCirculation returns the circulation of items 1 to last, none of which has moved, among accounts 1 to accounts.
func NewCirculation(last ItemID, accounts int) *Circulation {
	return &Circulation{sums: make([]atomic.Uint64, last+1), funds: make([]atomic.Int64, accounts+1)}
}

func (c *Circulation) listed(x Listing) { c.move(x.Item, listingOf(x)) }

func (c *Circulation) purchased(o Order) {
	c.move(o.Item, purchaseOf(o))
	c.funds[o.Seller].Add(o.Price)
	c.funds[o.Buyer].Add(-o.Price)
}

func (c *Circulation) move(id ItemID, by uint64) {
	if id < 1 || id >= ItemID(len(c.sums)) {
		beyond := id // so that no other id is allocated
		c.unminted.Store(&beyond)
		return
	}
	c.sums[id].Add(by)
}

// circling is what an audit knows of a market whose ledgers circulate.
type circling struct {
	lacks    []uint64 // by item: what its sum lacks to lead from who minted it to where it lies; 0: nothing
	unminted *ItemID  // as that of a Circulation
}

// joinCirculation adds what the clients know together.
func (a *auditor) joinCirculation(c *Circulation) {
	a.circling = &circling{lacks: make([]uint64, len(c.sums)), unminted: c.unminted.Load()}
	for i := range c.sums {
		a.circling.lacks[i] = -c.sums[i].Load()
	}
	for account := range c.funds {
		a.deltas[account] += c.funds[account].Load()
	}
}

// led notes that an item, which a user minted, was found at a place, where it may be listed at a price.
func (c *circling) led(id ItemID, minter, at place, price float64) {
	c.lacks[id] += number(id, at, price) - number(id, minter, 0)
}

// listingOf and purchaseOf are what an operation adds to the sum of its item.
func listingOf(x Listing) uint64 {
	return number(x.Item, -place(x.Seller), float64(x.Price)) - number(x.Item, place(x.Seller), 0)
}

func purchaseOf(o Order) uint64 {
	return number(o.Item, place(o.Buyer), 0) - number(o.Item, -place(o.Seller), float64(o.Price))
}

// number is that of an item at a place, and of the price at which it is listed there.
func number(id ItemID, at place, price float64) uint64 {
	return mixed(mixed(mixed(uint64(id))^uint64(at)) ^ math.Float64bits(price))
}

// mixed is the finalizer of SplitMix64, of the state after x.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// An unsure is an operation of unknown outcome.
type unsure struct {
	item  ItemID
	moves uint64
	order *Order // nil: it is a listing
}

// settleCirculating books the operations of unknown outcome that were applied: the fewest with which a sum leads to
// where its item lies. Of several that lead there the first is taken; they move the same item the same way.
func (a *auditor) settleCirculating() {
	byItem := map[ItemID][]unsure{}
	note := func(one unsure) {
		if a.minter(one.item) == 0 || a.found[one.item] == 0 {
			a.result.NotApplied++
			return
		}
		byItem[one.item] = append(byItem[one.item], one)
	}
	for _, l := range a.ledgers {
		for _, x := range l.unsureListings {
			note(unsure{x.Item, listingOf(x), nil})
		}
		for i := range l.unsureOrders {
			o := &l.unsureOrders[i]
			note(unsure{o.Item, purchaseOf(*o), o})
		}
	}
	for item, all := range byItem {
		applied := fewest(all, a.circling.lacks[item])
		for _, one := range applied {
			a.circling.lacks[item] -= one.moves
			if one.order != nil {
				transfer(a.deltas, *one.order)
			}
		}
		a.result.Applied += int64(len(applied))
		a.result.NotApplied += int64(len(all) - len(applied))
	}
}

// mostApplied bounds how many operations of unknown outcome on one item can be found to have been applied. A client ends
// with such an operation, so that a second one needs another client that traded the same item in between, and lost its
// reply, too.
const mostApplied = 3

// fewest are the fewest operations that add up to what is missing; none if no so few do.
func fewest(all []unsure, missing uint64) []unsure {
	for n := range min(len(all), mostApplied) + 1 {
		if found, ok := addingUp(all, n, missing); ok {
			return found
		}
	}
	return nil
}

// addingUp are n of the operations that add up to what is missing.
func addingUp(all []unsure, n int, missing uint64) ([]unsure, bool) {
	if n == 0 {
		return nil, missing == 0
	}
	for i, one := range all {
		if rest, ok := addingUp(all[i+1:], n-1, missing-one.moves); ok {
			return append(rest, one), true
		}
	}
	return nil, false
}

// judgeCirculating compares where items lie with where their listings and sales lead.
func (a *auditor) judgeCirculating() {
	c := a.circling
	if id := c.unminted; id != nil {
		a.itemProblem(*id, "item %d was traded but never minted", *id)
	}
	for id := ItemID(1); id < ItemID(max(len(a.found), len(c.lacks))); id++ {
		minter := a.minter(id)
		switch lacks := id < ItemID(len(c.lacks)) && c.lacks[id] != 0; {
		case a.bad[id] || minter == 0 && !lacks:
		case minter == 0:
			a.itemProblem(id, "item %d was traded but never minted", id)
		case a.found[id] == 0:
			a.itemProblem(id, "item %d, which user %d minted, is nowhere", id, minter)
		case lacks:
			a.itemProblem(id, "item %d lies in %s%s, where the listings and sales that clients were told of do not lead: one of "+
				"them was made twice, or never", id, a.found[id], a.listedAt(id))
		default:
			a.result.Items++
		}
	}
}

// listedAt is the price at which an item was found on the market, in words, and nothing for any other.
func (a *auditor) listedAt(id ItemID) string {
	if a.found[id] > 0 {
		return ""
	}
	return fmt.Sprintf(" at %v coins", a.prices[id])
}
