package suite

import (
	"iter"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/market"
)

// A PurchaserFactory makes the Purchasers to be tested. Its fields are those of markettest.Factory,
// which says what they mean.
type PurchaserFactory struct {
	Open           market.Open
	LockKeys       func(keys market.Keys, m market.RunNote) iter.Seq[string]
	Lasting        func(key string) bool
	Unprotected    bool
	SharedAccounts bool
}

type check = Check[*fixture]

// TestPurchaser tests the factory's Purchasers on a server, each behaviour as a subtest. It
// skips what they do not promise.
func TestPurchaser(t *testing.T, s *backend.Server, factory PurchaserFactory) {
	newSuite(s, factory).Run(t)
}

func newSuite(s *backend.Server, factory PurchaserFactory) Suite[*fixture] {
	return Suite[*fixture]{
		Checks:   checks,
		Patience: opTimeout,
		Promised: func(promise string) bool {
			return !factory.Unprotected && (promise == together || factory.SharedAccounts)
		},
		Open: func(f *Fixture, _ check) *fixture {
			return newFixture(f, s, factory)
		},
	}
}

// What may be promised: that workers may trade at the same time, and also spend
// from one account.
const (
	together = "workers at the same time"
	shared   = "a shared account"
)

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
)

// opening is that of each check's market, but for random sequences, which have trio.
// Most checks use two accounts.
var opening = market.Opening{Accounts: 1 + tradeSellers + tradeBuyers, Funds: 100}

var checks = []check{
	{Name: "purchase moves the item and the coins", Run: purchaseMovesItemAndCoins},
	{Name: "operations leave no lock and no WATCH behind", Run: operationsLeaveNothingBehind},
	{Name: "any sequence ends as in the reference", Run: sequenceMatchesReference},
	{Name: "context that has ended applies nothing", Run: endedContextAppliesNothing},
	{Name: "cancellation at any step keeps the market whole", Run: cancellationAtAnyStep},
	{Name: "cancellation ends a wait", Promise: together, Run: cancellationEndsAWait},
	{Name: "one of many orders of an item is applied", Promise: together, Run: oneOrderIsApplied},
	{Name: "many trade at the same time", Promise: together, Run: manyTrade},
	{Name: "shared account is not overdrawn", Promise: shared, Run: accountIsNotOverdrawn},
}
