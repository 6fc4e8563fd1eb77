package market

import (
	"iter"
	"math/bits"
)

// A Ledger is what one client knows: every operation that was applied for certain, and those whose outcome is unknown.
// Each worker keeps one, from its first operation to its last (warm-up and drain included); Audit joins them. It
// assumes that an item is listed once and bought once, as in a run, unless it is made to Circulate.
//
// It grows by a price and one or two bits per item, not by a record per operation, and only by the batches that its
// client trades in: a thousand clients have a thousand ledgers.
type Ledger struct {
	accounts       int
	deltas         []int64           // how much each account's funds changed, by UserID; nil: nothing was bought
	bought         map[UserID]places // items bought, by the buyer
	again          []Order           // applied orders of what their buyer had bought before
	asked          map[int]*asked    // for the items listed, by batch
	minted         []mint
	unsureListings []Listing
	unsureOrders   []Order
	circulation    *Circulation // nil: the ledger keeps each item and account itself
}

type mint struct {
	first  ItemID
	owner  UserID
	unsure bool
}

// asked is what was asked for the items of a batch, by place in it.
type asked struct {
	listed marks
	prices [BatchSize]int64
}

// places are marked items, by batch.
type places map[int]*marks

// marks are bits for the items of a batch.
type marks [(BatchSize + 63) / 64]uint64

// set marks the i-th, and reports whether it was marked before.
func (m *marks) set(i int) (before bool) {
	bit := uint64(1) << (i % 64)
	before = m[i/64]&bit != 0
	m[i/64] |= bit
	return before
}

// items are the marked items of a batch.
func (m *marks) items(batch int) iter.Seq[ItemID] {
	return func(yield func(ItemID) bool) {
		for i, word := range m {
			for ; word != 0; word &= word - 1 {
				if !yield(ItemID(1 + batch*BatchSize + 64*i + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// NewLedger returns an empty ledger for a market with accounts 1 to accounts.
func NewLedger(accounts int) *Ledger {
	return &Ledger{accounts: accounts, bought: map[UserID]places{}, asked: map[int]*asked{}}
}

// Circulate lets the ledger note in c what becomes of items and coins, so that items may be listed and bought any number of
// times. All ledgers of a market share one; nil changes nothing. Nothing must have been minted, listed or bought before.
func (l *Ledger) Circulate(c *Circulation) { l.circulation = c }

// Minted notes a batch of BatchSize items; err is what Mint returned.
func (l *Ledger) Minted(first ItemID, owner UserID, err error) {
	if first > 0 {
		if l.circulation == nil {
			l.batch(first) // makes room now, where nothing is measured
		}
		l.minted = append(l.minted, mint{first, owner, err != nil})
	}
}

// LastMinted is the highest id of an item that the client may have minted.
func (l *Ledger) LastMinted() (last ItemID) {
	for _, m := range l.minted {
		last = max(last, m.first+BatchSize-1)
	}
	return last
}

// Listed notes what List returned for a listing.
func (l *Ledger) Listed(x Listing, err error) {
	switch {
	case err == nil && l.circulation != nil:
		l.circulation.listed(x)
	case err == nil:
		batch := l.batch(x.Item)
		batch.listed.set(inBatch(x.Item))
		batch.prices[inBatch(x.Item)] = x.Price
	case !Refused(err):
		l.unsureListings = append(l.unsureListings, x)
	}
}

// batch is where it is kept what was asked for an item.
func (l *Ledger) batch(id ItemID) *asked {
	batch := l.asked[batchOf(id)]
	if batch == nil {
		batch = new(asked)
		l.asked[batchOf(id)] = batch
	}
	return batch
}

// Purchased notes what Purchase returned for an order.
func (l *Ledger) Purchased(o Order, err error) {
	switch {
	case err == nil && l.circulation != nil:
		l.circulation.purchased(o)
	case err == nil:
		if l.deltas == nil {
			l.deltas = make([]int64, l.accounts+1)
		}
		transfer(l.deltas, o)
		if l.marksOf(o).set(inBatch(o.Item)) {
			l.again = append(l.again, o)
		}
	case !Refused(err):
		l.unsureOrders = append(l.unsureOrders, o)
	}
}

// marksOf are those of what the buyer of an order has bought of its item's batch.
func (l *Ledger) marksOf(o Order) *marks {
	items := l.bought[o.Buyer]
	if items == nil {
		items = places{}
		l.bought[o.Buyer] = items
	}
	of := items[batchOf(o.Item)]
	if of == nil {
		of = new(marks)
		items[batchOf(o.Item)] = of
	}
	return of
}

// transfer moves an order's price from buyer to seller.
func transfer(deltas []int64, o Order) {
	deltas[o.Seller] += o.Price
	deltas[o.Buyer] -= o.Price
}
