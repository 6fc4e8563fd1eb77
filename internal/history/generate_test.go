package history

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/market"
)

// A generator makes a history by trading on the reference market, one operation after the
// other, and then pretends that each took longer, so that they overlap.
type generator struct {
	draw     func(n int) int // 0 to n-1
	accounts int
	funds    int64
	items    int // that are traded in, of the first batch; later batches follow when these are sold
	spread   int // how many operations an operation may overlap, before and after
	lost     int // in a thousand replies
	relist   bool
}

// history makes n operations.
func (g generator) history(operations int) *History {
	h := &History{Header: Header{
		Subject:  "reference",
		Mix:      "1x1",
		Accounts: g.accounts,
		Funds:    g.funds,
		Began:    time.Unix(0, 0),
	}}
	r := marketstore.NewReference(market.Opening{Accounts: g.accounts, Funds: g.funds})

	const tick = 1000
	interval := func(n int) (start, end int64) { // around the moment at which it happens
		at := int64(n+g.spread+1) * tick
		return at - int64(g.draw(g.spread*tick+1)), at + int64(g.draw(g.spread*tick+1))
	}

	owner := map[market.ItemID]market.UserID{}
	offers := map[market.ItemID]Op{}
	var first market.ItemID

	mint := func(n int) {
		start, end := interval(n)
		seller := market.UserID(1 + g.draw(g.accounts))
		first = r.Mint(seller)
		made := Op{
			Worker: 1, Kind: Mint, Start: start, End: end, Item: first, Seller: seller, Outcome: Applied,
		}
		h.Ops = append(h.Ops, made)
		for i := range g.items {
			owner[first+market.ItemID(i)] = seller
		}
	}

	mint(0)
	for n := 1; n <= operations; n++ {
		if !g.relist && n%(4*g.items) == 0 {
			mint(n)
			continue
		}

		o := Op{Worker: 1 + g.draw(2), Kind: List, Item: first + market.ItemID(g.draw(g.items)),
			Price: int64(1 + g.draw(100))}
		o.Start, o.End = interval(n)
		o.Seller = owner[o.Item]
		if offer, ok := offers[o.Item]; ok && g.draw(4) > 0 {
			o.Kind = Purchase
			o.Seller = offer.Seller
			o.Price = offer.Price
			o.Buyer = market.UserID(1 + g.draw(g.accounts))
			if g.draw(8) == 0 {
				o.Price++
			}
		}

		var err error
		lost := g.draw(1000) < g.lost
		if !lost || g.draw(2) == 0 { // a lost one may never have happened
			err = o.do(r)
			if err == nil && o.Kind == List {
				offers[o.Item] = o
			} else if err == nil {
				owner[o.Item] = o.Buyer
				if g.relist {
					delete(offers, o.Item)
				}
			}
		}

		o.Outcome = Applied
		o.Reason = market.Reason(err)
		switch {
		case lost:
			o.Outcome = Unknown
			o.Reason = ""
			o.End = o.Start + 1
		case o.Reason != "":
			o.Outcome = Refused
		}
		h.Ops = append(h.Ops, o)
	}

	h.Final = r.Snapshot()
	return h
}

// do makes the operation on the reference.
func (o *Op) do(r *marketstore.Reference) error {
	if o.Kind == List {
		listing := market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}
		_, err := r.List(context.Background(), listing)
		return err
	}
	_, err := r.Purchase(context.Background(), market.Order{
		Item: o.Item, Seller: o.Seller, Buyer: o.Buyer, Price: o.Price,
	})
	return err
}

// An oracle looks for an order of a few operations by trying all, and is written without the
// checker's models. It keeps the place of the one item and the coins of the one account in
// plain variables.
type oracle struct {
	final   []location    // the places where the item lies at the end
	account market.UserID // 0: the item is judged, else this account
}

type world struct {
	item  location
	funds int64
}

// ordered reports whether the operations that are left have an order.
func (o oracle) ordered(w world, ops []Op) bool {
	if !slices.ContainsFunc(ops, func(x Op) bool { return x.Outcome != Unknown }) && o.ended(w) {
		return true // the unknown ones that are left never happened
	}

	for i, x := range ops {
		if slices.ContainsFunc(ops, func(y Op) bool {
			return y.Outcome != Unknown && y.End < x.Start
		}) {
			continue // that one came first
		}

		if after, ok := o.happens(w, x); ok &&
			o.ordered(after, slices.Delete(slices.Clone(ops), i, i+1)) {
			return true
		}
	}
	return false
}

