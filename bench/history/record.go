package history

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/marketsim/marketsim/market"
)

// never is the end of an operation of unknown outcome: it may take effect at any time.
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

// An OpKind is what an operation does.
type OpKind string

// The operations on an item.
const (
	List     OpKind = "list"
	Purchase OpKind = "purchase"
)

// An Op is a listing or an order.
type Op struct {
	Worker     int
	Kind       OpKind
	Start, End int64 // ns since the row began
	Item       market.ItemID
	Seller     market.UserID
	Buyer      market.UserID // of a purchase
	Price      int64
	Outcome    Outcome
	Reason     string // why it was refused, as market.Reason names it
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
}

// returned is when the items surely existed, if they ever did.
func (m *Mint) returned() int64 {
	if m.Outcome == Unknown {
		return never
	}
	return m.End
}

// A Hold is a lock.Holding with times in ns since the row began.
type Hold struct {
	Worker    int    `json:"-"`
	Name      string `json:"name"`
	Shared    bool   `json:"shared"`
	Called    int64  `json:"called"`
	Acquired  int64  `json:"acquired"`
	Releasing int64  `json:"releasing"`
	Released  int64  `json:"released"`
	Fence     int64  `json:"fence"`
	Lost      bool   `json:"lost"`
	Noticed   bool   `json:"noticed"`
}

// A Found is an item as it lay when every worker had stopped: in the inventory of User, or listed by User at Price.
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

// workerRecord is any record of a worker's file, without the error of an unknown outcome: that is for readers of the file.
type workerRecord struct {
	Op      string        `json:"op"`
	Start   int64         `json:"start"`
	End     int64         `json:"end"`
	First   market.ItemID `json:"first"`
	User    market.UserID `json:"user"`
	Item    market.ItemID `json:"item"`
	Seller  market.UserID `json:"seller"`
	Buyer   market.UserID `json:"buyer"`
	Price   int64         `json:"price"`
	Outcome Outcome       `json:"outcome"`
	Reason  string        `json:"reason"`

	Hold // of a lock
}

// record adds one line of a worker.
func (h *History) record(worker int, line []byte) error {
	var r workerRecord
	if err := decode(line, &r); err != nil {
		return err
	}
	if err := r.check(h.Accounts); err != nil {
		return err
	}
	switch r.Op {
	case "mint":
		h.Mints = append(h.Mints, Mint{worker, r.Start, r.End, r.First, r.User, r.Outcome})
	case "hold":
		r.Hold.Worker = worker
		h.Holds = append(h.Holds, r.Hold)
	default:
		h.Ops = append(h.Ops, Op{
			worker, OpKind(r.Op), r.Start, r.End, r.Item, r.Seller, r.Buyer, r.Price, r.Outcome, r.Reason,
		})
	}
	return nil
}

// check refuses what no Recorder writes.
func (r *workerRecord) check(accounts int) error {
	account := func(id market.UserID) bool { return id >= 1 && id <= market.UserID(accounts) }
	switch {
	case r.Op == "hold" && r.Called <= r.Acquired && r.Acquired <= r.Releasing && r.Releasing <= r.Released:
		return nil
	case r.Op == "hold" || r.Start > r.End || r.End == never:
		return errors.New("it ends before it begins")
	case (r.Outcome == Refused) != (r.Reason != ""),
		r.Outcome != Applied && r.Outcome != Refused && r.Outcome != Unknown:
		return fmt.Errorf("outcome %q with reason %q", r.Outcome, r.Reason)
	case r.Op == "mint" && account(r.User) && r.First == 0 && r.Outcome != Applied,
		r.Op == "mint" && account(r.User) && r.First >= 1 && r.First <= math.MaxInt64-market.BatchSize:
		return nil
	case r.Op == string(List) && account(r.Seller) && r.Item >= 1:
		return nil
	case r.Op == string(Purchase) && account(r.Seller) && account(r.Buyer) && r.Item >= 1 && r.Price >= 0:
		return nil
	}
	return fmt.Errorf("operation %q of item %d, seller %d, buyer %d, price %d", r.Op, r.Item, r.Seller, r.Buyer, r.Price)
}
