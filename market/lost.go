package market

import (
	"math"
	"slices"
)

// Lost says which clients are gone with their ledgers, as when one of several load machines died. Audit books what they
// bought by where items lie, at the price that a seller who is not lost asked, and judges the funds of their accounts in
// their sum. What they sold to each other nobody knows, nor for how much. No item must be sold again.
type Lost struct {
	Accounts []UserID // each belongs to such clients alone
	Items    ItemID   // the highest id that they may have minted: see Made
}

// lost is what the audit knows of such clients.
type lost struct {
	accounts        map[UserID]bool
	last            ItemID
	funds, expected int64 // of all these accounts
}

func newLost(of *Lost) *lost {
	if of == nil {
		return nil
	}
	l := &lost{accounts: map[UserID]bool{}, last: of.Items}
	for _, id := range of.Accounts {
		l.accounts[id] = true
	}
	return l
}

func (l *lost) has(id UserID) bool { return l != nil && l.accounts[id] }

// holds reports whether a place is the inventory of a lost account, or its offer.
func (l *lost) holds(at place) bool { return l.has(UserID(max(at, -at))) }

func (l *lost) add(funds, expected int64) {
	l.funds += funds
	l.expected += expected
}

// lostMinter is who minted the batches that no ledger knows of: a lost client.
const lostMinter place = math.MaxInt32

func (a *auditor) addLostMints() {
	if a.lost == nil {
		return
	}
	for range int(a.lost.last)/BatchSize - len(a.minters) {
		a.minters = append(a.minters, 0)
	}
	for i, minter := range a.minters {
		if minter == 0 {
			a.minters[i] = lostMinter
		}
	}
}

// settleLost books what lost clients bought of sellers who are not lost: the items that these listed, that nobody else
// bought and that lie with a lost account. A batch of lost clients of which nothing is there was reserved, and not minted.
func (a *auditor) settleLost() {
	if a.lost == nil {
		return
	}
	for i, minter := range a.minters {
		batch := a.found[1+i*BatchSize : 1+(i+1)*BatchSize]
		if minter == lostMinter && !slices.ContainsFunc(batch, func(p place) bool { return p != 0 }) {
			a.minters[i] = 0
		}
	}
	for id := ItemID(1); int(id) < len(a.found); id++ {
		minter, at := a.minter(id), a.found[id]
		if minter == 0 || minter == lostMinter || a.buyers[id] != 0 || at <= 0 || !a.lost.holds(at) ||
			!a.listed.Test(uint(id)) {
			continue
		}
		a.result.Applied++
		a.buyers[id] = at
		transfer(a.deltas, Order{Item: id, Seller: UserID(minter), Buyer: UserID(at), Price: int64(a.asked[id])})
	}
}

// judgeLostItem judges an item that a lost client minted and that nobody bought whose ledger is there. It has to lie with a
// lost account: it was not listed, is on the market, or was bought by a lost client.
func (a *auditor) judgeLostItem(id ItemID) {
	switch at := a.found[id]; {
	case at == 0:
		a.itemProblem(id, "item %d of a client that was lost is nowhere", id)
	case !a.lost.holds(at):
		a.itemProblem(id, "item %d of a client that was lost lies in %s, and was not bought", id, at)
	default:
		a.result.Items++
	}
}

// judgeLostFunds compares what lost accounts hold together with what the others' ledgers say. What they paid each other
// does not change it.
func (a *auditor) judgeLostFunds() {
	if a.lost != nil && a.lost.funds != a.lost.expected {
		a.moneyProblem("the %d accounts of clients that were lost hold %d coins together, and should hold %d (%+d)",
			len(a.lost.accounts), a.lost.funds, a.lost.expected, a.lost.funds-a.lost.expected)
	}
}
