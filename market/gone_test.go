package market_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// forgetful is a market whose server forgets the last of what it acknowledged, and a ledger of it.
type forgetful struct {
	*rapid.T
	opening market.Opening
	now     *market.Reference
	done    []func(*market.Reference) // what the server remembers, in order
	told    []told                    // what clients were told of each
	ledger  *market.Ledger
	gone    market.AuditResult // how much of what clients were told is gone
	bought  map[market.Order]bool
}

// told is what was acknowledged of an operation: one of the three is 1, or none if its outcome is unknown.
type told struct{ purchases, listings, items int64 }

func newForgetful(t *rapid.T) *forgetful {
	o := market.Opening{Accounts: 4, Funds: 100, MayBeGone: true}
	f := &forgetful{T: t, opening: o, now: market.NewReference(o), ledger: market.NewLedger(o.Accounts),
		bought: map[market.Order]bool{}}
	return f
}

func (f *forgetful) do(what told, op func(*market.Reference)) {
	op(f.now)
	f.done, f.told = append(f.done, op), append(f.told, what)
}

func (f *forgetful) mint(seller market.UserID) {
	f.do(told{items: market.BatchSize}, func(r *market.Reference) { r.Mint(seller) })
	f.ledger.Minted(f.ledger.LastMinted()+1, seller, nil)
}

// list lists an item that its seller has and that was not listed before.
func (f *forgetful) list(l market.Listing, outcome error) {
	f.do(told{listings: known(outcome)}, func(r *market.Reference) { f.must(r.List(context.Background(), l)) })
	f.ledger.Listed(l, outcome)
}

func (f *forgetful) buy(o market.Order, outcome error) {
	if f.bought[o] { // who buys again what it had bought is told so: else nobody could say which of the two is gone
		outcome = nil
	}
	f.bought[o] = f.bought[o] || outcome == nil
	f.do(told{purchases: known(outcome)}, func(r *market.Reference) { f.must(r.Purchase(context.Background(), o)) })
	f.ledger.Purchased(o, outcome)
}

func known(outcome error) int64 {
	if outcome == nil {
		return 1
	}
	return 0
}

func (f *forgetful) must(_ market.Receipt, err error) {
	if err != nil {
		f.Fatal(err)
	}
}

// forget makes the server forget all but the first n operations.
func (f *forgetful) forget(n int) {
	for _, lost := range f.told[n:] {
		f.gone.GonePurchases += lost.purchases
		f.gone.GoneListings += lost.listings
		f.gone.GoneItems += lost.items
	}
	f.done, f.told, f.now = f.done[:n], f.told[:n], market.NewReference(f.opening)
	for _, op := range f.done {
		op(f.now)
	}
}

// trade lists and buys some items of a batch, each listed at most once.
func (f *forgetful) trade(batch int, listed map[market.ItemID]bool) {
	for range rapid.IntRange(0, 12).Draw(f.T, "operations") {
		outcome := rapid.SampledFrom([]error{nil, nil, errors.New("lost reply")}).Draw(f.T, "outcome")
		item := market.ItemID(batch*market.BatchSize + rapid.IntRange(1, 4).Draw(f.T, "item"))
		seller := market.UserID(1 + batch%2)
		state := f.now.Snapshot()
		price, onMarket := state.Listings[market.Member(item, seller)]
		switch buyer := market.UserID(rapid.IntRange(3, 4).Draw(f.T, "buyer")); {
		case onMarket && state.Funds[buyer] >= price:
			f.buy(market.Order{Item: item, Seller: seller, Buyer: buyer, Price: price}, outcome)
		case state.Inventory[seller][item] && !listed[item]:
			listed[item] = true
			f.list(market.Listing{Item: item, Seller: seller, Price: rapid.Int64Range(1, 30).Draw(f.T, "price")}, outcome)
		}
	}
}

// TestAuditCountsWhatIsGone: a server forgets the end of its history, is traded on, and every operation that it forgot is
// counted, no other, and nothing is wrong.
func TestAuditCountsWhatIsGone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newForgetful(rt)
		listed := map[market.ItemID]bool{}
		for batch := range rapid.IntRange(1, 3).Draw(rt, "batches") {
			f.mint(market.UserID(1 + batch%2))
			for older := range batch + 1 {
				f.trade(older, listed)
			}
		}
		f.forget(rapid.IntRange(0, len(f.done)).Draw(rt, "remembered"))
		for batch := range 3 {
			f.trade(batch, listed)
		}
		v, err := market.AuditRead(context.Background(), snapshotReader{f.now.Snapshot()}, f.opening, f.ledger)
		if err != nil {
			rt.Fatal(err)
		}
		if !v.OK() || v.Funds != 400 || v.GonePurchases != f.gone.GonePurchases || v.GoneListings != f.gone.GoneListings ||
			v.GoneItems != f.gone.GoneItems {
			rt.Fatalf("found %+v, want gone %+v", v, f.gone)
		}

		// What no server forgets is wrong as ever.
		state := f.now.Snapshot()
		account := market.UserID(rapid.IntRange(1, f.opening.Accounts).Draw(rt, "account"))
		state.Funds[account] += rapid.SampledFrom([]int64{-1, 1}).Draw(rt, "coin")
		v, err = market.AuditRead(context.Background(), snapshotReader{state}, f.opening, f.ledger)
		if err != nil || v.MoneyProblems != 1 {
			rt.Fatalf("a coin more or less: %+v, %v", v, err)
		}
	})
}

// snapshotReader reads a market from a snapshot.
type snapshotReader struct{ market.Snapshot }

func (r snapshotReader) ReadItems(_ context.Context, found func(market.Found)) error {
	for owner, items := range r.Inventory {
		for item := range items {
			found(market.Found{Item: item, Owner: owner})
		}
	}
	for member, price := range r.Listings {
		item, seller, err := market.ParseMember(member)
		if err != nil {
			return err
		}
		found(market.Found{Item: item, Owner: seller, Listed: true, Price: float64(price)})
	}
	return nil
}

func (r snapshotReader) ReadFunds(_ context.Context, found func(market.UserID, int64, error)) error {
	for id, funds := range r.Funds {
		found(id, funds, nil)
	}
	return nil
}

// TestAuditOfWhatMayBeGoneFindsDamage: what is wrong with a market is wrong also where acknowledged writes may be gone. Only
// a listing that is undone as a whole cannot be told from what a server has lost.
func TestAuditOfWhatMayBeGoneFindsDamage(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			w := newWorld(t, testkit.Embedded(t))
			w.opening.MayBeGone = true
			w.lists(1, 30, nil)
			w.lists(2, 30, nil)
			w.buys(1, 30, nil)
			d.do(w)
			v := w.audit()
			undone := d.name == "listed item back with its seller"
			if v.OK() != (undone || d.name == "none") || undone && v.GoneListings != 1 {
				t.Errorf("found %+v", v)
			}
		})
	}
}

// TestAuditOfWhatMayBeGoneNeedsLedgersThatTell: where nobody could tell what is gone there is an error, and no verdict.
func TestAuditOfWhatMayBeGoneNeedsLedgersThatTell(t *testing.T) {
	for says, spoil := range map[string]func(*world){
		"sold again and again":  func(w *world) { w.ledger.Circulate(market.NewCirculation(market.BatchSize, 3)) },
		"item 1 was made twice": func(w *world) { w.ledger.Minted(1, 3, nil) },
	} {
		w := newWorld(t, testkit.Embedded(t))
		w.opening.MayBeGone = true
		spoil(w)
		v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, w.ledger)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("found %+v, %v; want an error that says %q", v, err, says)
		}
	}
}
