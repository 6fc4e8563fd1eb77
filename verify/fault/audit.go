package fault

import (
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// saw ends all clients and counts the market. Where coins or items are wrong that is the reason, else the one given.
func (s *setup) saw(kept result.KeptOut, why string) observed {
	return s.sawBeside(false, kept, "", why)
}

// sawBeside is saw where a client may have come in beside the holder of a lock: how says why it could, and otherwise
// what is the case if nobody did.
func (s *setup) sawBeside(in bool, kept result.KeptOut, how, otherwise string) observed {
	harm, why := s.audit()
	switch {
	case harm != result.NoHarm && how != "":
		why = how + ": " + why
	case harm == result.NoHarm && in:
		harm, why = result.TwoHolders, how+"; the money is right this time"
	case harm == result.NoHarm:
		why = otherwise
	}
	return observed{harm: harm, kept: kept, why: why, leases: s.leases}
}

// audit ends all clients and accounts for the coins and items that they moved: the worst that is wrong, with a line
// that says what, or NoHarm.
func (s *setup) audit() (result.Harm, string) {
	check(s.endClients())
	after := s.snapshot()
	for item := s.first; item < s.first+2*offered; item++ {
		if harm, why := misplaced(after, item); why != "" {
			return harm, why
		}
	}
	if was, is := sum(s.before), sum(after); is > was {
		return result.CoinsMade, "coins came from nowhere"
	} else if is < was {
		return result.CoinsLost, "coins vanished"
	}
	if harm, why := s.toldTwice(after); harm != result.NoHarm {
		return harm, why
	}
	for id := seller + 1; id <= accounts; id++ {
		paid, worth := s.before.Funds[id]-after.Funds[id], price*int64(len(after.Inventory[id]))
		switch {
		case after.Funds[id] < 0:
			return result.Overdrawn, "an account is below zero: it paid for more than it could"
		case paid > worth:
			return result.ChargedTwice, "a buyer paid more often than they bought"
		case paid < worth:
			return result.NotPaid, "a buyer paid less often than they bought"
		}
	}
	return s.toldWrongly(after)
}

// toldTwice finds an item of which two orders were applied, as their clients were told. The places of items and the
// funds may then be those of two lawful orders, and show nothing.
func (s *setup) toldTwice(after market.Snapshot) (result.Harm, string) {
	bought := map[market.ItemID]market.UserID{}
	for _, op := range s.operations {
		if op.order == nil || !op.outcome.Applied() || ownerOf(after, op.order.Item) <= seller {
			continue
		}
		switch bought[op.order.Item] {
		case 0:
			bought[op.order.Item] = op.order.Buyer
		case op.order.Buyer:
			return result.ChargedTwice, "the buyer was told twice that it bought the item"
		default:
			return result.SoldTwice, "two buyers bought the item, and one has it"
		}
	}
	return result.NoHarm, ""
}

// toldWrongly finds a buyer who has an item, and was told of each order of it that it was refused, and a client who was
// told that its operation was applied, of which nothing was.
func (s *setup) toldWrongly(after market.Snapshot) (result.Harm, string) {
	explained := map[market.Order]bool{}
	for _, op := range s.operations {
		if op.order != nil && op.outcome.Reason == "" { // applied, or unknown
			explained[*op.order] = true
		}
	}
	for _, op := range s.operations {
		o, yes := op.order, op.outcome.Applied()
		switch {
		case yes && op.listed != 0 && after.Inventory[seller][op.listed]:
			return result.ToldYes, "the seller was told that the item is for sale, and it is not"
		case o == nil:
		case yes && ownerOf(after, o.Item) != o.Buyer:
			return result.ToldYes, "the buyer was told that it bought the item, and neither paid nor has it"
		case !explained[*o] && ownerOf(after, o.Item) == o.Buyer:
			return result.ToldNo, "the buyer paid once and has the item, and was told no (" + op.outcome.Reason + ")"
		}
	}
	return result.NoHarm, ""
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

// misplaced says what is wrong with where an item lies.
func misplaced(m market.Snapshot, item market.ItemID) (result.Harm, string) {
	owners, listed := 0, false
	for _, items := range m.Inventory {
		if items[item] {
			owners++
		}
	}
	for id := market.UserID(1); id <= accounts; id++ {
		if _, ok := m.Listings[market.Member(item, id)]; ok {
			listed = true
		}
	}
	switch {
	case owners > 1:
		return result.SoldTwice, "the item went to two buyers"
	case owners == 1 && listed:
		return result.SoldTwice, "the item was bought, and is still for sale: the next buyer gets it again"
	case owners == 0 && !listed:
		return result.ItemLost, "the item is gone: nobody has it, and it is not for sale"
	}
	return result.NoHarm, ""
}

func sum(m market.Snapshot) (total int64) {
	for _, f := range m.Funds {
		total += f
	}
	return total
}
