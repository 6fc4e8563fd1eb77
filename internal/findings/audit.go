package findings

import (
	"cmp"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// OfAudit names the harm of each problem that an audit found, in the order of a.Problems, by
// which callers find the problem again.
func OfAudit(a market.AuditResult) []verify.Violation {
	all := make([]verify.Violation, len(a.Problems))
	money := moneyHarm(a)
	for i, p := range a.Problems {
		harm := cmp.Or(harmOfKind[p.Kind], verify.Unexplained)
		if p.Kind == market.TooFew || p.Kind == market.TooMany {
			harm = money
		}
		all[i] = verify.Violation{Harm: harm, Text: p.Text}
	}
	return all
}

var harmOfKind = map[market.ProblemKind]verify.Harm{
	market.TwoOwners:   verify.SoldTwice,
	market.StillListed: verify.SoldTwice,
	market.SoldTwice:   verify.SoldTwice,
	market.BoughtTwice: verify.ChargedTwice,
	market.Nowhere:     verify.ItemLost,
	market.MovedUntold: verify.ToldNo,
	market.Elsewhere:   verify.ToldYes,
	market.NoFunds:     verify.CoinsLost,
	market.Overdrawn:   verify.Overdrawn,
}

// moneyHarm is the harm if accounts hold too much or too little: coins are missing, there
// are too many, or they are in the wrong accounts, two of which each purchase explains
// that was made though its buyer was told no. These are counted in a.Problems, of which
// market.Audit describes the first ten: no market of a caller has more accounts, or it is
// audited by AuditFunds, which describes all.
func moneyHarm(a market.AuditResult) verify.Harm {
	untold := int64(0)
	charged := false
	for _, p := range a.Problems {
		if p.Kind == market.MovedUntold {
			untold++
		}
		charged = charged || p.Buyer && p.Kind == market.TooFew
	}

	switch {
	case a.Funds < a.Opened:
		return verify.CoinsLost
	case a.Funds > a.Opened:
		return verify.CoinsMade
	case a.MoneyProblems <= 2*untold:
		return verify.ToldNo
	case charged:
		return verify.ChargedTwice
	}
	return verify.NotPaid
}
