package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/step"
)

// scripted are the strategies that read and write by script.
var scripted = []string{"fine:fencing=off", "coarse:fenced:fencing=on", "fine-wallet:fencing=token"}

// scriptedOn runs f for them on both servers, with a proxy in front, when the server has seen the scripts: it then knows
// what EVALSHA is to run. The order is of the first item.
func scriptedOn(t *testing.T, f func(t *testing.T, g *stage, order market.Order, proxy *wire.Proxy, spec string)) {
	onEach(t, scripted, func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
		if _, err := g.actor(spec, g.server, nil).purchase(rival(g.offer(9))); err != nil {
			t.Fatal(err)
		}
		f(t, g, g.offer(0), proxy, spec)
	})
}

func TestLostReplyToAWritingScriptIsUnknownAndSettledAsApplied(t *testing.T) {
	scriptedOn(t, func(t *testing.T, g *stage, order market.Order, proxy *wire.Proxy, spec string) {
		a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { proxy.LoseReply("evalsha") }))
		if _, err := a.purchase(order); err == nil || market.Refused(err) {
			t.Errorf("purchase: %v; want an unknown outcome", err)
		}
		if paid := 100 - g.funds(buyer); paid != price {
			t.Errorf("the buyer paid %d coins, want %d: once", paid, price)
		}
		g.sound(1, 0)
	})
}

func TestWritingScriptThatDoesNotArriveIsUnknownAndSettledAsNotApplied(t *testing.T) {
	scriptedOn(t, func(t *testing.T, g *stage, order market.Order, proxy *wire.Proxy, spec string) {
		a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { proxy.LoseCommand("evalsha") }))
		if _, err := a.purchase(order); err == nil || market.Refused(err) {
			t.Errorf("purchase: %v; want an unknown outcome", err)
		}
		g.sound(0, 1)
		if _, err := a.purchase(order); err != nil {
			t.Errorf("the next purchase on a new connection: %v", err)
		}
	})
}

// The holder has registered and does not know: it writes nothing.
func TestLostReplyToAReadingScriptIsNotSent(t *testing.T) {
	scriptedOn(t, func(t *testing.T, g *stage, order market.Order, proxy *wire.Proxy, spec string) {
		a := g.actor(spec, proxy.Server(), once(step.Acquired, func() { proxy.LoseReply("evalsha") }))
		if _, err := a.purchase(order); !errors.Is(err, market.ErrNotSent) {
			t.Errorf("purchase: %v, want %v", err, market.ErrNotSent)
		}
		g.sound(0, 0)
		if _, err := a.purchase(order); err != nil {
			t.Errorf("the next purchase on a new connection: %v", err)
		}
	})
}

func TestCancelledBeforeAWritingScriptIsNotSent(t *testing.T) {
	scriptedOn(t, func(t *testing.T, g *stage, order market.Order, _ *wire.Proxy, spec string) {
		ctx, cancel := context.WithCancel(g.ctx)
		a := g.actor(spec, g.server, once(step.BeforeWrite, cancel))
		if _, err := a.purchaser.Purchase(ctx, order); !errors.Is(err, market.ErrNotSent) || !errors.Is(err, context.Canceled) {
			t.Errorf("purchase: %v, want %v", err, market.ErrNotSent)
		}
		g.sound(0, 0)
	})
}

func TestScriptWithoutPermissionForItsFirstWriteIsRejected(t *testing.T) {
	s := backendtest.Local(t)
	for _, spec := range scripted {
		t.Run(spec, func(t *testing.T) {
			g := newStage(t, s)
			order := g.offer(0)
			before, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
			g.must(err)
			if _, err := g.actor(spec, restricted(g, "hincrby"), nil).purchase(order); !errors.Is(err, market.ErrRejected) {
				t.Errorf("purchase: %v, want %v", err, market.ErrRejected)
			}
			g.unchanged(before)
			g.sound(0, 0)
		})
	}
}

// A script that fails midway leaves what it has written: the item is bought and on the market. EXEC would have refused
// all of it.
func TestScriptWithoutPermissionForItsLastWriteIsUnknown(t *testing.T) {
	s := backendtest.Local(t)
	for _, spec := range scripted {
		t.Run(spec, func(t *testing.T) {
			g := newStage(t, s)
			_, err := g.actor(spec, restricted(g, "zrem"), nil).purchase(g.offer(0))
			if err == nil || market.Refused(err) {
				t.Errorf("purchase: %v; want an unknown outcome", err)
			}
			if v := g.audit(); v.ItemProblems != 1 {
				t.Errorf("audit: %+v; want an item in two places", v)
			}
		})
	}
}

// The server is full before the script that writes comes. It is full for the release of the locks, too.
func TestScriptOnFullMemoryIsRejected(t *testing.T) {
	s := backendtest.Local(t)
	for _, spec := range scripted {
		t.Run(spec, func(t *testing.T) {
			g := newStage(t, s)
			order := g.offer(0)
			before, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
			g.must(err)
			a := g.actor(spec, s, once(step.BeforeWrite, func() { g.must(g.conn.ConfigSet(g.ctx, "maxmemory", "1").Err()) }))
			_, err = a.purchase(order)
			g.must(g.conn.ConfigSet(context.WithoutCancel(g.ctx), "maxmemory", "0").Err())
			if !errors.Is(err, market.ErrRejected) || !redis.IsOOMError(err) {
				t.Errorf("purchase: %v, want %v because of OOM", err, market.ErrRejected)
			}
			g.unchanged(before)
			g.sound(0, 0)
		})
	}
}

// A market that cannot be read is refused before anybody registers.
func TestScriptOnAnUnreadableMarketIsRejected(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, spec := range scripted {
			g := newStage(t, s)
			g.must(g.conn.Set(g.ctx, g.keys.Market(), "not a sorted set", 0).Err())
			order := market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: price}
			if _, err := g.actor(spec, s, nil).purchase(order); !errors.Is(err, market.ErrRejected) {
				t.Errorf("%s: purchase: %v, want %v", spec, err, market.ErrRejected)
			}
			if n := g.conn.Exists(g.ctx, g.keys.Fence("market"), g.keys.Fence("1")).Val(); n != 0 {
				t.Errorf("%s: %d fences are registered", spec, n)
			}
		}
	})
}
