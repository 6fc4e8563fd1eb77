package market

// AuditResult is what an audit found.
type AuditResult struct {
	Items         int64     // minted items that are in exactly the place they should be
	Funds         int64     // coins found in all accounts
	Opened        int64     // coins that all accounts began with
	ItemProblems  int64     // items lost, doubled, bought twice, at another price than told, or in an unexplained place
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
	Off   int64  // of an account: the coins that it holds beyond what it should; below 0, that it lacks
	Text  string // in words, with the item or the account
}

func (p Problem) String() string { return p.Text }

// A ProblemKind says what is wrong with an item or an account.
type ProblemKind string

// The kinds of problems.
const (
	TwoOwners   ProblemKind = "item in two inventories"
	StillListed ProblemKind = "item still listed"        // and in an inventory, or listed by two
	SoldTwice   ProblemKind = "one listing sold twice"   // two orders of it were applied, as clients were told
	BoughtTwice ProblemKind = "one listing bought twice" // the same of one buyer's orders
	Nowhere     ProblemKind = "item nowhere"
	Elsewhere   ProblemKind = "item elsewhere"    // it lies in another place than its trades lead to
	MovedUntold ProblemKind = "item moved untold" // it was listed or bought by a client who was not told so
	NoItem      ProblemKind = "no item"           // it was never minted, or belongs to nobody who has an account
	NoFunds     ProblemKind = "no readable funds" // the account is gone, or holds no number
	Overdrawn   ProblemKind = "account overdrawn"
	TooFew      ProblemKind = "too few coins" // fewer than the account's operations say
	TooMany     ProblemKind = "too many coins"
)

// OK reports whether every item and every coin is where it should be.
func (r AuditResult) OK() bool { return r.ItemProblems == 0 && r.MoneyProblems == 0 }
