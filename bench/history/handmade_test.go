package history

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
)

// hand is a history made by hand: two accounts of 100 coins, 1 and 2, and more; item 1 to 1000 are of account 1.
func hand(ops ...Op) *History {
	h := &History{
		Header: Header{Subject: "hand", Mix: "1x1", Accounts: 7, Funds: 100}, Workers: []string{"seller", "buyer"},
		Mints: []Mint{{Worker: 1, Start: 1, End: 2, First: 1, Owner: 1, Outcome: Applied}},
		Ops:   ops, FinalFunds: map[market.UserID]int64{},
	}
	for id := market.UserID(1); id <= 7; id++ {
		h.FinalFunds[id] = 100
	}
	for item := market.ItemID(1); item <= market.BatchSize; item++ {
		h.Final = append(h.Final, Found{Item: item, User: 1})
	}
	return h
}

func listed(start, end int64, outcome Outcome) Op {
	return Op{Worker: 1, Kind: List, Start: start * 1e6, End: end * 1e6, Item: 17, Seller: 1, Price: 40, Outcome: outcome}
}

func sold(start, end int64, buyer market.UserID, outcome Outcome) Op {
	return Op{
		Worker: int(buyer), Kind: Purchase, Start: start * 1e6, End: end * 1e6, Item: 17, Seller: 1, Buyer: buyer, Price: 40,
		Outcome: outcome,
	}
}

func refused(o Op, reason string) Op {
	o.Outcome, o.Reason = Refused, reason
	return o
}

func (h *History) with(s Stray) *History { h.Strays = append(h.Strays, s); return h }

func (h *History) mints(m Mint) *History { h.Mints = append(h.Mints, m); return h }

func (h *History) finds(f Found) *History {
	h.Final = append(h.Final, f)
	slices.SortStableFunc(h.Final, func(a, b Found) int { return cmp.Compare(a.Item, b.Item) })
	return h
}

// lies puts item 17 where it lies at the end.
func (h *History) lies(places ...location) *History {
	before, after := h.Final[:16:16], h.Final[17:]
	for _, p := range places {
		before = append(before, Found{17, p.user, p.listed, p.price})
	}
	h.Final = append(before, after...)
	return h
}

func (h *History) holds(id market.UserID, funds int64) *History {
	h.FinalFunds[id] = funds
	return h
}

func of(user market.UserID) location { return location{user: user} }

func offered(price int64) location { return location{1, true, price} }

func priced(o Op, price int64) Op { o.Price = price; return o }

func by(o Op, seller market.UserID) Op { o.Seller = seller; return o }

func (h *History) paid(n int64) *History { return h.holds(1, 100+n).holds(6, 100-n) }

