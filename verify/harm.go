package verify

import (
	"slices"

	"github.com/marketsim/marketsim/market"
)

// Harm is what happened to money, items or a lock: the code that stored results keep. [Harm.String] has its words.
type Harm string

// The harms.
const (
	NoHarm          Harm = "none"
	Outlived        Harm = "outlived its lease" // every lock that expires lets another in while its holder is paused
	TwoHolders      Harm = "two holders"        // two clients held what only one may; the money is right this time
	FreedAnothers   Harm = "freed another's"    // two holders after a release by somebody who did not hold the lock
	FenceRepeats    Harm = "fence did not grow" // a later holder got no larger fencing token
	ReleasedNothing Harm = "released nothing"   // a release leaves the lock as it was until its lease has run out
	LockedOut       Harm = "kept out"           // a client does not get in although nobody holds the lock
	DoesNotEnd      Harm = "does not end"       // a client goes on for ever
	PurchasesGone   Harm = "purchases gone"     // by Redis, which replicates after it has answered
	ToldNo          Harm = "wrongly told no"    // a client was told no, and its operation was applied
	ToldYes         Harm = "wrongly told yes"   // a client was told that its operation was applied, and nothing was
	ChargedTwice    Harm = "charged twice"      // a buyer paid more often than they bought
	NotPaid         Harm = "not paid"           // a buyer has an item that they did not pay for
	Overdrawn       Harm = "overdrawn"          // an account is below zero
	CoinsLost       Harm = "coins lost"
	CoinsMade       Harm = "coins made"
	Unexplained     Harm = "unexplained" // the market holds what nobody put there
	ItemLost        Harm = "item lost"   // nobody has it
	SoldTwice       Harm = "sold twice"  // an item has two owners, was bought and is for sale, or was confirmed twice
)

// Harms lists them, the worst last.
func Harms() []Harm {
	return []Harm{
		NoHarm, Outlived, TwoHolders, FreedAnothers, FenceRepeats, ReleasedNothing, LockedOut, DoesNotEnd, PurchasesGone,
		ToldNo, ToldYes, ChargedTwice, NotPaid, Overdrawn, CoinsLost, CoinsMade, Unexplained, ItemLost, SoldTwice,
	}
}

// String is the harm in words.
func (h Harm) String() string {
	if h == NoHarm {
		return "no harm"
	}
	return string(h)
}

// A Violation is a harm with what shows it, in words: the item, the account or the clients.
type Violation struct {
	Harm Harm
	Text string
}

func (v Violation) String() string { return v.Harm.String() + ": " + v.Text }

// Worst is the one with the worst harm, the first of several; without any it is [NoHarm].
func Worst(all []Violation) Violation {
	worst := Violation{Harm: NoHarm}
	for _, v := range all {
		if slices.Index(Harms(), v.Harm) > slices.Index(Harms(), worst.Harm) {
			worst = v
		}
	}
	return worst
}

// Audited names the harm of each problem that an audit found.
func Audited(a market.AuditResult) []Violation {
	all := make([]Violation, len(a.Problems))
	for i, p := range a.Problems {
		all[i] = Violation{Harm: harmOf(p, a), Text: p.Text}
	}
	return all
}

var harmOfKind = map[market.ProblemKind]Harm{
	market.TwoOwners: SoldTwice, market.StillListed: SoldTwice, market.SoldTwice: SoldTwice,
	market.BoughtTwice: ChargedTwice, market.Nowhere: ItemLost, market.MovedUntold: ToldNo, market.Elsewhere: ToldYes,
	market.NoFunds: CoinsLost, market.Overdrawn: Overdrawn,
}

// harmOf is the harm of one problem. That of an account depends on whether coins are missing, or too many, as a whole.
func harmOf(p market.Problem, a market.AuditResult) Harm {
	harm, known := harmOfKind[p.Kind]
	switch {
	case known:
		return harm
	case p.Kind != market.TooFew && p.Kind != market.TooMany:
		return Unexplained
	case a.Funds < a.Opened:
		return CoinsLost
	case a.Funds > a.Opened:
		return CoinsMade
	case p.Buyer == (p.Kind == market.TooFew): // a buyer paid too much, or a seller got too much
		return ChargedTwice
	}
	return NotPaid
}
