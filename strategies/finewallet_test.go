package strategies_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/markettest"
	"github.com/marketsim/marketsim/market/step"
)

// Two workers want the same item for the same account. The first holds the item's lock. The second, whose second
// purchase this is, takes the account's lock first. Then each waits for what the other holds, until one gives up. Locks
// in one order let one of them through.
func TestLocksInChangingOrderDeadlock(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for spec, want := range map[string]error{"wallet-unordered:timeout=300ms": market.ErrContended, "fine-wallet": nil} {
			g := newFixture(t, s)
			item, order := g.first, g.offer(0)
			// A first purchase of the second worker, so that the next one turns the order round.
			waiting := step.Hold(step.Waiting)
			waiting.Open()
			second := g.worker(spec, s, waiting.Observe)
			cheap := g.offer(1)
			cheap.Buyer = seller
			_, err := second.purchase(cheap)
			g.must(err)

			// The first worker takes the item's lock and finds the account's held, by somebody who gives it back when
			// both wait.
			g.must(g.conn.Set(g.ctx, g.keys.Lock("users:2"), "somebody", 0).Err())
			firstWaits := step.Hold(step.Waiting)
			t.Cleanup(firstWaits.Open)
			first := g.worker(spec, s, firstWaits.Observe).start(order)
			<-firstWaits.Reached()
			g.must(g.conn.Del(g.ctx, g.keys.Lock("users:2")).Err())
			other := second.start(order)
			<-waiting.Reached() // it has the account, or waits for the item
			firstWaits.Open()
			a, b := <-first, <-other
			if want != nil && !errors.Is(a.err, want) && !errors.Is(b.err, want) {
				t.Errorf("%s: %v and %v, want one %v", spec, a.err, b.err, want)
			}
			if want == nil && (a.err != nil || !errors.Is(b.err, market.ErrNotListed)) {
				t.Errorf("%s: %v and %v; want the first to buy item %d", spec, a.err, b.err, item)
			}
			g.sound(0, 0)
		}
	})
}

// fine-wallet takes an item's lock and an account's by one command, all or none.
func TestLocksTakenTogether(t *testing.T) {
	const spec = "fine-wallet:set-px:take=msetex"
	s := testkit.Newer(t, func(ctx context.Context, rdb *redis.Client) error {
		return parse(t, spec).CheckServer(ctx, rdb, testkit.Keys(t))
	})
	markettest.Run(t, s, factory(parse(t, spec)))
	g := newFixture(t, s)
	order := g.offer(0)
	g.must(g.conn.Set(g.ctx, g.keys.Lock("users:2"), "somebody", 0).Err())
	waiting := step.Hold(step.Waiting)
	t.Cleanup(waiting.Open)
	bought := g.worker(spec, s, waiting.Observe).start(order)
	<-waiting.Reached()
	if n := g.conn.Exists(g.ctx, g.keys.Lock(strconv.Itoa(int(order.Item)))).Val(); n != 0 {
		t.Error("it holds the item's lock while somebody has the account's")
	}
	g.must(g.conn.Del(g.ctx, g.keys.Lock("users:2")).Err())
	waiting.Open()
	if r := <-bought; r.err != nil || r.receipt.Polls != 1 {
		t.Errorf("%v after %d attempts in vain, want one", r.err, r.receipt.Polls)
	}
	g.sound(0, 0)
}
