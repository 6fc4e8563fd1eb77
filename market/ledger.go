package market

// A Ledger is what one client knows for certain: every operation that it was told was applied, and those whose
// outcome it was not told. One worker keeps one, from the first operation to the last (warm-up and drain
// included); Audit joins them. It assumes that an item is listed once and bought once, as in a run.
//
// Its size grows by a bit an item, not by a record an operation.
type Ledger struct {
	deltas         []int64  // change of each account's funds, by UserID
	bought         []bitmap // items bought, by the buyer's UserID
	listed         bitmap
	minted         []mint
	unsureListings []Listing
	unsureOrders   []Order
}

type mint struct {
	first  ItemID
	owner  UserID
	unsure bool
}

// NewLedger returns an empty ledger for a market with accounts 1 to accounts.
func NewLedger(accounts int) *Ledger {
	return &Ledger{deltas: make([]int64, accounts+1), bought: make([]bitmap, accounts+1)}
}

// Minted notes a batch of BatchSize items; err is what Mint returned.
func (l *Ledger) Minted(first ItemID, owner UserID, err error) {
	if first > 0 {
		l.minted = append(l.minted, mint{first, owner, err != nil})
	}
}

// Listed notes what List returned for a listing.
func (l *Ledger) Listed(x Listing, err error) {
	switch {
	case err == nil:
		l.listed.set(x.Item)
	case !Refused(err):
		l.unsureListings = append(l.unsureListings, x)
	}
}

// Purchased notes what Purchase returned for an order.
func (l *Ledger) Purchased(o Order, err error) {
	switch {
	case err == nil:
		l.transfer(o)
		l.bought[o.Buyer].set(o.Item)
	case !Refused(err):
		l.unsureOrders = append(l.unsureOrders, o)
	}
}

func (l *Ledger) transfer(o Order) {
	l.deltas[o.Seller] += o.Price
	l.deltas[o.Buyer] -= o.Price
}
