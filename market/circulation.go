package market

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
)

// A Circulation is what the clients of a market know together of items that are sold again and again, which a Ledger of
// its own for each could not keep without a record for each listing. For each item it adds up the places to which the
// item came, less those that it left; a place is a number of 64 bits, drawn from who has the item there, and at what
// price it is listed. Where an item was listed and sold in turn, all places but the first and the last cancel each other
// out. Where it was sold twice, or sold without a listing, they do not, but for one case in 2^64.
//
// It does not grow. Any number of clients may note their operations in it at a time.
//
// Sources: MSet-Add-Hash of D. Clarke, S. Devadas, M. van Dijk, B. Gassend and G. E. Suh, "Incremental Multiset Hash
// Functions and Their Application to Memory Integrity Checking", ASIACRYPT 2003; places are drawn by the finalizer of
// SplitMix64: G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
type Circulation struct {
	sums     []atomic.Uint64 // by item
	unminted atomic.Int64    // an item beyond them that somebody was told to have traded; 0: there is none
}

// NewCirculation returns the circulation of items 1 to last, none of which has moved.
func NewCirculation(last ItemID) *Circulation {
	return &Circulation{sums: make([]atomic.Uint64, last+1)}
}

func (c *Circulation) listed(x Listing)  { c.move(x.Item, listingOf(x)) }
func (c *Circulation) purchased(o Order) { c.move(o.Item, purchaseOf(o)) }

func (c *Circulation) move(id ItemID, by uint64) {
	if id < 1 || int(id) >= len(c.sums) {
		c.unminted.Store(int64(id))
		return
	}
	c.sums[id].Add(by)
}

// snapshot is a copy of the sums, for so many items or more. A nil Circulation has none.
func (c *Circulation) snapshot(items int) []uint64 {
	if c == nil {
		return nil
	}
	sums := make([]uint64, max(items, len(c.sums)))
	for id := range c.sums {
		sums[id] = c.sums[id].Load()
	}
	return sums
}

// listingOf and purchaseOf are what an operation adds to the sum of its item.
func listingOf(x Listing) uint64 {
	return number(-place(x.Seller), float64(x.Price)) - number(place(x.Seller), 0)
}

func purchaseOf(o Order) uint64 {
	return number(place(o.Buyer), 0) - number(-place(o.Seller), float64(o.Price))
}

// number is that of a place, and of the price at which an item is listed there.
func number(at place, price float64) uint64 {
	return mixed(mixed(uint64(at)) ^ math.Float64bits(price))
}

// mixed is the finalizer of SplitMix64, of the state after x.
func mixed(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// missing is what the sum of an item lacks to lead from who minted it to where it lies; 0: nothing.
func (a *auditor) missing(id ItemID) uint64 {
	at, price := a.found[id], 0.0
	if at < 0 {
		price = a.prices[id]
	}
	return number(at, price) - number(a.minter(id), 0) - a.moved[id]
}

// An unsure is an operation of unknown outcome.
type unsure struct {
	item  ItemID
	moves uint64
	order *Order // nil: it is a listing
}

// settleCirculating books the operations of unknown outcome that were applied: the fewest with which the sum of their
// item leads to where it lies. Of several that lead there the first is taken; they move the same item the same way.
func (a *auditor) settleCirculating() {
	byItem := map[ItemID][]unsure{}
	for _, l := range a.ledgers {
		for _, x := range l.unsureListings {
			byItem[x.Item] = append(byItem[x.Item], unsure{x.Item, listingOf(x), nil})
		}
		for i := range l.unsureOrders {
			o := &l.unsureOrders[i]
			byItem[o.Item] = append(byItem[o.Item], unsure{o.Item, purchaseOf(*o), o})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byItem)) {
		all := byItem[id]
		var applied []unsure
		if a.minter(id) != 0 && a.found[id] != 0 {
			applied = fewest(all, a.missing(id))
		}
		for _, one := range applied {
			a.moved[id] += one.moves
			if one.order != nil {
				transfer(a.deltas, *one.order)
			}
		}
		a.result.Applied += int64(len(applied))
		a.result.NotApplied += int64(len(all) - len(applied))
	}
}

// mostApplied bounds how many operations of unknown outcome on one item can be found to have been applied. A client ends
// with such an operation, so that a second one needs another client that traded the item in between, and lost its
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

// judgeCirculating compares where each item lies with where its listings and sales lead.
func (a *auditor) judgeCirculating() {
	if id := ItemID(a.circulation.unminted.Load()); id != 0 {
		a.itemProblem(id, "item %d was traded but never minted", id)
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		minter, at := a.minter(id), a.found[id]
		switch {
		case a.bad[id], minter == 0 && a.moved[id] == 0:
		case minter == 0:
			a.itemProblem(id, "item %d was traded but never minted", id)
		case at == 0:
			a.itemProblem(id, "item %d, which user %d minted, is nowhere", id, minter)
		case a.missing(id) != 0:
			a.itemProblem(id, "item %d lies in %s%s, where the listings and sales that clients were told of do not lead: one "+
				"of them was made twice, or never", id, at, a.listedAt(id))
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
