package market

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// maxProblems bounds how many problems of items, and how many of accounts, are told in words; all are counted.
const maxProblems = 10

// Verdict is what an audit found.
type Verdict struct {
	Items         int64    // minted items that are in exactly the place they should be
	Funds         int64    // coins found in all accounts
	ItemProblems  int64    // items lost, doubled, or in a place nobody was told of
	MoneyProblems int64    // accounts whose funds are not what their ledger says, or below zero
	Applied       int64    // operations of unknown outcome that turned out to be applied
	NotApplied    int64    // operations of unknown outcome that turned out not to be
	Problems      []string // the first problems, in words
}

// OK reports whether every item and every coin is where it should be.
func (v Verdict) OK() bool { return v.ItemProblems == 0 && v.MoneyProblems == 0 }

// Audit accounts for every coin and item of a market at rest, opened with o and traded on by the clients that kept
// the ledgers. An error means that the market could not be read, not that something is wrong with it. It needs about
// 5 bytes of memory an item, and about a second per million items.
func Audit(ctx context.Context, rdb redis.Cmdable, keys Keys, o Opening, ledgers ...*Ledger) (Verdict, error) {
	a := newAuditor(o, ledgers)
	if err := a.readItems(ctx, rdb, keys); err != nil {
		return Verdict{}, fmt.Errorf("audit items of market %s: %w", keys.Prefix(), err)
	}
	a.settle()
	a.judgeItems()
	if err := a.judgeFunds(ctx, rdb, keys); err != nil {
		return Verdict{}, fmt.Errorf("audit accounts of market %s: %w", keys.Prefix(), err)
	}
	return a.verdict, nil
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

// auditor holds, by item, where it lies: four bytes an item. Who minted it is known by batch, and who bought it is looked
// up in the ledgers.
type auditor struct {
	opening Opening
	ledgers []*Ledger
	minters []place // by batch; 0: not minted
	found   []place // by item; 0: not found
	deltas  []int64 // by account
	listed  bitmap
	sold    bitmap           // items that somebody bought
	settled map[ItemID]place // the buyers of those that no ledger knows to be bought
	bad     map[ItemID]bool  // items with a problem already told; damage may hold any id
	verdict Verdict
}

func newAuditor(o Opening, ledgers []*Ledger) *auditor {
	a := &auditor{
		opening: o, ledgers: ledgers, deltas: make([]int64, o.Accounts+1),
		settled: map[ItemID]place{}, bad: map[ItemID]bool{},
	}
	for _, l := range ledgers {
		for _, m := range l.minted {
			for batchOf(m.first) >= len(a.minters) {
				a.minters = append(a.minters, 0)
			}
			a.minters[batchOf(m.first)] = place(m.owner)
		}
	}
	a.found = make([]place, len(a.minters)*BatchSize+1)
	for _, l := range ledgers {
		a.join(l)
	}
	return a
}

// batchOf numbers the batches in which items are minted, from 0.
func batchOf(id ItemID) int { return int(id-1) / BatchSize }

// join adds what one client knows. All mints must be known before.
func (a *auditor) join(l *Ledger) {
	a.listed.union(l.listed)
	for account, delta := range l.deltas {
		a.deltas[account] += delta
	}
	for user, items := range l.bought {
		a.joinBought(place(user), items)
	}
}

func (a *auditor) joinBought(buyer place, items bitmap) {
	for id := range items.all() {
		switch {
		case a.minter(id) == 0:
			a.itemProblem(id, "item %d was bought by user %d but never minted", id, buyer)
		case a.sold.has(id):
			a.itemProblem(id, "item %d was sold twice: to user %d and to user %d", id, a.buyer(id), buyer)
		default:
			a.sold.set(id)
		}
	}
}

// minter is who minted an item, for all that the ledgers know; 0 is nobody.
func (a *auditor) minter(id ItemID) place {
	if id < 1 || batchOf(id) >= len(a.minters) {
		return 0
	}
	return a.minters[batchOf(id)]
}

// buyer is who bought an item; 0 is nobody.
func (a *auditor) buyer(id ItemID) place {
	if !a.sold.has(id) {
		return 0
	}
	for _, l := range a.ledgers {
		for user, items := range l.bought {
			if items.has(id) {
				return place(user)
			}
		}
	}
	return a.settled[id]
}

// itemProblem counts a problem once an item.
func (a *auditor) itemProblem(id ItemID, format string, args ...any) {
	if id > 0 {
		if a.bad[id] {
			return
		}
		a.bad[id] = true
	}
	if a.verdict.ItemProblems++; a.verdict.ItemProblems <= maxProblems {
		a.tell(format, args...)
	}
}

func (a *auditor) moneyProblem(format string, args ...any) {
	if a.verdict.MoneyProblems++; a.verdict.MoneyProblems <= maxProblems {
		a.tell(format, args...)
	}
}

func (a *auditor) tell(format string, args ...any) {
	a.verdict.Problems = append(a.verdict.Problems, fmt.Sprintf(format, args...))
}
