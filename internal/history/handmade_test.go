package history

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
)

// hand is a history made by hand: seven accounts of 100 coins; item 1 to 1000
// are of account 1.
func hand(ops ...Op) *History {
	h := &History{
		Header: Header{Subject: "hand", Mix: "1x1", Accounts: 7, Funds: 100},
		Ops: append([]Op{{
			Worker: 1, Kind: Mint, Start: 1, End: 2, Item: 1, Seller: 1, Outcome: Applied,
		}}, ops...),
		Final: market.Snapshot{
			Funds:     map[market.UserID]int64{},
			Inventory: map[market.UserID]map[market.ItemID]bool{},
			Listings:  map[string]int64{},
		},
	}

	for id := market.UserID(1); id <= 7; id++ {
		h.holds(id, 100)
	}
	for item := market.ItemID(1); item <= market.BatchSize; item++ {
		h.finds(item, 1)
	}
	return h
}

func listed(start, end int64, outcome Outcome) Op {
	return Op{
		Worker: 1, Kind: List, Start: start * 1e6, End: end * 1e6,
		Item: 17, Seller: 1, Price: 40, Outcome: outcome,
	}
}

func sold(start, end int64, buyer market.UserID, outcome Outcome) Op {
	return Op{
		Worker: int(buyer), Kind: Purchase, Start: start * 1e6, End: end * 1e6,
		Item: 17, Seller: 1, Buyer: buyer, Price: 40,
		Outcome: outcome,
	}
}

func refused(o Op, reason string) Op   { o.Outcome, o.Reason = Refused, reason; return o }
func priced(o Op, price int64) Op      { o.Price = price; return o }
func by(o Op, seller market.UserID) Op { o.Seller = seller; return o }
func of(user market.UserID) location   { return location{user: user} }
func offered(price int64) location     { return location{1, true, price} }

// finds is an item in an inventory at the end.
func (h *History) finds(item market.ItemID, user market.UserID) *History {
	if h.Final.Inventory[user] == nil {
		h.Final.Inventory[user] = map[market.ItemID]bool{}
	}
	h.Final.Inventory[user][item] = true
	return h
}

// lies puts item 17 where it lies at the end.
func (h *History) lies(places ...location) *History {
	delete(h.Final.Inventory[1], 17)
	for _, p := range places {
		if p.listed {
			h.Final.Listings[market.Member(17, p.user)] = p.price
		} else {
			h.finds(17, p.user)
		}
	}
	return h
}

// finds18 puts item 18 in the inventory of 6.
func (h *History) finds18() *History { delete(h.Final.Inventory[1], 18); return h.finds(18, 6) }

func (h *History) holds(id market.UserID, n int64) *History { h.Final.Funds[id] = n; return h }

// paid is what 6 has paid to 1.
func (h *History) paid(n int64) *History { return h.holds(1, 100+n).holds(6, 100-n) }

// Item 17 listed, sold, and sold with a lost reply.
var (
	up   = listed(120, 121, Applied)
	sale = sold(203, 204, 6, Applied)
	lost = sold(203, 204, 6, Unknown)
)

