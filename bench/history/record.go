package history

import (
	"fmt"
	"math"
	"time"

	"github.com/marketsim/marketsim/market"
)

// never is the end of an operation whose outcome was never told: it may take effect at any time.
const never = math.MaxInt64

// A Header says what was recorded.
type Header struct {
	Run      string    `json:"run"` // the prefix of the run's keys
	Subject  string    `json:"subject"`
	Mix      string    `json:"mix"`
	Seed     uint64    `json:"seed"`
	Accounts int       `json:"accounts"` // numbered from 1
	Funds    int64     `json:"funds"`    // coins that each account opened with
	Began    time.Time `json:"began"`    // time 0 of the records
}

// An Outcome is what a client knows of an operation.
type Outcome string

// The outcomes. A refused operation was certainly not applied.
const (
	Applied Outcome = "applied"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// A Kind is what an operation does.
type Kind string

// The operations on an item.
const (
	List     Kind = "list"
	Purchase Kind = "purchase"
)

// An Op is a listing or an order.
type Op struct {
	Worker     int
	Kind       Kind
	Start, End int64 // ns since the row began
	Item       market.ItemID
	Seller     market.UserID
	Buyer      market.UserID // of a purchase
	Price      int64
	Outcome    Outcome
	Reason     string // why it was refused, as market.Reason names it
	Error      string // why the outcome is unknown
}

// returned is when the operation had surely taken effect, if it ever did.
func (o *Op) returned() int64 {
	if o.Outcome == Unknown {
		return never
	}
	return o.End
}

// A Mint is a batch of market.BatchSize items that came into being at once. First is 0 when none were reserved.
type Mint struct {
	Worker     int
	Start, End int64
	First      market.ItemID
	Owner      market.UserID
	Outcome    Outcome
	Error      string
}

// returned is when the items surely existed, if they ever did.
func (m *Mint) returned() int64 {
	if m.Outcome == Unknown {
		return never
	}
	return m.End
}

// A Hold is a lock.Hold with times in ns since the row began.
type Hold struct {
	Worker                                int
	Name                                  string
	Shared                                bool
	Called, Acquired, Releasing, Released int64
	Fence                                 int64
	Lost, Noticed                         bool
}

// A Found is an item as it lay when everybody had gone: in the inventory of User, or listed by User at Price.
type Found struct {
	Item   market.ItemID
	User   market.UserID
	Listed bool
	Price  int64
}

// A Stray is what lay in an inventory and is no item, or on the market and is no listing.
type Stray struct {
	User   market.UserID // whose inventory; 0 for the market
	Member string
}

func (s Stray) String() string {
	if s.User > 0 {
		return fmt.Sprintf("the inventory of %d holds %q, which is no item", s.User, s.Member)
	}
	return fmt.Sprintf("the market holds %q, which is no listing", s.Member)
}

// A History is all that was recorded of one row.
type History struct {
	Header
	Workers []string // their roles; worker n is at n-1
	Ops     []Op     // by worker, in the order in which each made them
	Mints   []Mint
	Holds   []Hold

	// What the market held at the end.
	FinalFunds map[market.UserID]int64 // without the accounts that are gone
	Final      []Found                 // by item
	Strays     []Stray
}