func (o oracle) ended(w world) bool {
	return o.account != 0 || len(o.final) == 1 && o.final[0] == w.item ||
		len(o.final) == 0 && w.item == location{}
}

// happens is the world after an operation whose client was told what it was told.
func (o oracle) happens(w world, x Op) (world, bool) {
	if o.account != 0 {
		return w.pays(o.account, x)
	}
	after, ok := applied(w.item, x)
	return world{item: after}, ok
}

// pays is the account after an operation.
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

// applied is where the item lies after an operation whose client was told what it was told.
func applied(item location, x Op) (location, bool) {
	owns := item == location{user: x.Seller}
	lists := item.listed && item.user == x.Seller

	switch {
	case x.Outcome == Refused && x.Reason == "not_listed" && x.Kind == Purchase:
		return item, !lists
	case x.Outcome == Refused && x.Reason == "price_changed" && x.Kind == Purchase:
		return item, lists && item.price != x.Price
	case x.Outcome == Refused:
		return item, !owns || x.Kind != List || x.Reason != "not_owned"
	case x.Kind == List:
		return location{x.Seller, true, x.Price}, owns
	case x.Kind == Mint:
		return location{user: x.Seller}, item == location{}
	}
	return location{user: x.Buyer}, lists && item.price == x.Price
}

// small draws a small market in which coins run out, items are sold on, and
// replies are lost.
func small(t *rapid.T) generator {
	return generator{
		draw: func(n int) int {
			return rapid.IntRange(0, n-1).Draw(t, "")
		},
		accounts: rapid.IntRange(1, 3).Draw(t, "accounts"),
		funds:    rapid.Int64Range(0, 200).Draw(t, "funds"),
		items:    rapid.IntRange(1, 3).Draw(t, "items"), spread: rapid.IntRange(0, 4).Draw(t, "spread"),
		lost: rapid.SampledFrom([]int{0, 0, 50}).Draw(t, "lost"), relist: rapid.Bool().Draw(t, "relist"),
	}
}

// TestEditsAreCaught: a record is changed, in what a client was told, when, or
// where things lie at the end. Items and payments are then exactly as linearizable as an
// oracle that tries all orders says.
func TestEditsAreCaught(t *testing.T) {
	t.Parallel()
	caught := 0
	legal := 0
	rapid.Check(t, func(t *rapid.T) {
		g := small(t)
		g.lost = rapid.SampledFrom([]int{0, 0, 0, 200}).Draw(t, "lost")
		h := g.history(rapid.IntRange(1, 7).Draw(t, "operations"))
		edit(t, h)

		v := Check(context.Background(), h)
		want := Linearizable
		for _, m := range h.Ops {
			for n := range g.items {
				if m.Kind == Mint && !itemOrdered(h, m, m.Item+market.ItemID(n)) {
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
		if got := v.Part("payments").Answer; got != want {
			t.Fatalf("payments are %s, and the oracle says %s: %+v", got, want, h.Ops)
		}
	})

	if caught == 0 || legal == 0 {
		t.Errorf("%d edits were violations and %d legal: too few of one kind to tell", caught, legal)
	}
}

// itemOrdered asks the oracle of one item of a batch.
func itemOrdered(h *History, m Op, item market.ItemID) bool {
	var o oracle
	for user, items := range h.Final.Inventory {
		if items[item] {
			o.final = append(o.final, location{user: user})
		}
	}

	for member, price := range h.Final.Listings {
		if listed, seller, _ := market.ParseMember(member); listed == item {
			o.final = append(o.final, location{seller, true, price})
		}
	}

	ops := []Op{m}
	for _, x := range h.Ops {
		if x.Item == item && x.Kind != Mint {
			ops = append(ops, x)
		}
	}
	return o.ordered(world{}, ops)
}

// edit changes one thing.
func edit(t *rapid.T, h *History) {
	o := &h.Ops[rapid.IntRange(0, len(h.Ops)-1).Draw(t, "edited")]
	if o.Kind == Mint {
		return
	}

	account := func() market.UserID {
		return market.UserID(rapid.IntRange(1, h.Accounts).Draw(t, "account"))
	}

	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0:
		o.Outcome = Applied
		o.Reason = ""
	case 1:
		o.Outcome = Refused
		o.Reason = rapid.SampledFrom([]string{
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
		for user, items := range h.Final.Inventory {
			if items[o.Item] {
				delete(h.Final.Inventory[user], o.Item)
				h.finds(o.Item, account())
				return
			}
		}
	}
}
