package strategies_test

import (
	"errors"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// Two workers want the same item for the same account. The first holds the item's
// lock. The second, whose second purchase this is, takes the account's lock
// first. Then each waits for what the other holds, until one gives up. Locks in
// one order let one of them through.
func TestLocksInChangingOrderDeadlock(t *testing.T) {
	eachCase(t, map[string]error{
		"wallet-unordered:timeout=300ms": market.ErrContended, "fine-wallet": nil,
	}, func(g *fixture, spec string, want error) {
		item, order := g.first, g.offer(0)
		// A first purchase of the second worker, so that the next one turns the
		// order round.
		waiting := step.Hold(step.Waiting)
		waiting.Open()
		second := g.worker(spec, waiting.Observe)
		cheap := g.offer(1)
		cheap.Buyer = seller
		_, err := second.purchase(cheap)
		g.must(err)

		// The first worker takes the item's lock and finds the account's held, by
		// somebody who gives it back when both wait.
		g.must(g.conn.Set(g.ctx, g.keys.Lock("users:2"), "somebody", 0).Err())
		firstWaits := step.Hold(step.Waiting)
		g.Cleanup(firstWaits.Open)
		first := g.worker(spec, firstWaits.Observe).start(order)
		<-firstWaits.Reached()
		g.must(g.conn.Del(g.ctx, g.keys.Lock("users:2")).Err())
		other := second.start(order)
		<-waiting.Reached() // it has the account, or waits for the item
		firstWaits.Open()
		a, b := <-first, <-other
		if want != nil && !errors.Is(a.err, want) && !errors.Is(b.err, want) {
			g.Errorf("%s: %v and %v, want one %v", spec, a.err, b.err, want)
		}
		if want == nil && (a.err != nil || !errors.Is(b.err, market.ErrNotListed)) {
			g.Errorf("%s: %v and %v; want the first to buy item %d", spec, a.err, b.err, item)
		}
		g.sound(0, 0)
	})
}
