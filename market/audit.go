package market

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bits-and-blooms/bitset"
	"github.com/redis/go-redis/v9"
)

// maxProblems bounds how many problems of items, and how many of accounts, are described; all are counted.
const maxProblems = 10

// AuditResult is what an audit found.
type AuditResult struct {
	Items         int64    // minted items that are in exactly the place they should be
	Funds         int64    // coins found in all accounts
	ItemProblems  int64    // items lost, doubled, bought twice, at another price than told, or in an unexplained place
	MoneyProblems int64    // accounts whose funds are not what their ledger says, or below zero
	Applied       int64    // operations of unknown outcome that turned out to be applied
	NotApplied    int64    // operations of unknown outcome that turned out not to be
	Problems      []string // descriptions of the first problems
}

// OK reports whether every item and every coin is where it should be.
func (r AuditResult) OK() bool { return r.ItemProblems == 0 && r.MoneyProblems == 0 }

// Audit accounts for every coin and item of a market at rest, opened with o and traded on by the clients that kept
// the ledgers. An error means that the market could not be read, not that something is wrong with it. It needs about
// 25 bytes of memory per item, and about a second per million items.
func Audit(ctx context.Context, rdb redis.Cmdable, keys Keys, o Opening, ledgers ...*Ledger) (AuditResult, error) {
	a, r := newAuditor(o, ledgers), reader{rdb, keys, o.Accounts}
	if err := r.readItems(ctx, a.look); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read items: %w", keys.Prefix(), err)
	}
	a.settle()
	a.judgeItems()
	if err := r.readFunds(ctx, a.judgeAccount); err != nil {
		return AuditResult{}, fmt.Errorf("audit market %s: read accounts: %w", keys.Prefix(), err)
	}
	return a.result, nil
}

// A place is where an item lies: the inventory of user n as n, offered by seller n as -n, nowhere as 0.
type place int32

func (p place) String() string {
	switch {
	case p > 0:
		return fmt.Sprintf("inventory:%d", p)
	case p < 0:
		return fmt.Sprintf("market: (seller %d)", -p)
	}
	return "nowhere"
}

// auditor keeps the place of each item and, unless ledgers circulate, the price at which it is listed, who bought it and
// what its seller asked for it as the ledgers say. It knows who minted an item by its batch.
type auditor struct {
	opening Opening
	ledgers []*Ledger
	minters []place   // by batch; 0: not minted
	found   []place   // by item; 0: not found
	prices  []float64 // by item, of those found on the market
	buyers  []place   // by item; 0: nobody bought it
	asked   []float64 // by item, of those listed
	listed  bitset.BitSet
	deltas  []int64         // by account
	bad     map[ItemID]bool // items with a problem already counted; a map, because damage may hold any id
	result  AuditResult

	circling *circling // nil: each ledger keeps its items itself
}

func newAuditor(o Opening, ledgers []*Ledger) *auditor {
	a := &auditor{
		opening: o, ledgers: ledgers, deltas: make([]int64, o.Accounts+1),
		bad: map[ItemID]bool{},
	}
	for _, l := range ledgers {
		for _, m := range l.minted {
			for batchOf(m.first) >= len(a.minters) {
				a.minters = append(a.minters, 0)
			}
			a.minters[batchOf(m.first)] = place(m.owner)
		}
	}
	items := len(a.minters)*BatchSize + 1
	a.found = make([]place, items)
	a.prices = make([]float64, items)
	if i := slices.IndexFunc(ledgers, func(l *Ledger) bool { return l.circulation != nil }); i >= 0 {
		a.joinCirculation(ledgers[i].circulation)
	} else {
		a.asked, a.buyers = make([]float64, items), make([]place, items)
	}
	for _, l := range ledgers {
		a.join(l)
	}
	return a
}

// batchOf numbers the batches in which items are minted, from 0.
func batchOf(id ItemID) int { return (int(id-1) - inBatch(id)) / BatchSize }

// inBatch is the place of an item in its batch, from 0; of ids below 1, which no mint makes, too.
func inBatch(id ItemID) int { return (int(id-1)%BatchSize + BatchSize) % BatchSize }

// join adds what one client knows. All mints must be known before.
func (a *auditor) join(l *Ledger) {
	for batch, asked := range l.asked {
		for id := range asked.listed.items(batch) {
			a.list(id, asked.prices[inBatch(id)])
		}
	}
	for account, delta := range l.deltas {
		a.deltas[account] += delta
	}
	for _, user := range slices.Sorted(maps.Keys(l.bought)) {
		a.joinBought(place(user), l.bought[user])
	}
	for _, o := range l.again {
		a.itemProblem(o.Item, "item %d was sold twice: user %d was told so, and paid, each time", o.Item, o.Buyer)
	}
}

// list notes what a seller asked for an item, if it was minted.
func (a *auditor) list(id ItemID, price int64) {
	if a.minter(id) != 0 {
		a.listed.Set(uint(id))
		a.asked[id] = float64(price)
	}
}

func (a *auditor) joinBought(buyer place, items places) {
	for _, batch := range slices.Sorted(maps.Keys(items)) { // so that problems are found in the same order each time
		for id := range items[batch].items(batch) {
			switch {
			case a.minter(id) == 0:
				a.itemProblem(id, "item %d was bought by user %d but never minted", id, buyer)
			case a.buyers[id] != 0:
				a.itemProblem(id, "item %d was sold twice: to user %d and to user %d", id, a.buyers[id], buyer)
			default:
				a.buyers[id] = buyer
			}
		}
	}
}

