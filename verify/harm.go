package verify

import "slices"

// Harm is what happened to money, items or a lock: the code that stored results keep.
// [Harm.String] has its words.
type Harm string

// The harms.
const (
	NoHarm Harm = "none"
	// Every lock that expires lets another in while its holder is paused.
	Outlived Harm = "outlived its lease"
	// What an operation that failed has left of a lock keeps others out until its lease ends.
	Orphaned Harm = "left until its lease ends"
	// A client renews a lock whose release has failed, and is never called again.
	RenewsOn Harm = "renews after a failed release"
	// What two goroutines did with one lock object that is documented as one goroutine's.
	HeldByTwoGoroutines Harm = "held by two goroutines"
	// A release says that the lock was lost, within its lease, and nobody has had it since.
	ToldOfNoLoss Harm = "told of a loss that was none"
	// A release says that it has freed a lock which another client had got meanwhile.
	NotTold Harm = "not told of a loss"
	// An extension says yes, though another client has had the lock since it was taken.
	ExtendedLost Harm = "extended a lost lock"
	// Two clients held what only one may; the money is right this time.
	TwoHolders Harm = "two holders"
	// Two holders after a release by somebody who did not hold the lock.
	FreedAnothers Harm = "freed another's"
	FenceRepeats  Harm = "fence did not grow" // a later holder got no larger fencing token
	// A release leaves the lock as it was until its lease has run out.
	ReleasedNothing Harm = "released nothing"
	// A client still renews a lock that it has released, or was refused.
	StillRenews Harm = "renews what it does not have"
	// A client does not get in although nobody holds the lock.
	LockedOut Harm = "kept out"
	// What a fault has left in a program keeps it from taking locks.
	NoLongerLocks Harm = "no longer takes locks"
	// Two clients each hold what the other one waits for, until both give up.
	WaitForEachOther Harm = "wait for each other"

	DoesNotEnd    Harm = "does not end"    // a client goes on for ever
	PurchasesGone Harm = "purchases gone"  // by Redis, which replicates after it has answered
	ToldNo        Harm = "wrongly told no" // a client was told no, and its operation was applied
	// A client was told that its operation was applied, and nothing was.
	ToldYes      Harm = "wrongly told yes"
	ChargedTwice Harm = "charged twice" // a buyer paid more often than they bought
	NotPaid      Harm = "not paid"      // a buyer has an item that they did not pay for
	Overdrawn    Harm = "overdrawn"     // an account is below zero
	CoinsLost    Harm = "coins lost"
	CoinsMade    Harm = "coins made"
	Unexplained  Harm = "unexplained" // the market holds what nobody put there
	ItemLost     Harm = "item lost"   // nobody has it
	// An item has two owners, was bought and is for sale, or was confirmed twice.
	SoldTwice Harm = "sold twice"
)

// Harms lists them, the worst last.
func Harms() []Harm {
	return []Harm{
		NoHarm, Outlived, Orphaned, RenewsOn, HeldByTwoGoroutines, ToldOfNoLoss,
		NotTold, ExtendedLost, TwoHolders, FreedAnothers, FenceRepeats, ReleasedNothing, StillRenews, LockedOut,
		NoLongerLocks, WaitForEachOther, DoesNotEnd,
		PurchasesGone, ToldNo, ToldYes, ChargedTwice, NotPaid, Overdrawn, CoinsLost, CoinsMade, Unexplained, ItemLost,
		SoldTwice,
	}
}

// String is the harm in words.
func (h Harm) String() string {
	if h == NoHarm {
		return "no harm"
	}
	return string(h)
}

// IsNote reports whether the harm is only told, and breaks nothing: because no lock that expires
// prevents it, because its user causes it, or because nobody else is hurt by it.
func (h Harm) IsNote() bool {
	return slices.Contains([]Harm{Outlived, Orphaned, RenewsOn, HeldByTwoGoroutines, ToldOfNoLoss}, h)
}

// A Violation is a harm with what shows it, in words: the item, the account or the clients.
type Violation struct {
	Harm Harm
	Text string
}

func (v Violation) String() string { return v.Harm.String() + ": " + v.Text }

// Worst is the violation with the worst harm, the first of equals; of none, it is [NoHarm].
func Worst(all []Violation) Violation {
	rank := func(v Violation) int { return slices.Index(Harms(), v.Harm) }
	least := Violation{Harm: NoHarm}
	return slices.MaxFunc(append([]Violation{least}, all...), func(a, b Violation) int { return rank(a) - rank(b) })
}

// A PromiseState is what became of a promise of a lock. Of package locktest it is kept, broken,
// unchecked, not run or not made; of 'marketsim judge' kept, broken, unchecked, not kept where it
// was not made, or not offered where nothing that the lock does could keep it.
type PromiseState struct {
	Promise string `json:"promise"`
	State   string `json:"state"`
	Why     string `json:"why,omitempty"`
}
