package history

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/market"
)

// An oracle looks for an order of a few operations by trying all, and is written without the checker's models. It keeps
// the location of the one item and the coins of the one account in plain variables.
type oracle struct {
	final   []Found
	account market.UserID // 0: the item is judged, else this account
	item    market.ItemID
}

type world struct {
	minted bool
	owner  market.UserID
	seller market.UserID // 0: not listed
	price  int64
	funds  int64
}

// ordered reports whether the operations that are left have an order.
func (o oracle) ordered(w world, ops []Op) bool {
	if !slices.ContainsFunc(ops, func(x Op) bool { return x.Outcome != Unknown }) && o.ended(w) {
		return true // the unknown ones that are left never happened
	}
	for i, x := range ops {
		if slices.ContainsFunc(ops, func(y Op) bool { return y.Outcome != Unknown && y.End < x.Start }) {
			continue // that one came first
		}
		if after, ok := o.happens(w, x); ok && o.ordered(after, slices.Delete(slices.Clone(ops), i, i+1)) {
			return true
		}
	}
	return false
}

func (o oracle) ended(w world) bool {
	if o.account != 0 {
		return true
	}
	var at []Found
	switch {
	case w.seller != 0:
		at = []Found{{o.item, w.seller, true, w.price}}
	case w.owner != 0:
		at = []Found{{o.item, w.owner, false, 0}}
	}
	return slices.Equal(at, o.final)
}

// happens is the world after an operation whose client was told what it was told.
func (o oracle) happens(w world, x Op) (world, bool) {
	if o.account != 0 {
		return w.pays(o.account, x)
	}
	owns, lists := w.owner == x.Seller && w.owner != 0, w.seller == x.Seller && w.seller != 0
	switch {
	case x.Outcome == Refused && x.Kind == List:
		return w, !owns || x.Reason != "not_owned"
	case x.Outcome == Refused && x.Reason == "not_listed":
		return w, !lists
	case x.Outcome == Refused && x.Reason == "price_changed":
		return w, lists && w.price != x.Price
	case x.Outcome == Refused:
		return w, true
	case x.Kind == List:
		return world{true, 0, x.Seller, x.Price, w.funds}, owns
	case x.Kind == minted:
		return world{true, x.Seller, 0, 0, w.funds}, !w.minted
	}
	return world{true, x.Buyer, 0, 0, w.funds}, lists && w.price == x.Price
}

func (w world) pays(id market.UserID, x Op) (world, bool) {
	before := w.funds
	if x.Kind != Purchase || x.Outcome == Refused && x.Reason != "insufficient_funds" {
		return w, true
	}
	if x.Outcome == Refused {
		return w, x.Buyer != id || before < x.Price
	}
	if x.Seller == id {
		w.funds += x.Price
	}
	if x.Buyer == id {
		w.funds -= x.Price
	}
	return w, x.Buyer != id || before >= x.Price
}

// TestEditsAreCaught: a record is changed, in what a client was told, when, or where things lie at the end. Items and
// the order of accounts are then exactly as linearizable as an oracle that tries all orders says.
func TestEditsAreCaught(t *testing.T) {
	caught, legal := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := small(t)
		g.lost = rapid.SampledFrom([]int{0, 0, 0, 200}).Draw(t, "lost")
		h := g.history(rapid.IntRange(1, 7).Draw(t, "operations"))
		edit(t, h)
		v := Check(context.Background(), h)
		want := Linearizable
		for _, m := range h.Mints {
			for n := range g.items {
				if !itemOrdered(h, m, m.First+market.ItemID(n)) {
					want = Violated
				}
			}
		}
		if got := v.Part("items").Answer; got != want {
			t.Fatalf("items are %s, and the oracle says %s: %+v", got, want, h.Ops)
		}
		if want == Violated {
			caught++
		} else {
			legal++
		}
		if slices.ContainsFunc(h.Ops, func(o Op) bool { return o.Outcome == Unknown }) {
			return // how they are settled is no matter of order
		}
		want = Linearizable
		for id := market.UserID(1); id <= market.UserID(h.Accounts); id++ {
			if !(oracle{account: id}).ordered(world{funds: h.Funds}, h.Ops) {
				want = Violated
			}
		}
		if got := v.Part("order of accounts").Answer; got != want {
			t.Fatalf("the order of accounts is %s, and the oracle says %s: %+v", got, want, h.Ops)
		}
	})
	if caught == 0 || legal == 0 {
		t.Errorf("%d edits were violations and %d legal: too few of one kind to tell", caught, legal)
	}
}

// minted is what a mint is to the oracle.
const minted OpKind = "mint"

// itemOrdered asks the oracle of one item.
func itemOrdered(h *History, m Mint, item market.ItemID) bool {
	o := oracle{item: item}
	for _, f := range h.Final {
		if f.Item == item {
			o.final = append(o.final, f)
		}
	}
	ops := []Op{{Kind: minted, Start: m.Start, End: m.End, Seller: m.Owner, Outcome: m.Outcome}}
	for _, x := range h.Ops {
		if x.Item == item {
			ops = append(ops, x)
		}
	}
	return o.ordered(world{}, ops)
}

// edit changes one thing.
func edit(t *rapid.T, h *History) {
	if len(h.Ops) == 0 {
		return
	}
	o := &h.Ops[rapid.IntRange(0, len(h.Ops)-1).Draw(t, "edited")]
	account := func() market.UserID { return market.UserID(rapid.IntRange(1, h.Accounts).Draw(t, "account")) }
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		o.Outcome, o.Reason = Applied, ""
	case 1:
		o.Outcome, o.Reason = Refused, rapid.SampledFrom([]string{
			"not_owned", "not_listed", "price_changed", "insufficient_funds", "contended",
		}).Draw(t, "reason")
	case 2:
		o.Price = rapid.Int64Range(1, 150).Draw(t, "price")
	case 3:
		o.Seller = account()
	case 4:
		if o.Kind == Purchase {
			o.Buyer = account()
		}
	case 5:
		o.Start, o.End = o.End, o.End+o.End-o.Start
	case 6:
		for i, f := range h.Final {
			if f.Item == o.Item {
				h.Final[i].User = account()
			}
		}
	}
}
