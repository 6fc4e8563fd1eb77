// Package markettest is the conformance suite for a market.Purchaser. A few lines run it:
//
//	markettest.Run(t, server, markettest.Factory{
//		Open: func(t testing.TB, w markettest.Worker) market.Purchaser { return mine.New(w.Conn.Client, w.Keys) },
//	})
//
// Each test trades in a market of its own, audits it when the workers are done, removes it, and checks that nothing
// is left under its prefix. The suite makes workers that report their steps (see package step) meet at chosen points;
// others meet by chance. Package testkit has servers to run on.
package markettest

import (
	"context"
	"iter"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// A Factory makes the Purchasers to be tested, and says what they promise.
type Factory struct {
	// Open makes the Purchaser of one worker. The suite closes the worker's connection; Open registers with t.Cleanup
	// whatever else must be closed.
	Open func(t testing.TB, w Worker) market.Purchaser

	// LockKeys enumerates the keys that locks may have left in a market, as market.Remove wants them. Nil means
	// none.
	LockKeys func(keys market.Keys, m market.Made) iter.Seq[string]

	// Lasting reports whether one of LockKeys stays although no lock is held: a counter of holders, a fence at the
	// market. Nil means that none does.
	Lasting func(key string) bool

	// Unprotected says that nothing is promised to workers who trade at the same time. By default everything is.
	Unprotected bool

	// SharedAccounts says that an account is protected from several workers who spend from it at the same time. By
	// default only the items are.
	SharedAccounts bool
}

// A Worker is what one Purchaser works with.
type Worker struct {
	Conn  *backend.Conn                                // the worker's own, made with the server's Dial
	Dial  func(context.Context) (*redis.Client, error) // opens one more
	Keys  market.Keys
	Steps step.Observer // may be nil
}

// Run tests the factory's Purchasers on a server, each behaviour as a subtest. It skips what they do not promise.
func Run(t *testing.T, s *backend.Server, factory Factory) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case c.together && factory.Unprotected:
				t.Skip("it promises nothing to workers who trade at the same time")
			case c.shared && !factory.SharedAccounts:
				t.Skip("it does not protect an account that several workers spend from")
			}
			c.on(t, s, factory)
		})
	}
}

// A check is one behaviour.
type check struct {
	name     string
	opening  market.Opening
	together bool // several workers at the same time
	shared   bool // several workers spend from one account
	property bool // opens its markets itself
	run      func(*fixture)
}

// on runs the check in a market of its own.
func (c check) on(t testing.TB, s *backend.Server, factory Factory) {
	t.Helper()
	f := newFixture(t, s, factory, c.opening)
	if !c.property {
		f.seed()
		t.Cleanup(f.close)
	}
	c.run(f)
}

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
)

var (
	couple = market.Opening{Accounts: 2, Funds: 100}
	crowd  = market.Opening{Accounts: 1 + contestants, Funds: 100}
)

var checks = []check{
	{name: "listing moves the item to the market", opening: couple, run: listingMovesTheItem},
	{name: "listing what one does not own is refused", opening: couple, run: listingUnownedIsRefused},
	{name: "purchase moves the item and the coins", opening: couple, run: purchaseMovesItemAndCoins},
	{name: "exact funds suffice", opening: couple, run: exactFundsSuffice},
	{name: "order of what is not listed is refused", opening: couple, run: orderOfUnlistedIsRefused},
	{name: "order at another price is refused", opening: couple, run: orderAtAnotherPriceIsRefused},
	{name: "order beyond the funds is refused", opening: couple, run: orderBeyondFundsIsRefused},
	{name: "own listing is given back for no coins", opening: couple, run: ownListingIsGivenBack},
	{name: "operations leave no lock and no WATCH behind", opening: couple, run: operationsLeaveNothingBehind},
	{name: "any sequence ends as in the reference", opening: trio, property: true, run: sequenceMatchesReference},
	{name: "context that has ended applies nothing", opening: couple, run: endedContextAppliesNothing},
	{name: "cancellation at any step keeps the market whole", opening: couple, run: cancellationAtAnyStep},
	{name: "cancellation ends a wait", opening: couple, together: true, run: cancellationEndsAWait},
	{name: "one of many orders of an item is applied", opening: crowd, together: true, run: oneOrderIsApplied},
	{name: "receipt splits the time", opening: crowd, together: true, run: receiptSplitsTheTime},
	{name: "many trade at the same time", opening: crowd, together: true, run: manyTrade},
	{name: "shared account is not overdrawn", opening: crowd, together: true, shared: true, run: accountIsNotOverdrawn},
}
