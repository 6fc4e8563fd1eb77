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
	a := newAuditor(o, ledgers)
	r := reader{rdb, keys, o.Accounts}

	if err := r.readItems(ctx, a.look); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read items: %w", keys.Prefix(), err)
	}
	a.judgeItems(ledgers)

	// After the items: by where they lie, judgeItems has settled which purchases of unknown outcome
	// moved coins.
	if err := r.readFunds(ctx, a.judgeAccount); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read accounts: %w", keys.Prefix(), err)
	}
	return a.result, nil
}

// AuditFunds audits accounts alone, and takes operations of unknown outcome as not
// applied. It describes every problem.
func AuditFunds(funds map[UserID]int64, o Opening, ledgers ...*Ledger) AuditResult {
	a := newAuditor(o, ledgers)
	a.described = int64(o.Accounts) // each has one problem at most

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

// spot is where an item lies, and on the market at which price it is listed.
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

// auditor judges a market by conservation: nothing comes from nowhere, and nothing
// vanishes.
//
// Of coins: an account holds what it was opened with, and what its owner's applied
// purchases took from it and brought to it.
//
// Of items: each begins in the inventory of who minted it, and each applied listing or
// purchase moves it from one spot to another. A spot that it came to as often as it left
// it counts 0 (came). If the moves form one way from its minter to the spot where it was
// found, then with a coming at the minter and a leaving at that spot every count is 0.
// Any other count says what is wrong: below 0, it left a spot where it was not (two buyers
// of one listing); above 0, it should still lie there. The order of the moves, which no
// client knows, is not needed.
//
// An operation of unknown outcome may be added as a move. The fewest that make all counts
// 0 were applied (settle).
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
	// Spots with 0 are not in it.
	came map[spot]int
}

// newAuditor sums up what all workers were told for certain: what each account should have gained,
// and who minted which batch. The market is then compared with that. The ledgers name only
// accounts of the opening, and batches whose first item is 1 more than a multiple of BatchSize.
func newAuditor(o Opening, ledgers []*Ledger) *auditor {
	a := &auditor{
		opening:   o,
		deltas:    make([]int64, o.Accounts+1),
		buyers:    make([]bool, o.Accounts+1),
		bad:       map[ItemID]bool{},
		came:      map[spot]int{},
		described: maxProblems,
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

	// One place more than items: ids count from 1, and an item's place is its id.
	items := len(a.minters)*BatchSize + 1
	a.found = make([]place, items)
	a.prices = make([]float64, items)
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

	// Seen for the first time, an item is only noted: whether it may lie there is judged when all
	// were seen. The cases stand in this order because an id without a minter may have no place in
	// found.
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
		a.found[id] = at.place
		a.prices[id] = at.price
	case a.found[id] != at.place:
		kind := StillListed
		if a.found[id] > 0 && at.place > 0 {
			kind = TwoOwners
		}
		a.itemProblem(kind, id, "item %d is in two places: %s and %s", id, spot{a.found[id], a.prices[id]}, at)
	}
}

// settleMints forgets the batches of unknown outcome of which no item was found. If
// one was found, the whole batch was minted.
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
	a.settleMints(ledgers) // first: from here on an item of such a batch was never minted
	trades := a.appliedTrades(ledgers)
	unsure := a.unsureTrades(ledgers)

	// Trades are sorted by item: those of the next item stand first.
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

// appliedTrades are the trades that clients were told of, sorted by item. One of an item
// that nobody minted is a problem, and is left out.
func (a *auditor) appliedTrades(ledgers []*Ledger) []trade {
	var pieces [][]trade
	for _, l := range ledgers {
		pieces = append(pieces, l.applied...)
	}

	trades := slices.DeleteFunc(slices.Concat(pieces...), func(t trade) bool {
		if a.minter(t.item) != 0 {
			return false
		}
		a.itemProblem(NoItem, t.item, "item %d was traded by user %d but never minted", t.item, cmp.Or(t.buyer, t.seller))
		return true
	})
	// By more than the item, or what describeWay and describeSale tell would depend on how the
	// ledgers divide the trades.
	slices.SortFunc(trades, func(x, y trade) int {
		return cmp.Or(cmp.Compare(x.item, y.item), cmp.Compare(x.buyer, y.buyer), cmp.Compare(x.seller, y.seller))
	})
	return trades
}

// unsureTrades are those of unknown outcome, by item. Of an item that was never minted
// none was applied.
func (a *auditor) unsureTrades(ledgers []*Ledger) map[ItemID][]trade {
	unsure := map[ItemID][]trade{}
	for _, l := range ledgers {
		for _, t := range l.unsure {
			if a.minter(t.item) == 0 {
				a.result.NotApplied++
				continue
			}
			unsure[t.item] = append(unsure[t.item], t)
		}
	}
	return unsure
}

// judgeItem compares where an item lies with where its trades lead: see auditor.
func (a *auditor) judgeItem(id ItemID, trades, unsure []trade) {
	clear(a.came)
	a.move(spot{place: a.minter(id)}, 1)
	for _, t := range trades {
		a.trade(t, 1)
	}

	// Of an item with a problem, too: judgeAccount needs the coins that settle books.
	at := spot{place: a.found[id], price: a.prices[id]}
	if at.place != 0 {
		a.move(at, -1)
		a.settle(unsure)
	} else {
		a.result.NotApplied += int64(len(unsure))
	}

	switch {
	case a.bad[id]:
		// Its problem was told when it was read.
	case at.place == 0:
		a.itemProblem(Nowhere, id, "item %d of user %d is nowhere", id, a.minter(id))
	case len(a.came) > 0:
		a.move(at, 1) // so that the counts are those of its trades alone
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

// trade notes that a trade moved the item n times; -1 takes it back.
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
// operations, and books these if it does. If it does not, came is as it was before.
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

// transfer notes what an applied purchase does to two accounts.
func (a *auditor) transfer(t trade) {
	if t.buyer != 0 {
		a.buyers[t.buyer] = true
		a.deltas[t.seller] += t.price
		a.deltas[t.buyer] -= t.price
	}
}

// judgeAccount compares what an account holds with what its owner's purchases say; err is
// that of reading it.
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
