// Package markettest is the conformance suite for a market.Purchaser. A few lines run it:
//
//	markettest.Run(t, server, markettest.Subject{
//		Open: func(t testing.TB, w markettest.Worker) market.Purchaser { return mine.New(w.Conn.Client, w.Keys) },
//	})
//
// Each test trades in a market of its own, audits it when the workers are done, removes it, and checks that nothing
// is left under its prefix. Workers that tell their steps (see package step) are made to meet at chosen points;
// others meet as it happens. Package backendtest has servers to run on.
package markettest

import (
	"context"
	"iter"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/step"
)

// A Subject is a kind of Purchaser to be tested, and what it promises.
type Subject struct {
	// Open makes the Purchaser of one worker. The suite closes the worker's connection; what else must be closed
	// is closed with t.Cleanup.
	Open func(t testing.TB, w Worker) market.Purchaser

	// LockKeys enumerates the keys that locks may have left in a market, as market.Remove wants them. Nil means
	// none.
	LockKeys func(keys market.Keys, m market.Made) iter.Seq[string]

	// Lasting tells those of LockKeys that stay although no lock is held: counters of holders, fences at the market.
	// Nil means that none does.
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

// Run tests the subject on a server, each behaviour as a subtest. What the subject does not promise is skipped.
func Run(t *testing.T, s *backend.Server, subject Subject) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case c.together && subject.Unprotected:
				t.Skip("it promises nothing to workers who trade at the same time")
			case c.shared && !subject.SharedAccounts:
				t.Skip("it does not protect an account that several workers spend from")
			}
			c.on(t, s, subject)
		})
	}
}

// A check is one behaviour.
type check struct {
	name     string
	opening  market.Opening
	together bool // several workers at the same time
	shared   bool // who spend from one account
	property bool // opens its markets itself
	run      func(*floor)
}

// on runs the check in a market of its own.
func (c check) on(t testing.TB, s *backend.Server, subject Subject) {
	t.Helper()
	f := newFloor(t, s, subject, c.opening)
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
	{name: "many trade at the same time", opening: crowd, together: true, run: manyTrade},
	{name: "shared account is not overdrawn", opening: crowd, together: true, shared: true, run: accountIsNotOverdrawn},
}
