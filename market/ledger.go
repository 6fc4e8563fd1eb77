package market

// A Ledger is what one client knows: every operation that was applied for certain, and
// those whose outcome is unknown. Audit joins them. The zero value is ready. It grows by
// 24 bytes an operation, without copying.
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

// A place is where an item lies: the inventory of user n as n, offered by
// seller n as -n, nowhere as 0.
type place int32

// way is the spots between which a trade moves its item.
func (t trade) way() (from, to spot) {
	offer := spot{-t.seller, float64(t.price)}
	if t.buyer == 0 {
		return spot{place: t.seller}, offer
	}
	return offer, spot{place: t.buyer}
}

// Minted notes a batch of BatchSize items; err is what Mint returned.
func (l *Ledger) Minted(first ItemID, owner UserID, err error) {
	if first > 0 {
		l.minted = append(l.minted, mint{first, owner, err != nil})
	}
}

// LastMinted is the highest id that an item minted by the client may have.
func (l *Ledger) LastMinted() (last ItemID) {
	for _, m := range l.minted {
		last = max(last, m.first+BatchSize-1)
	}
	return last
}

// Granted notes coins that a user's account was given besides those of the opening.
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

// AuditResult is what an audit found.
type AuditResult struct {
	Items  int64 // minted items that are in exactly the place they should be
	Funds  int64 // coins found in all accounts
	Opened int64 // coins that all accounts began with
	// Items lost, doubled, bought twice, at another price than told, or in an
	// unexplained place.
	ItemProblems  int64
	MoneyProblems int64     // accounts whose funds are not what their ledger says, or below zero
	Applied       int64     // operations of unknown outcome that turned out to be applied
	NotApplied    int64     // operations of unknown outcome that turned out not to be
	Problems      []Problem // the first of them
}

// A Problem is one thing that an audit found wrong.
type Problem struct {
	Kind  ProblemKind
	Item  ItemID // 0: it is about an account, or about what is no item
	User  UserID // whose account it is; 0: it is about an item
	Buyer bool   // of an account: an order was made for it, applied or of unknown outcome
	Text  string // in words, with the item or the account
}

func (p Problem) String() string { return p.Text }

// A ProblemKind says what is wrong with an item or an account.
type ProblemKind string

// The kinds of problems.
const (
	TwoOwners   ProblemKind = "item in two inventories"
	StillListed ProblemKind = "item still listed" // and in an inventory, or listed by two
	// Two orders of it were applied, as clients were told.
	SoldTwice   ProblemKind = "one listing sold twice"
	BoughtTwice ProblemKind = "one listing bought twice" // the same of one buyer's orders
	Nowhere     ProblemKind = "item nowhere"
	Elsewhere   ProblemKind = "item elsewhere" // it lies in another place than its trades lead to
	// It was listed or bought by a client that was not told so.
	MovedUntold ProblemKind = "item moved untold"
	// It was never minted, or belongs to nobody who has an account.
	NoItem    ProblemKind = "no item"
	NoFunds   ProblemKind = "no readable funds" // the account is gone, or holds no number
	Overdrawn ProblemKind = "account overdrawn"
	TooFew    ProblemKind = "too few coins" // fewer than the account's operations say
	TooMany   ProblemKind = "too many coins"
)

// OK reports whether every item and every coin is where it should be.
func (r AuditResult) OK() bool { return r.ItemProblems == 0 && r.MoneyProblems == 0 }
