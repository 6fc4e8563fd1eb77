package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

const (
	maxProblems = 10 // how many problems of items, and of accounts, are described; all are counted
	// Operations of unknown outcome on one item, at most; a client ends with its first.
	mostApplied = 3
)

// Audit accounts for every coin and item of a market at rest, opened with o and traded on
// by the clients that kept the ledgers: the listings and sales that clients were told of
// must lead from who minted an item to where it lies. An error means that the market
// could not be read. It needs about 25 bytes of memory for each item and each operation.
func Audit(ctx context.Context, rdb redis.Cmdable, keys Keys, o Opening, ledgers ...*Ledger) (AuditResult, error) {
	a, r := newAuditor(o, ledgers), reader{rdb, keys, o.Accounts}
	if err := r.readItems(ctx, a.look); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read items: %w", keys.Prefix(), err)
	}
	a.judgeItems(ledgers)
	if err := r.readFunds(ctx, a.judgeAccount); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read accounts: %w", keys.Prefix(), err)
	}
	return a.result, nil
}

// AuditFunds audits accounts alone, and takes operations of unknown outcome as not
// applied. It describes every problem.
func AuditFunds(funds map[UserID]int64, o Opening, ledgers ...*Ledger) AuditResult {
	a := newAuditor(o, ledgers)
	a.described = int64(o.Accounts)
	for id := UserID(1); id <= UserID(o.Accounts); id++ {
		var gone error
		coins, there := funds[id]
		if !there {
			gone = redis.Nil
		}
		a.judgeAccount(id, coins, gone)
	}
	return a.result
}

type spot struct {
	place
	price float64
}

func (s spot) String() string {
	if s.place > 0 {
		return fmt.Sprintf("inventory:%d", s.place)
	}
	return fmt.Sprintf("market: (seller %d, %v coins)", -s.place, s.price)
}

// auditor keeps the place of each item and the price at which it is listed. It knows who
// minted an item by its batch.
type auditor struct {
	opening Opening
	minters []place   // by batch; 0: not minted
	found   []place   // by item; 0: not found
	prices  []float64 // by item, of those found on the market
	deltas  []int64   // by account: how much its funds changed
	buyers  []bool    // by account: whether an order was made for it
	// Items with a problem already counted; a map, because damage may hold any id.
	bad       map[ItemID]bool
	result    AuditResult
	described int64 // how many problems of items, and how many of accounts, are described
	// Of the item that is judged: how often it came to a spot, less how often it left.
	came map[spot]int
}

func newAuditor(o Opening, ledgers []*Ledger) *auditor {
	a := &auditor{
		opening: o, deltas: make([]int64, o.Accounts+1), buyers: make([]bool, o.Accounts+1),
		bad: map[ItemID]bool{}, came: map[spot]int{}, described: maxProblems,
	}
	a.result.Opened = int64(o.Accounts) * o.Funds
	for _, l := range ledgers {
		for _, g := range l.granted {
			a.deltas[g.user] += g.coins
			a.result.Opened += g.coins
		}
		for _, m := range l.minted {
			for batchOf(m.first) >= len(a.minters) {
				a.minters = append(a.minters, 0)
			}
			a.minters[batchOf(m.first)] = place(m.owner)
		}
		for _, piece := range l.applied {
			for _, t := range piece {
				a.transfer(t)
			}
		}
		for _, t := range l.unsure {
			a.buyers[t.buyer] = true
		}
	}
	items := len(a.minters)*BatchSize + 1
	a.found, a.prices = make([]place, items), make([]float64, items)
	return a
}

func batchOf(id ItemID) int { return int(id-1) / BatchSize }

// minter returns who minted an item according to the ledgers; 0 is nobody.
func (a *auditor) minter(id ItemID) place {
	if id < 1 || batchOf(id) >= len(a.minters) {
		return 0
	}
	return a.minters[batchOf(id)]
}

