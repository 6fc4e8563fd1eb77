// Package markettest tests a market.Purchaser: [Check] and [Run] are its conformance suite,
// and [Explore] goes through its schedules. A few lines run them:
//
//	open := func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
//		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
//		return mine.New(rdb, w.Keys), rdb, nil
//	}
//	markettest.Check(t, open)
//	markettest.Explore(t, open, explore.Bounds{Preemptions: explore.Unbounded, Faults: 1})
//
// Each test trades in a market of its own, audits it when the workers are done, removes
// it, and checks that nothing is left under its prefix. Workers that meet are held at
// their connections, before each of their requests.
//
// No test needs a server: Check and Run start one, a private redis-server if one is
// installed, else miniredis, and Explore has one in memory.
package markettest

import (
	"iter"
	"testing"

	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify/explore"
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

// Check tests a purchase of your own that takes no locks, and should be safe for workers
// that spend from one account at the same time. It is [Run] of a Factory that promises
// that.
func Check(t *testing.T, open market.Open) {
	t.Helper()
	Run(t, Factory{Open: open, SharedAccounts: true})
}

// Run tests the factory's Purchasers, each behaviour as a subtest. It skips what they do
// not promise.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	suite.TestPurchaser(t, suite.Server(t), suite.PurchaserFactory(factory))
}

// Explore goes through every schedule of the Purchasers that open makes within bounds, as
// package explore says, in several small markets: two clients that want one item, spend from
// one account, or buy from each other, an item that is bought and listed again, and three
// clients. The last two kinds get one preemption at most, and three clients one fault.
// [explore.Unbounded] has the others go on until no order of requests is left. Its test must
// not be parallel. The test fails if the audit of a market finds something, or if two who buy
// from each other wait for each other until they give up. It prints the shortest schedule to
// that when it is found.
//
// The search of each market ends shortly before the deadline of the test, which go test
// -timeout sets, or after b.Time. The test does not fail for that: its log, which go test -v
// shows, says how far each search has come and what lets it go on. With -v a line says every
// 10 s how far it is, too.
func Explore(t *testing.T, open market.Open, b explore.Bounds) {
	t.Helper()
	for _, m := range suite.Markets() {
		if m.LockServers > 0 {
			continue // it is one-item with servers that such purchasers do not know of
		}

		m.Resends = false // a Purchaser brings a client of its own, which decides that itself
		t.Run(m.Name, func(t *testing.T) {
			m.Explore(t, t.Name(), open, b)
		})
	}
}
