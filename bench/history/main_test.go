package history

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

var errLost = errors.New("read \"tcp\":\nEOF")

// outcomeOf is an error with the outcome of a record.
func outcomeOf(outcome Outcome, reason string) error {
	switch outcome {
	case Applied:
		return nil
	case Unknown:
		return errLost
	}
	for _, err := range []error{
		market.ErrNotListed, market.ErrPriceChanged, market.ErrInsufficientFunds, market.ErrNotOwned, market.ErrContended,
		market.ErrLockLost, market.ErrRejected, market.ErrNotSent,
	} {
		if market.Reason(err) == reason {
			return err
		}
	}
	panic("no such reason: " + reason)
}

// write records a history as its workers would have, and returns the folder.
func write(t testing.TB, h *History) string {
	t.Helper()
	dir := t.TempDir()
	w, err := Create(dir, h.Header)
	if err != nil {
		t.Fatal(err)
	}
	at := func(ns int64) time.Time { return h.Began.Add(time.Duration(ns)) }
	for n, role := range h.Workers {
		r, err := w.Worker(role)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range h.Mints {
			if m.Worker == n+1 {
				r.Minted(at(m.Start), at(m.End), m.First, m.Owner, outcomeOf(m.Outcome, ""))
			}
		}
		for _, o := range h.Ops {
			if o.Worker == n+1 {
				recordOp(r, at(o.Start), at(o.End), o)
			}
		}
		for _, x := range h.Holds {
			if x.Worker == n+1 {
				r.Held(lock.Holding{
					Name: x.Name, Shared: x.Shared, Called: at(x.Called), Acquired: at(x.Acquired), Releasing: at(x.Releasing),
					Released: at(x.Released), Fence: x.Fence, Lost: x.Lost, Noticed: x.Noticed,
				})
			}
		}
	}
	if err := w.Finish(snapshot(h)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func recordOp(r *Recorder, start, end time.Time, o Op) {
	if o.Kind == List {
		r.Listed(start, end, market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}, outcomeOf(o.Outcome, o.Reason))
		return
	}
	r.Purchased(start, end, market.Order{Item: o.Item, Seller: o.Seller, Buyer: o.Buyer, Price: o.Price},
		outcomeOf(o.Outcome, o.Reason))
}

// snapshot is the end of a history as it is read from a market.
func snapshot(h *History) market.Snapshot {
	s := market.Snapshot{
		Funds: h.FinalFunds, Inventory: map[market.UserID]map[market.ItemID]bool{}, Listings: map[string]int64{},
	}
	for _, f := range h.Final {
		if f.Listed {
			s.Listings[market.Member(f.Item, f.User)] = f.Price
			continue
		}
		if s.Inventory[f.User] == nil {
			s.Inventory[f.User] = map[market.ItemID]bool{}
		}
		s.Inventory[f.User][f.Item] = true
	}
	for _, stray := range h.Strays {
		if stray.User == 0 {
			s.Listings[stray.Member] = 1
			continue
		}
		n, err := strconv.ParseInt(stray.Member, 10, 64)
		if err != nil {
			panic(err)
		}
		s.Inventory[stray.User][market.ItemID(n)] = true
	}
	return s
}

// everything is a history with a record of every kind.
func everything() *History {
	return &History{
		Header: Header{
			Run: "test:{a\"b}:", Subject: "fine", Mix: "1x1", Seed: 7, Accounts: 3, Funds: 100,
			Began: time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC),
		},
		Workers: []string{"seller", "buyer"},
		Mints: []Mint{
			{Worker: 1, Start: 1, End: 5, First: 1, Owner: 1, Outcome: Applied},
			{Worker: 1, Start: 6, End: 7, First: 0, Owner: 1, Outcome: Unknown},
		},
		Ops: []Op{
			{Worker: 1, Kind: List, Start: 10, End: 20, Item: 1, Seller: 1, Price: 40, Outcome: Applied},
			{Worker: 1, Kind: List, Start: 21, End: 25, Item: 1, Seller: 1, Price: 40, Outcome: Refused, Reason: "not_owned"},
			{Worker: 2, Kind: Purchase, Start: 22, End: 30, Item: 1, Seller: 1, Buyer: 2, Price: 40, Outcome: Applied},
			{Worker: 2, Kind: Purchase, Start: 31, End: 33, Item: 1, Seller: 1, Buyer: 2, Price: 40, Outcome: Unknown},
		},
		Holds: []Hold{
			{Worker: 1, Name: "1", Called: 11, Acquired: 12, Releasing: 13, Released: 14, Fence: 3},
			{Worker: 2, Name: "ü\n", Shared: true, Called: 31, Acquired: 32, Releasing: 33, Released: 34, Lost: true,
				Noticed: true},
		},
		FinalFunds: map[market.UserID]int64{1: 140, 2: 60},
		Final:      []Found{{Item: 1, User: 2}, {Item: 2, User: 3}, {Item: 2, User: 1, Listed: true, Price: 9}},
		Strays:     []Stray{{2, "-4"}, {2, "0"}, {0, "junk"}},
	}
}
