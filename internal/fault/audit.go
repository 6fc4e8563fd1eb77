package fault

import (
	"cmp"
	"errors"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// conclude ends all clients and counts the market. If coins or items are wrong, that is the
// reason, and not the one given.
func (s *setup) conclude(kept verify.KeptOut, why string) observed {
	return s.concludeBeside(false, kept, "", why)
}

// concludeBeside is conclude when a client may have got in beside a holder: how says why
// it could, otherwise why nobody did.
func (s *setup) concludeBeside(in bool, kept verify.KeptOut, how, otherwise string) observed {
	harm, why := s.audit()
	switch {
	case harm != verify.NoHarm && how != "":
		why = how + ": " + why
	case harm == verify.NoHarm && in:
		harm, why = verify.TwoHolders, how+"; the money is right this time"
	case harm == verify.NoHarm:
		why = otherwise
	}
	return observed{Harm: harm, KeptOut: kept, Why: why, Leases: s.leases}
}

// reason says what an audit found, for a cell of the table: nobody needs to know
// which item and which accounts.
func reason(p market.Problem, harm verify.Harm) string {
	switch p.Kind {
	case market.TwoOwners:
		return "the item went to two buyers"
	case market.StillListed:
		return "the item was bought, and is still for sale: the next buyer gets it again"
	}
	return cmp.Or(inShort[harm], p.Text)
}

// inShort has the harms whose words do not depend on the item or the account.
var inShort = map[verify.Harm]string{
	verify.ItemLost:     "the item is gone: nobody has it, and it is not for sale",
	verify.CoinsMade:    "coins came from nowhere",
	verify.CoinsLost:    "coins vanished",
	verify.Overdrawn:    "an account is below zero: it paid for more than it could",
	verify.ChargedTwice: "a buyer paid more often than they bought",
	verify.NotPaid:      "a buyer paid less often than they bought",
}

// audit ends all clients, and says the worst that is wrong with coins and items, or
// with what clients were told.
func (s *setup) audit() (verify.Harm, string) {
	check(s.endClients())
	after := s.snapshot()
	result := must(market.Audit(s.ctx, s.conn.Client, s.keys, s.opening, s.ledger()))
	found := findings.OfAudit(result)
	for i := range found { // one for each problem, in their order
		found[i].Text = reason(result.Problems[i], found[i].Harm)
	}
	worst := verify.Worst(append(found, s.wrongAnswers(after)...))
	return worst.Harm, worst.Text
}

var errJudgedApart = errors.New("what the client was told is judged apart")

// ledger says of each operation that its outcome is unknown, by errJudgedApart, so that
// the audit goes by where items lie.
func (s *setup) ledger() *market.Ledger {
	var l market.Ledger
	l.Minted(s.first, seller, nil)
	for _, offer := range s.listed {
		l.Listed(offer, nil)
	}
	for user, coins := range s.granted {
		l.Granted(user, coins)
	}

	for _, op := range s.operations {
		switch op.Do {
		case doBuy:
			l.Purchased(op.Order, errJudgedApart)
		case doList:
			l.Listed(op.Listing, errJudgedApart)
		}
	}
	return &l
}

// wrongAnswers finds orders that were reported as applied and were not, as refused and were
// applied, or as applied twice. In no scenario does a buyer sell an item on: whoever bought it
// has it at the end.
func (s *setup) wrongAnswers(after market.Snapshot) (wrong []verify.Violation) {
	find := func(harm verify.Harm, text string) {
		wrong = append(wrong, verify.Violation{Harm: harm, Text: text})
	}

	// The same order may be made again: who has its item may have it from any that was
	// applied, or whose outcome is unknown.
	explained := map[market.Order]bool{}
	for _, op := range s.operations {
		explained[op.Order] = explained[op.Order] || op.outcome.Reason == ""
	}

	bought := map[market.ItemID]market.UserID{}
	for _, op := range s.operations {
		o := op.Order
		yes := op.outcome.Applied()
		owner := ownerOf(after, o.Item)

		switch {
		case op.Do == doList && yes && after.Inventory[seller][op.Listing.Item]:
			find(verify.ToldYes, "the seller was told that the item is for sale, and it is not")
		case op.Do != doBuy:
		case yes && owner != o.Buyer:
			find(verify.ToldYes, "the buyer was told that it bought the item, and neither paid nor has it")
		case !explained[o] && owner == o.Buyer:
			find(verify.ToldNo,
				"the buyer paid once and has the item, and was told no ("+op.outcome.Reason+")")
		}

		// An item that nobody has, or the seller, was found above. A listing has no order, and
		// nobody has item 0.
		switch before := bought[o.Item]; {
		case !yes || owner <= seller:
		case before == 0:
			bought[o.Item] = o.Buyer
		case before == o.Buyer:
			find(verify.ChargedTwice, "the buyer was told twice that it bought the item")
		default:
			find(verify.SoldTwice, "two buyers bought the item, and one has it")
		}
	}
	return wrong
}

// ownerOf is who has an item in their inventory; 0: nobody.
func ownerOf(m market.Snapshot, item market.ItemID) market.UserID {
	for id, items := range m.Inventory {
		if items[item] {
			return id
		}
	}
	return 0
}
