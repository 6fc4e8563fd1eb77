package market

// A Ledger is what one client knows: every operation that was applied for certain, and those whose outcome is unknown.
// Each worker keeps one, from its first operation to its last (warm-up and drain included); Audit joins them. The zero
// value is ready. It grows by 24 bytes an operation, 12 KB and later
// 192 KB at a time, and nothing is copied when it grows.
type Ledger struct {
	minted  []mint
	applied [][]trade
	unsure  []trade
	granted []grant
}

// A grant is coins that an account has besides those of the opening.
type grant struct {
	user  UserID
	coins int64
}

type mint struct {
	first  ItemID
	owner  UserID
	unsure bool
}

// A trade moves an item: a listing to the market, a purchase from there to a buyer.
type trade struct {
	item          ItemID
	price         int64
	seller, buyer place // no buyer: it is a listing
}

// Minted notes a batch of BatchSize items; err is what Mint returned.
func (l *Ledger) Minted(first ItemID, owner UserID, err error) {
	if first > 0 {
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

// Granted notes coins that a user's account was given besides those of the opening, or that were taken from it.
func (l *Ledger) Granted(user UserID, coins int64) { l.granted = append(l.granted, grant{user, coins}) }

// Listed notes what List returned for a listing.
func (l *Ledger) Listed(x Listing, err error) {
	l.note(trade{item: x.Item, price: x.Price, seller: place(x.Seller)}, err)
}

// Purchased notes what Purchase returned for an order.
func (l *Ledger) Purchased(o Order, err error) {
	l.note(trade{item: o.Item, price: o.Price, seller: place(o.Seller), buyer: place(o.Buyer)}, err)
}

func (l *Ledger) note(t trade, err error) {
	switch {
	case err == nil:
		last := len(l.applied) - 1
		if last < 0 || len(l.applied[last]) == cap(l.applied[last]) {
			last++
			l.applied = append(l.applied, make([]trade, 0, 512<<min(last, 4)))
		}
		l.applied[last] = append(l.applied[last], t)
	case !Refused(err):
		l.unsure = append(l.unsure, t)
	}
}
