package history

import (
	"errors"
	"fmt"
	"math"

	"github.com/marketsim/marketsim/market"
)

// workerRecord is any record of a worker's file.
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
	Error   string        `json:"error"`

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
		h.Mints = append(h.Mints, Mint{worker, r.Start, r.End, r.First, r.User, r.Outcome, r.Error})
	case "hold":
		h.Holds = append(h.Holds, Hold{
			worker, r.Name, r.Shared, r.Called, r.Acquired, r.Releasing, r.Released, r.Fence, r.Lost, r.Noticed,
		})
	default:
		h.Ops = append(h.Ops, Op{
			worker, Kind(r.Op), r.Start, r.End, r.Item, r.Seller, r.Buyer, r.Price, r.Outcome, r.Reason, r.Error,
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
	case (r.Outcome == Refused) != (r.Reason != "") || r.Outcome != Applied && r.Outcome != Refused && r.Outcome != Unknown:
		return fmt.Errorf("outcome %q with reason %q", r.Outcome, r.Reason)
	case r.Op == "mint" && account(r.User) && (r.First >= 1 && r.First <= math.MaxInt64-market.BatchSize || r.First == 0 && r.Outcome != Applied):
		return nil
	case r.Op == string(List) && account(r.Seller) && r.Item >= 1:
		return nil
	case r.Op == string(Purchase) && account(r.Seller) && account(r.Buyer) && r.Item >= 1 && r.Price >= 0:
		return nil
	}
	return fmt.Errorf("operation %q of item %d, seller %d, buyer %d, price %d", r.Op, r.Item, r.Seller, r.Buyer, r.Price)
}
