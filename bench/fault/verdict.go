package fault

import (
	"slices"
	"strings"
)

// A Verdict is what a scenario came to. Where several hold, the one that comes last in Verdicts is told.
type Verdict string

// The verdicts.
const (
	Unavailable   Verdict = "not played"     // this machine lacks what the scenario needs
	NotApplicable Verdict = "not applicable" // the scenario cannot happen to this subject
	Safe          Verdict = "safe"           // nothing was lost, and nobody waited for the dead
	StuckForTTL   Verdict = "stuck, its TTL" // nobody got in until a lease had run out
	StuckForGood  Verdict = "stuck for good" // nobody got in for several TTLs, and nothing would end that
	TwoHolders    Verdict = "two holders"    // two held what only one may, without harm to the money this time
	ChargedTwice  Verdict = "charged twice"  // a buyer paid more often than they bought
	CoinsLost     Verdict = "coins lost"
	CoinsMade     Verdict = "coins made"
	ItemLost      Verdict = "item lost"  // nobody has it
	SoldTwice     Verdict = "sold twice" // an item has two owners, or was bought and is still for sale
)

// Verdicts lists them in the order of their weight.
func Verdicts() []Verdict {
	return []Verdict{
		Unavailable, NotApplicable, Safe, StuckForTTL, StuckForGood, TwoHolders, ChargedTwice, CoinsLost, CoinsMade, ItemLost,
		SoldTwice,
	}
}

// Harm reports whether money or goods were wrong, or could have been.
func (v Verdict) Harm() bool {
	switch v {
	case TwoHolders, ChargedTwice, CoinsLost, CoinsMade, ItemLost, SoldTwice:
		return true
	}
	return false
}

// worse is the one that weighs more.
func worse(a, b Verdict) bool {
	all := Verdicts()
	return slices.Index(all, a) > slices.Index(all, b)
}

// oneLine shortens an error to what fits a table.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// A Finding is what one scenario did to one subject.
type Finding struct {
	Scenario string  `json:"scenario"`
	Subject  string  `json:"subject"`
	Verdict  Verdict `json:"verdict"`
	Why      string  `json:"why"` // one line
	// Broken is the promise of the lock that the verdict breaks; empty: none.
	Broken string `json:"broken_promise,omitempty"`
}