// look notes where an item lies. SCAN may return an element twice, so the same
// place twice is no problem.
func (a *auditor) look(f found) {
	at := spot{place(f.owner), f.price}
	if f.listed {
		at.place = -at.place
	}
	switch id := f.item; {
	case f.damage != "":
		a.itemProblem(NoItem, 0, "%s", f.damage)
	case f.owner < 1 || f.owner > UserID(a.opening.Accounts):
		is := "belongs to"
		if f.listed {
			is = "is listed by"
		}
		a.itemProblem(NoItem, id, "item %d %s user %d, who has no account", id, is, f.owner)
	case a.minter(id) == 0:
		a.itemProblem(NoItem, id, "item %d lies in %s but was never minted", id, at)
	case a.found[id] == 0:
		a.found[id], a.prices[id] = at.place, at.price
	case a.found[id] != at.place:
		kind := StillListed
		if a.found[id] > 0 && at.place > 0 {
			kind = TwoOwners
		}
		a.itemProblem(kind, id, "item %d is in two places: %s and %s", id, spot{a.found[id], a.prices[id]}, at)
	}
}

// settleMints forgets the batches of unknown outcome of which no item was found.
func (a *auditor) settleMints(ledgers []*Ledger) {
	found := func(p place) bool { return p != 0 }
	for _, l := range ledgers {
		for _, m := range l.minted {
			if m.unsure && !slices.ContainsFunc(a.found[m.first:m.first+BatchSize], found) {
				a.minters[batchOf(m.first)] = 0
			}
		}
	}
}

// judgeItems compares where each item lies with where its trades lead.
func (a *auditor) judgeItems(ledgers []*Ledger) {
	a.settleMints(ledgers)
	var pieces [][]trade
	for _, l := range ledgers {
		pieces = append(pieces, l.applied...)
	}
	trades, unsure := slices.Concat(pieces...), map[ItemID][]trade{}
	trades = slices.DeleteFunc(trades, func(t trade) bool {
		if a.minter(t.item) != 0 {
			return false
		}
		a.itemProblem(NoItem, t.item, "item %d was traded by user %d but never minted", t.item, cmp.Or(t.buyer, t.seller))
		return true
	})
	for _, l := range ledgers {
		for _, t := range l.unsure {
			if a.minter(t.item) == 0 {
				a.result.NotApplied++
				continue
			}
			unsure[t.item] = append(unsure[t.item], t)
		}
	}
	slices.SortFunc(trades, func(x, y trade) int {
		return cmp.Or(cmp.Compare(x.item, y.item), cmp.Compare(x.buyer, y.buyer), cmp.Compare(x.seller, y.seller))
	})
	for id := ItemID(1); int(id) < len(a.found); id++ {
		n := 0
		for n < len(trades) && trades[n].item == id {
			n++
		}
		if a.minter(id) != 0 {
			a.judgeItem(id, trades[:n], unsure[id])
		}
		trades = trades[n:]
	}
}

func (a *auditor) judgeItem(id ItemID, trades, unsure []trade) {
	clear(a.came)
	a.move(spot{place: a.minter(id)}, 1)
	for _, t := range trades {
		a.trade(t, 1)
	}
	at := spot{a.found[id], a.prices[id]}
	if at.place != 0 {
		a.move(at, -1)
		a.settle(unsure)
	} else {
		a.result.NotApplied += int64(len(unsure))
	}
	switch {
	case a.bad[id]:
	case at.place == 0:
		a.itemProblem(Nowhere, id, "item %d of user %d is nowhere", id, a.minter(id))
	case len(a.came) > 0:
		a.move(at, 1)
		a.describeWay(id, at, trades)
	default:
		a.result.Items++
	}
}

// move notes that the item came to a spot n times more than it left it. A spot where
// both are equal is forgotten.
func (a *auditor) move(to spot, n int) {
	a.came[to] += n
	if a.came[to] == 0 {
		delete(a.came, to)
	}
}

func (a *auditor) trade(t trade, n int) {
	from, to := t.way()
	a.move(from, -n)
	a.move(to, n)
}