// minter returns who minted an item according to the ledgers; 0 is nobody.
func (a *auditor) minter(id ItemID) place {
	if id < 1 || batchOf(id) >= len(a.minters) {
		return 0
	}
	return a.minters[batchOf(id)]
}

// look notes where an item lies.
func (a *auditor) look(f found) {
	switch {
	case f.damage != "":
		a.itemProblem(0, "%s", f.damage)
	case f.owner < 1 || f.owner > UserID(a.opening.Accounts):
		is := "belongs to"
		if f.listed {
			is = "is listed by"
		}
		a.itemProblem(f.item, "item %d %s user %d, who has no account", f.item, is, f.owner)
	case f.listed:
		a.see(f.item, -place(f.owner), f.price)
	default:
		a.see(f.item, place(f.owner), 0)
	}
}

// see notes that an item lies at a place, and at what price it is listed there. SCAN may return an element twice, so the
// same place twice is no problem.
func (a *auditor) see(id ItemID, at place, price float64) {
	minter := a.minter(id)
	switch {
	case minter == 0:
		a.itemProblem(id, "item %d lies in %s but was never minted", id, at)
	case a.found[id] == 0:
		a.found[id] = at
		a.prices[id] = price
		if a.circling != nil {
			a.circling.led(id, minter, at, price)
		}
	case a.found[id] != at:
		a.itemProblem(id, "item %d is in two places: %s and %s", id, a.found[id], at)
	}
}

// settle decides the operations of unknown outcome by where their items lie, and books those found applied, so that
// the rest of the audit treats them like any other.
func (a *auditor) settle() {
	a.settleMints()
	if a.circling != nil {
		a.settleCirculating()
		return
	}
	for _, l := range a.ledgers {
		for _, x := range l.unsureListings {
			a.settleListing(x)
		}
	}
	for _, l := range a.ledgers {
		for _, o := range l.unsureOrders {
			a.settleOrder(o)
		}
	}
}

// settleMints forgets the items of a batch that was not confirmed and of which nothing is there.
func (a *auditor) settleMints() {
	for _, l := range a.ledgers {
		for _, m := range l.minted {
			batch := a.found[m.first : m.first+BatchSize]
			switch {
			case !m.unsure:
			case !slices.ContainsFunc(batch, func(p place) bool { return p != 0 }):
				a.minters[batchOf(m.first)] = 0
			}
		}
	}
}

// settleListing books a listing when its item has left the seller's inventory.
func (a *auditor) settleListing(x Listing) {
	if a.minter(x.Item) == 0 || a.found[x.Item] == 0 || a.found[x.Item] == place(x.Seller) {
		a.result.NotApplied++
		return
	}
	a.result.Applied++
	if !a.listed.Test(uint(x.Item)) {
		a.list(x.Item, x.Price)
	}
}

// settleOrder books an order when its item lies with the buyer and no order that was confirmed or settled before
// explains why.
func (a *auditor) settleOrder(o Order) {
	if a.minter(o.Item) == 0 || a.found[o.Item] != place(o.Buyer) || a.buyers[o.Item] != 0 {
		a.result.NotApplied++
		return
	}
	a.result.Applied++
	a.buyers[o.Item] = place(o.Buyer)
	transfer(a.deltas, o)
}

// judgeItems compares where each item lies with where the ledgers say it should.
func (a *auditor) judgeItems() {
	if a.circling != nil {
		a.judgeCirculating()
		return
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		minter, buyer, at := a.minter(id), a.buyers[id], a.found[id]
		if minter == 0 || a.bad[id] {
			continue
		}
		switch {
		case at == 0:
			a.itemProblem(id, "item %d of user %d is nowhere", id, minter)
		case buyer != 0 && at != buyer:
			a.itemProblem(id, "item %d was bought by user %d but lies in %s", id, buyer, at)
		case buyer == 0 && a.listed.Test(uint(id)) && at != -minter:
			a.itemProblem(id, "item %d was listed by user %d and bought by nobody but lies in %s", id, minter, at)
		case buyer == 0 && at == -minter && a.listed.Test(uint(id)) && a.prices[id] != a.asked[id]:
			a.itemProblem(id, "item %d was listed by user %d at %v coins but stands at %v", id, minter, a.asked[id],
				a.prices[id])
		case buyer == 0 && !a.listed.Test(uint(id)) && at != minter:
			a.itemProblem(id, "item %d of user %d was neither listed nor bought but lies in %s", id, minter, at)
		default:
			a.result.Items++
		}
	}
}

// judgeAccount compares an account with what the ledgers say.
func (a *auditor) judgeAccount(id UserID, funds int64, err error) {
	expected := a.opening.Funds + a.deltas[id]
	switch {
	case err != nil:
		a.moneyProblem("account of user %d has no readable funds (%v)", id, err)
		return
	case funds != expected:
		a.moneyProblem("account of user %d holds %d coins, and should hold %d (%+d)",
			id, funds, expected, funds-expected)
	case funds < 0:
		a.moneyProblem("account of user %d is overdrawn: %d coins", id, funds)
	}
	a.result.Funds += funds
}

// itemProblem counts one problem for each item.
func (a *auditor) itemProblem(id ItemID, format string, args ...any) {
	if id > 0 {
		if a.bad[id] {
			return
		}
		a.bad[id] = true
	}
	if a.result.ItemProblems++; a.result.ItemProblems <= maxProblems {
		a.describe(format, args...)
	}
}

func (a *auditor) moneyProblem(format string, args ...any) {
	if a.result.MoneyProblems++; a.result.MoneyProblems <= maxProblems {
		a.describe(format, args...)
	}
}

func (a *auditor) describe(format string, args ...any) {
	a.result.Problems = append(a.result.Problems, fmt.Sprintf(format, args...))
}
