// Package markettest tests a market.Purchaser: Check and Run are its conformance suite,
// and Explore goes through its schedules. A few lines run them:
//
//	open := func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
//		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
//		return mine.New(rdb, w.Keys), rdb, nil
//	}
//	markettest.Check(t, open)
//	markettest.Explore(t, open, explore.Bounds{Preemptions: 1, Faults: 1})
//
// Each test trades in a market of its own, audits it when the workers are done, removes
// it, and checks that nothing is left under its prefix. Workers that meet are held at
// their connections, before each of their requests.
package markettest

import (
	"iter"
	"testing"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market"
)

// A Factory makes the Purchasers to be tested, and says what they promise.
type Factory struct {
	Open market.Open

	// LockKeys enumerates the keys that locks may have left in a market that a run made:
	// they are removed with it. Nil means none.
	LockKeys func(keys market.Keys, m market.RunNote) iter.Seq[string]

	// Lasting reports whether one of LockKeys stays although no lock is held: a counter
	// of holders, a fence at the market. Nil means that none does. A key that expires,
	// and is not below Keys.Lock, may stay: it marks what was done.
	Lasting func(key string) bool

	// Unprotected says that nothing is promised to workers that trade at the same time.
	// By default everything is.
	Unprotected bool

	// SharedAccounts says that an account, too, is protected from several workers that
	// spend from it at the same time.
	SharedAccounts bool
}

type check = suite.Check[*fixture]

// Check is a first answer about a purchase of your own, which should be safe for workers
// that spend from one account at the same time. It needs no server, because it starts
// one: a private redis-server if one is installed, else miniredis. Purchasers with locks
// need [Run], and its Factory.
func Check(t *testing.T, open market.Open) {
	t.Helper()
	Run(t, suite.Server(t), Factory{Open: open, SharedAccounts: true})
}

// Run tests the factory's Purchasers on a server, each behaviour as a subtest. It
// skips what they do not promise.
func Run(t *testing.T, s *backend.Server, factory Factory) { newSuite(s, factory).Run(t) }

func newSuite(s *backend.Server, factory Factory) suite.Suite[*fixture] {
	return suite.Suite[*fixture]{
		Checks: checks, Patience: opTimeout,
		Made: func(promise string) bool {
			return !factory.Unprotected && (promise == together || factory.SharedAccounts)
		},
		Open: func(f *suite.Fixture, _ check) *fixture { return newFixture(f, s, factory) },
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
