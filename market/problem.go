package market

import (
	"fmt"
	"slices"
)

// What the auditor says of an item or an account that is not as it should be.

// describeWay says what is wrong with an item whose trades do not lead to where it lies. In
// came are the counts of its trades and its minter, without where it lies.
func (a *auditor) describeWay(id ItemID, at spot, trades []trade) {
	// A listing with a count below 0 was left too often, which describeSale tells. A spot with one
	// above 0 is where the item should still lie; without any that is with its minter.
	should := spot{place: a.minter(id)}
	for _, t := range trades {
		from, to := t.way()
		boughtOften := a.came[from] < 0 && t.buyer != 0
		if boughtOften {
			a.describeSale(id, t, trades)
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

// describeSale says what is wrong with a purchase from a spot that the item left more
// often than it came there: others bought it there, too, or it was never listed there.
func (a *auditor) describeSale(id ItemID, t trade, trades []trade) {
	from, _ := t.way()
	var buyers []place
	for _, other := range trades {
		left, _ := other.way()
		if other.buyer != 0 && left == from {
			buyers = append(buyers, other.buyer)
		}
	}
	if len(buyers) < 2 {
		a.itemProblem(Elsewhere, id, "item %d was bought by user %d from %s, where it was not listed", id, t.buyer, from)
		return
	}

	kind := SoldTwice
	different := slices.Compact(slices.Sorted(slices.Values(buyers)))
	if len(different) == 1 {
		kind = BoughtTwice
	}
	a.itemProblem(kind, id, "item %d was sold twice: to user %d and to user %d", id, buyers[0], buyers[1])
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

// itemProblem counts one problem for each item: the first that is found. An id below
// 1 is no item's, and each of its problems counts.
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