// settle decides which operations of unknown outcome were applied: the fewest that
// lead an item to where it lies.
func (a *auditor) settle(unsure []trade) {
	applied := 0
	for n := range min(len(unsure), mostApplied) + 1 {
		if a.leads(unsure, n) {
			applied = n
			break
		}
	}
	a.result.Applied += int64(applied)
	a.result.NotApplied += int64(len(unsure) - applied)
}

// leads reports whether the item's way leads to where it lies with n of the
// operations, and books these if it does.
func (a *auditor) leads(unsure []trade, n int) bool {
	if n == 0 {
		return len(a.came) == 0
	}
	for i, t := range unsure {
		a.trade(t, 1)
		if a.leads(unsure[i+1:], n-1) {
			a.transfer(t)
			return true
		}
		a.trade(t, -1)
	}
	return false
}

// describeWay says what is wrong with an item whose trades do not lead to where it lies.
func (a *auditor) describeWay(id ItemID, at spot, trades []trade) {
	should := spot{place: a.minter(id)}
	for _, t := range trades {
		from, to := t.way()
		if a.came[from] < 0 && t.buyer != 0 {
			var buyers []place
			for _, other := range trades {
				if left, _ := other.way(); other.buyer != 0 && left == from {
					buyers = append(buyers, other.buyer)
				}
			}
			if len(buyers) > 1 {
				kind := SoldTwice
				if len(slices.Compact(slices.Sorted(slices.Values(buyers)))) == 1 {
					kind = BoughtTwice
				}
				a.itemProblem(kind, id, "item %d was sold twice: to user %d and to user %d", id, buyers[0], buyers[1])
				return
			}
			a.itemProblem(Elsewhere, id, "item %d was bought by user %d from %s, where it was not listed", id, t.buyer, from)
			return
		}
		if a.came[to] > 0 {
			should = to
		}
	}
	kind := Elsewhere
	bought := should.place < 0 && at.place > 0
	listed := should.place > 0 && at.place == -should.place
	if bought || listed {
		kind = MovedUntold
	}
	a.itemProblem(kind, id, "item %d should lie in %s but lies in %s", id, should, at)
}

func (a *auditor) transfer(t trade) {
	if t.buyer != 0 {
		a.buyers[t.buyer] = true
		a.deltas[t.seller] += t.price
		a.deltas[t.buyer] -= t.price
	}
}

func (a *auditor) judgeAccount(id UserID, funds int64, err error) {
	expected := a.opening.Funds + a.deltas[id]
	switch {
	case errors.Is(err, redis.Nil):
		a.moneyProblem(NoFunds, id, "account of user %d is gone", id)
		return
	case err != nil:
		a.moneyProblem(NoFunds, id, "account of user %d has no readable funds (%v)", id, err)
		return
	case funds != expected:
		a.moneyProblem(differs(funds, expected), id, "account of user %d holds %d coins, and should hold %d (%+d)",
			id, funds, expected, funds-expected)
	case funds < 0:
		a.moneyProblem(Overdrawn, id, "account of user %d is overdrawn: %d coins", id, funds)
	}
	a.result.Funds += funds
}

// differs is the kind of problem of an account that does not hold what it should.
func differs(funds, expected int64) ProblemKind {
	switch {
	case funds < 0:
		return Overdrawn
	case funds > expected:
		return TooMany
	}
	return TooFew
}

// itemProblem counts one problem for each item.
func (a *auditor) itemProblem(kind ProblemKind, id ItemID, format string, args ...any) {
	if id > 0 && a.bad[id] {
		return
	}
	a.bad[id] = id > 0
	a.result.ItemProblems++
	if a.result.ItemProblems <= a.described {
		p := Problem{Kind: kind, Item: id, Text: fmt.Sprintf(format, args...)}
		a.result.Problems = append(a.result.Problems, p)
	}
}

func (a *auditor) moneyProblem(kind ProblemKind, id UserID, format string, args ...any) {
	a.result.MoneyProblems++
	if a.result.MoneyProblems <= a.described {
		p := Problem{Kind: kind, User: id, Buyer: a.buyers[id], Text: fmt.Sprintf(format, args...)}
		a.result.Problems = append(a.result.Problems, p)
	}
}