// Each is a history in which one thing is, or is not, wrong.
var hands = []struct {
	name string
	h    *History
	part string // the one that is not linearizable; empty: none
	says string
}{
	{"sold once", hand(up, sale).lies(of(6)).paid(40), "", ""},
	{"sold twice",
		hand(up, sale, sold(203, 206, 7, Applied)).lies(of(6)).paid(40).holds(1, 180).holds(7, 60),
		"items",
		"item 17: minted for 1 (0.000000-0.000000 s), listed by 1 for 40 coins (0.120000-0.121000 s), " +
			"sold by 1 to 6 for 40 coins (0.203000-0.204000 s), " +
			"sold by 1 to 7 for 40 coins (0.203000-0.206000 s): sold twice"},
	{"sold before it was listed", hand(sold(100, 110, 6, Applied), up).lies(of(6)).paid(40), "items",
		"sold without being listed"},
	{"sold at another price", hand(up, priced(sale, 39)).lies(of(6)).paid(39), "items",
		"sold without being listed at that price"},
	{"listed by another", hand(by(up, 2)).lies(location{2, true, 40}), "items",
		"by one who did not have it"},
	{"listed twice", hand(up, listed(130, 131, Applied)).lies(offered(40)), "items",
		"did not have it"},
	{"lost", hand(up).lies(), "items", "in the end it lies nowhere: item lost"},
	{"in two places", hand(up).lies(of(1), offered(40)), "items",
		"in the end it lies in the inventory of 1 and lies on the market, " +
			"listed by 1 for 40 coins: sold twice"},
	{"came from nowhere", hand().lies(of(3)), "items",
		"in the end it lies in the inventory of 3: nothing brought it there"},
	{"refused as not listed when it was",
		hand(up, refused(sale, "not_listed")).lies(offered(40)), "items",
		"refused to a buyer as not listed by 1 (0.203000-0.204000 s): refused, though"},
	{"refused as not owned when it was, and listed later",
		hand(refused(up, "not_owned"), listed(300, 301, Applied)).lies(offered(40)), "items",
		"item 17: minted for 1 (0.000000-0.000000 s), " +
			"refused to 1 as not owned (0.120000-0.121000 s): refused, though"},
	{"refused under contention",
		hand(refused(up, "contended"), refused(sold(1, 2, 6, ""), "stale")), "", ""},
	{"lost reply, applied", hand(up, lost).lies(of(6)).paid(40), "", ""},
	{"lost reply, not applied", hand(up, lost).lies(offered(40)), "", ""},
	{"lost reply, applied before it was sent",
		hand(up, refused(sale, "not_listed"), sold(403, 404, 6, Unknown)).
			lies(of(6)).paid(40), "items", "refused, though"},
	{"lost reply, and paid without the item", hand(up, lost).lies(offered(40)).paid(40), "accounts",
		"charged twice: account of user 1 holds 140 coins, and should hold 100 (+40)"},
	{"lost reply, and the item without paying", hand(up, lost).lies(of(6)), "accounts",
		"not paid: account of user 6 holds 100 coins, and should hold 60 (+40)"},
	{"two lost replies of one buyer",
		hand(up, lost, sold(205, 206, 6, Unknown)).lies(of(6)).paid(40), "", ""},
	{"two lost replies of one buyer, charged twice", hand(up, lost, sold(205, 206, 6, Unknown)).
		lies(of(6)).holds(1, 180).holds(6, 20), "accounts",
		"charged twice: account of user 6 holds 20 coins, and should hold 60 (-40)"},
	{"charged once, and coins lost", hand(up, sale).lies(of(6)).holds(1, 140).holds(6, 20), "accounts",
		"coins lost: account of user 6 holds 20 coins, and should hold 60 (-40)"},
	{"account gone", func() *History {
		h := hand()
		delete(h.Final.Funds, 3)
		return h
	}(), "accounts", "coins lost: account of user 3 is gone"},
	{"junk on the market", func() *History {
		h := hand()
		h.Final.Listings["junk"] = 1
		return h
	}(), "items", `"junk"`},
	{"a number in an inventory that is no item", hand().finds(0, 2), "items",
		"item 0: in the end it lies in the inventory of 2: nothing brought it there"},
	{"the largest item", hand().finds(math.MaxInt64, 2), "items",
		"item 9223372036854775807: in the end"},
	{"a batch minted twice",
		hand(Op{Worker: 2, Kind: Mint, Start: 5, End: 6, Item: 1, Seller: 1, Outcome: Applied}),
		"items", "minted for 1 (0.000000-0.000000 s), minted for 1 (0.000000-0.000000 s): minted twice"},
	{"bought for more than it had",
		hand(priced(up, 140), priced(sale, 140)).lies(of(6)).paid(140),
		"payments", "account 6: holds 100 coins, item 17 bought for 140 coins (0.203000-0.204000 s): " +
			"spent coins that it did not have"},
	{"bought for more than it had, one reply lost",
		hand(twoFor(80, Applied, Unknown)...).lies(of(6)).finds18().paid(160),
		"payments", "account 6: holds 100 coins, item 17 bought for 80 coins (0.203000-0.204000 s), " +
			"item 18 bought for 80 coins (from 0.203000 s on): spent coins that it did not have"},
	{"bought for more than it had, both replies lost",
		hand(twoFor(80, Unknown, Unknown)...).lies(of(6)).finds18().paid(160),
		"payments", "spent coins that it did not have"},
	{"refused with exactly enough",
		hand(priced(up, 100), refused(priced(sale, 100), "insufficient_funds")).lies(offered(100)),
		"payments", "item 17 for 100 coins refused as too dear (0.203000-0.204000 s): refused, though"},
	{"refused with a coin less than it cost",
		hand(priced(up, 101), refused(priced(sale, 101), "insufficient_funds")).lies(offered(101)),
		"", ""},
}

// twoFor are purchases of items 17 and 18 by 6, for these numbers of coins.
func twoFor(price int64, first, second Outcome) []Op {
	all := []Op{
		priced(listed(120, 121, Applied), price), priced(sold(203, 204, 6, first), price),
		priced(listed(120, 121, Applied), price), priced(sold(203, 204, 6, second), price),
	}
	all[2].Item, all[3].Item = 18, 18
	return all
}