// Each is a history in which one thing is, or is not, wrong.
var hands = []struct {
	name string
	h    *History
	part string // the one that is not linearizable; empty: none
	says string
}{
	{"sold once", hand(listed(120, 121, Applied), sold(203, 204, 6, Applied)).lies(of(6)).paid(40), "", ""},
	{"sold twice", hand(listed(120, 121, Applied), sold(203, 204, 6, Applied), sold(203, 206, 7, Applied)).
		lies(of(6)).paid(40).holds(1, 180).holds(7, 60), "items",
		"item 17: minted for 1 (0.000000-0.000000 s), listed by 1 for 40 coins (0.120000-0.121000 s), " +
			"sold by 1 to 6 for 40 coins (0.203000-0.204000 s), sold by 1 to 7 for 40 coins (0.203000-0.206000 s): sold twice"},
	{"sold before it was listed", hand(sold(100, 110, 6, Applied), listed(120, 121, Applied)).lies(of(6)).paid(40),
		"items",
		"sold without being listed"},
	{"sold while it was listed", hand(sold(100, 125, 6, Applied), listed(120, 121, Applied)).lies(of(6)).paid(40), "", ""},
	{"sold at another price", hand(listed(120, 121, Applied), priced(sold(203, 204, 6, Applied), 39)).lies(of(6)).paid(39),
		"items", "at a price at which it was not listed"},
	{"listed by another", hand(by(listed(120, 121, Applied), 2)).lies(location{2, true, 40}), "items",
		"by one who did not have it"},
	{"listed twice", hand(listed(120, 121, Applied), listed(130, 131, Applied)).lies(offered(40)), "items",
		"did not have it"},
	{"lost", hand(listed(120, 121, Applied)).lies(), "items", "in the end it lies nowhere: lost"},
	{"in two places", hand(listed(120, 121, Applied)).lies(of(1), offered(40)), "items",
		"in the end it lies in the inventory of 1 and on the market, listed by 1 for 40 coins: in several places"},
	{"came from nowhere", hand().lies(of(3)), "items",
		"in the end it lies in the inventory of 3: nothing brought it there"},
	{"refused as not listed when it was", hand(listed(120, 121, Applied), refused(sold(203, 204, 6, ""), "not_listed")).
		lies(offered(40)), "items", "refused to a buyer as not listed by 1 (0.203000-0.204000 s): refused, though"},
	{"refused as not listed while it was being listed", hand(listed(120, 121, Applied),
		refused(sold(110, 120, 6, ""), "not_listed")).
		lies(offered(40)), "", ""},
	{"refused as dearer at that price", hand(listed(120, 121, Applied), refused(sold(203, 204, 6, ""), "price_changed")).
		lies(offered(40)), "items", "refused, though"},
	{"refused as not owned when it was", hand(refused(listed(120, 121, ""), "not_owned")), "items",
		"refused to 1 as not owned"},
	{"refused under contention", hand(refused(listed(120, 121, ""), "contended"), refused(sold(1, 2, 6, ""), "stale")),
		"", ""},
	{"lost reply, applied", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown)).lies(of(6)).paid(40), "", ""},
	{"lost reply, not applied", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown)).lies(offered(40)), "", ""},
	{"lost reply, applied later", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown),
		refused(priced(sold(300, 301, 7, ""), 39), "price_changed")).lies(of(6)).paid(40), "", ""},
	{"lost reply, applied before it was sent", hand(listed(120, 121, Applied),
		refused(sold(300, 301, 7, ""), "not_listed"),
		sold(403, 404, 6, Unknown)).lies(of(6)).paid(40), "items", "refused, though"},
	{"lost reply, and paid without the item", hand(listed(120, 121, Applied),
		sold(203, 204, 6, Unknown)).lies(offered(40)).paid(40),
		"accounts", "account 1 holds 40 coins more than its operations say: 140, and should hold 100"},
	{"lost reply, and the item without paying", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown)).lies(of(6)),
		"accounts", "account 6 holds 40 coins more than its operations say"},
	{"two lost replies of one buyer", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown),
		sold(205, 206, 6, Unknown)).
		lies(of(6)).paid(40), "", ""},
	{"two lost replies of one buyer, charged twice", hand(listed(120, 121, Applied), sold(203, 204, 6, Unknown),
		sold(205, 206, 6, Unknown)).lies(of(6)).holds(1, 180).holds(6, 20), "accounts", "account 6 holds 40 coins less"},
	{"listed and sold at one of two prices, as the accounts tell", hand(lostAtTwoPrices()...).lies(of(6)).paid(50),
		"", ""},
	{"listed and sold at one of two prices, and neither paid", hand(lostAtTwoPrices()...).lies(of(6)).paid(45),
		"accounts", "coins"},
	{"charged twice", hand(listed(120, 121, Applied), sold(203, 204, 6, Applied)).lies(of(6)).holds(1, 140).holds(6, 20),
		"accounts", "account 6 holds 40 coins less than its operations say: 20, and should hold 60"},
	{"account gone", func() *History { h := hand(); delete(h.FinalFunds, 3); return h }(), "accounts",
		"account 3 is gone"},
	{"junk on the market", func() *History { h := hand(); h.Strays = []Stray{{Member: "junk"}}; return h }(), "items",
		`"junk"`},
	{"a number in an inventory that is no item", hand().with(Stray{2, "0"}), "items",
		`the inventory of 2 holds "0", which is no item`},
	{"the largest item", hand().finds(Found{Item: math.MaxInt64, User: 2}), "items",
		"item 9223372036854775807: in the end"},
	{"lost, and a junk item before it", hand().lies().finds(Found{Item: 0, User: 2}), "items", "item 17: "},
	{"a batch that was refused", hand().mints(Mint{Worker: 1, Start: 5, End: 6, First: 2001, Owner: 1,
		Outcome: Refused}), "", ""},
	{"bought for more than it had", hand(priced(listed(120, 121, Applied), 140), priced(sold(203, 204, 6, Applied), 140)).
		lies(of(6)).paid(140), "order of accounts",
		"account 6: holds 100 coins, item 17 bought for 140 coins (0.203000-0.204000 s): spent coins that it did not have"},
	{"refused with enough coins", hand(listed(120, 121, Applied), refused(sold(203, 204, 6, ""), "insufficient_funds")).
		lies(offered(40)), "order of accounts", "item 17 for 40 coins refused as too dear (0.203000-0.204000 s): " +
		"refused, though"},
	{"refused without enough coins", hand(priced(listed(120, 121, Applied), 140),
		refused(priced(sold(203, 204, 6, ""), 140), "insufficient_funds")).lies(offered(140)), "", ""},
}

// lostAtTwoPrices are two listings and two orders, of which every reply was lost.
func lostAtTwoPrices() []Op {
	return []Op{
		listed(120, 121, Unknown), priced(listed(122, 123, Unknown), 50),
		sold(203, 204, 6, Unknown), priced(sold(205, 206, 6, Unknown), 50),
	}
}

func TestHandMade(t *testing.T) {
	for _, c := range hands {
		t.Run(c.name, func(t *testing.T) {
			v := Check(t.Context(), c.h)
			var b strings.Builder
			if err := v.Write(&b); err != nil {
				t.Fatal(err)
			}
			for _, p := range v.Parts {
				want := Linearizable
				if p.Name == LocksPart || p.Name == TokensPart {
					want = NotChecked
				}
				if p.Name == c.part {
					want = Violated
				}
				if p.Answer == Undecided && c.part != "" {
					continue // what is wrong may leave another part open
				}
				if p.Answer != want {
					t.Errorf("%s: %s, want %s", p.Name, p.Answer, want)
				}
			}
			if (v.Answer == Violated) != (c.part != "") || !strings.Contains(b.String(), c.says) {
				t.Errorf("want %q in\n%s", c.says, b.String())
			}
		})
	}
}
