package market

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"
)

// MaxSums is how many sums a Circulation has at most: 8 MB.
const MaxSums = 1 << 20

// A Circulation is what the clients of a market know together of its items and coins, however often they trade: for
// items that are sold again and again, and for rows so long that a Ledger of each client's own would fill the memory.
// For each item it adds up the places to which the item came, less those that it left; a place is a number of 64 bits,
// drawn from which item it is, who has it there, and at what price it is listed. Where an item was listed and sold in
// turn, all places but the first and the last cancel each other out. Where it was sold twice, or sold without a
// listing, they do not, but for one case in 2^64. Where there are more items than sums, items share them: an item
// belongs to the sum that its number leaves when divided by how many there are. An audit then cannot tell which of them
// went wrong.
//
// It does not grow. Any number of clients may note their operations in it at a time.
//
// Sources: MSet-Add-Hash of D. Clarke, S. Devadas, M. van Dijk, B. Gassend and G. E. Suh, "Incremental Multiset Hash
// Functions and Their Application to Memory Integrity Checking", ASIACRYPT 2003; places are drawn by the finalizer of
// SplitMix64: G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
type Circulation struct {
	last     ItemID
	sums     []atomic.Uint64        // by item, or by what its number leaves
	funds    []atomic.Int64         // by account: how much it changed
	unminted atomic.Pointer[ItemID] // what is beyond the items, and somebody was told to have traded; nil: nothing
}

// NewCirculation returns the circulation of items 1 to last, none of which has moved, among accounts 1 to accounts. A
// market whose sellers make new items all the time has MaxItems at most.
func NewCirculation(last ItemID, accounts int) *Circulation {
	return NewSharedCirculation(last, accounts, MaxSums)
}

// NewSharedCirculation is NewCirculation with no more than so many sums, where several markets share the memory.
func NewSharedCirculation(last ItemID, accounts, sums int) *Circulation {
	return &Circulation{
		last: last, sums: make([]atomic.Uint64, min(last+1, ItemID(sums))), funds: make([]atomic.Int64, accounts+1),
	}
}

func (c *Circulation) listed(x Listing) { c.move(x.Item, listingOf(x)) }

func (c *Circulation) purchased(o Order) {
	c.move(o.Item, purchaseOf(o))
	c.funds[o.Seller].Add(o.Price)
	c.funds[o.Buyer].Add(-o.Price)
}

func (c *Circulation) move(id ItemID, by uint64) {
	if id < 1 || id > c.last {
		beyond := id // so that no other id is allocated
		c.unminted.Store(&beyond)
		return
	}
	c.sums[sumOf(id, len(c.sums))].Add(by)
}

// sumOf is to which of so many sums an item belongs.
func sumOf(id ItemID, sums int) int { return int(id % ItemID(sums)) }

// circling is what an audit knows of a market whose ledgers circulate.
type circling struct {
	last     ItemID
	lacks    []uint64 // by sum: what it lacks to lead from who minted its items to where they lie; 0: nothing
	unminted *ItemID  // as that of a Circulation
}

// joinCirculation adds what the clients of a circulation know. Where there are several, all have as many sums.
func (a *auditor) joinCirculation(c *Circulation) {
	if a.circling == nil {
		a.circling = &circling{last: c.last, lacks: make([]uint64, len(c.sums))}
	}
	for i := range c.sums {
		a.circling.lacks[i] -= c.sums[i].Load()
	}
	for account := range c.funds {
		a.deltas[account] += c.funds[account].Load()
	}
	a.circling.unminted = cmp.Or(a.circling.unminted, c.unminted.Load())
}

// sum is that of an item.
func (c *circling) sum(id ItemID) *uint64 { return &c.lacks[sumOf(id, len(c.lacks))] }

// led notes that an item, which a user minted, was found at a place, where it may be listed at a price.
func (c *circling) led(id ItemID, minter, at place, price float64) {
	*c.sum(id) += number(id, at, price) - number(id, minter, 0)
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
// where its items lie. Of several that lead there the first is taken; they move the same item the same way.
func (a *auditor) settleCirculating() {
	bySum := map[int][]unsure{}
	note := func(one unsure) {
		if a.minter(one.item) == 0 || a.found[one.item] == 0 {
			a.result.NotApplied++
			return
		}
		sum := sumOf(one.item, len(a.circling.lacks))
		bySum[sum] = append(bySum[sum], one)
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
	for sum, all := range bySum {
		applied := fewest(all, a.circling.lacks[sum])
		for _, one := range applied {
			a.circling.lacks[sum] -= one.moves
			if one.order != nil {
				transfer(a.deltas, *one.order)
			}
		}
		a.result.Applied += int64(len(applied))
		a.result.NotApplied += int64(len(all) - len(applied))
	}
}

// mostApplied bounds how many operations of unknown outcome on the items of one sum can be found to have been applied.
// A client ends with such an operation, so that a second one needs another client that traded the same item in between,
// and lost its reply, too, or one of the few items that share its sum.
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
	told := map[*uint64]bool{} // sums that do not lead anywhere because of an item that was named
	for id := range a.bad {
		if id > 0 && (a.minter(id) == 0 || a.found[id] != 0) { // what is not there may never have been made
			told[c.sum(id)] = true
		}
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		if minter := a.minter(id); minter != 0 && a.found[id] == 0 && !a.bad[id] {
			a.itemProblem(id, "item %d, which user %d minted, is nowhere", id, minter)
			told[c.sum(id)] = true
		}
	}
	for i := range c.lacks {
		if c.lacks[i] != 0 && !told[&c.lacks[i]] {
			a.sumProblem(i)
		}
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		if a.minter(id) != 0 && a.found[id] != 0 && !a.bad[id] && *c.sum(id) == 0 {
			a.result.Items++
		}
	}
}

// sumProblem counts one problem for the items that share a sum, and names the item if no other shares it.
func (a *auditor) sumProblem(sum int) {
	const notLed = "where the listings and sales that clients were told of do not lead: one of them was made twice, " +
		"or never"
	var items []ItemID
	for id := ItemID(sum); int(id) < len(a.found); id += ItemID(len(a.circling.lacks)) {
		if a.minter(id) != 0 {
			items = append(items, id)
		}
	}
	switch {
	case len(items) == 0 && a.circling.last < ItemID(len(a.circling.lacks)):
		a.itemProblem(ItemID(sum), "item %d was traded but never minted", sum)
	case len(items) == 0:
		a.itemProblem(0, "an item whose number leaves %d when divided by %d was traded but never minted", sum,
			len(a.circling.lacks))
	case len(items) == 1:
		a.itemProblem(items[0], "item %d lies in %s%s, %s", items[0], a.found[items[0]], a.listedAt(items[0]), notLed)
	default:
		a.itemProblem(0, "one or more of the %d items whose number leaves %d when divided by %d lie %s", len(items), sum,
			len(a.circling.lacks), notLed)
	}
}

// listedAt is the price at which an item was found on the market, in words, and nothing for any other.
func (a *auditor) listedAt(id ItemID) string {
	if a.found[id] > 0 || len(a.prices) == 0 {
		return ""
	}
	return fmt.Sprintf(" at %v coins", a.prices[id])
}