// TestHandMade: one part is violated, and says so.
func TestHandMade(t *testing.T) {
	for _, c := range hands {
		t.Run(c.name, func(t *testing.T) {
			v := Check(t.Context(), c.h)
			for _, p := range v.Parts {
				want := Linearizable
				switch p.Name {
				case LocksPart, TokensPart:
					want = NotChecked
				case c.part:
					want = Violated
				}

				// what is wrong may leave another part open
				if p.Answer != want && (p.Answer != Undecided || c.part == "") {
					t.Errorf("%s: %s, want %s", p.Name, p.Answer, want)
				}
			}

			if (v.Answer == Violated) != (c.part != "") || !strings.Contains(words(v), c.says) {
				t.Errorf("want %q in\n%s", c.says, words(v))
			}
		})
	}
}

func held(worker int, called, acquired, releasing int64, fence int64) LockHold {
	return LockHold{
		Worker: worker, Name: "17",
		Called: called * 1e6, Acquired: acquired * 1e6, Releasing: releasing * 1e6,
		Released: releasing*1e6 + 1, Fence: fence,
	}
}

func noticed(h LockHold) LockHold { h.Lost, h.Noticed = true, true; return h }
func untold(h LockHold) LockHold  { h.Lost = true; return h }
func other(h LockHold) LockHold   { h.Name = "18"; return h }

func TestLocks(t *testing.T) {
	for _, c := range []struct {
		name  string
		holds []LockHold
		says  string // empty: nothing is wrong
	}{
		{"one after the other", []LockHold{held(1, 0, 1, 5, 0), held(2, 2, 5, 7, 0)}, ""},
		{"two holders", []LockHold{held(1, 0, 1, 5, 0), held(2, 2, 4, 7, 0)},
			`lock "17": held by worker 1 (0.001000-0.005000 s), ` +
				`and by worker 2 (0.004000-0.007000 s): two holders`},
		{
			"one in the very instant in which the next began",
			[]LockHold{held(1, 0, 5, 7, 0), held(2, 2, 5, 5, 0)}, "",
		},
		{"two locks", []LockHold{held(1, 0, 1, 5, 0), other(held(2, 2, 4, 7, 0))}, ""},
		{"a long hold, a short one, and one that meets the long one", []LockHold{
			held(1, 0, 1, 9, 0), noticed(held(2, 2, 3, 4, 0)), held(3, 2, 6, 7, 0)}, "held by worker 1"},
		{"lost, and told so", []LockHold{noticed(held(1, 0, 1, 5, 0)), held(2, 2, 4, 7, 0)}, ""},
		{
			"lost, and told only by the release",
			[]LockHold{untold(held(1, 0, 1, 5, 0)), held(2, 2, 4, 7, 0)}, "two holders",
		},
		{"tokens grow", []LockHold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 8)}, ""},
		{"a token again", []LockHold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 7)},
			"worker 1 got fencing token 7 (0.001000 s), and worker 2 after it 7"},
		{"a smaller token", []LockHold{held(1, 0, 1, 2, 7), held(2, 2, 3, 4, 9), held(1, 4, 5, 6, 8)},
			"worker 2 got fencing token 9"},
		{"a smaller token, asked for before", []LockHold{held(1, 0, 1, 2, 7), held(2, 0, 3, 4, 6)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hand()
			h.Holds = c.holds
			v := Check(t.Context(), h)

			p := v.Part(LocksPart)
			fine := v.Part(TokensPart)
			found := ", a lock HELD BY TWO 1 time"
			if strings.Contains(c.says, "token") {
				p = v.Part(TokensPart)
				fine = v.Part(LocksPart)
				found = ", fencing tokens DID NOT GROW 1 time"
			}
			want := "LINEARIZABLE" // of the market
			if c.says != "" {
				want = "items and accounts LINEARIZABLE" + found
			}

			broken := c.says != ""
			counted := (p.Wrong == 1) == broken && fine.Wrong == 0
			answered := (v.Answer == Violated) == broken && v.Findings() == want
			if !counted || !answered {
				t.Errorf("%s, %q, want %q: %v %v", v.Answer, v.Findings(), want, p.Stories, fine.Stories)
			}

			tokens := v.Part(TokensPart)
			if (tokens.Answer == NotChecked) == slices.ContainsFunc(c.holds, fenced) {
				t.Errorf("tokens are %s: %s", tokens.Answer, tokens.Checked)
			}
			if c.says != "" && !strings.Contains(p.Stories[0], c.says) {
				t.Errorf("%q does not say %q", p.Stories[0], c.says)
			}
		})
	}
}
