package strategies_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/step"
)

// everyStrategy lists the specs that are tested; unsafe, which does not write with EXEC, is the last.
var everyStrategy = []string{"watch", "coarse", "fine", "fine-wallet", "unsafe"}

// once is an observer that does something when its worker first comes to a step.
func once(at step.Name, do func()) step.Observer {
	done := false
	return func(_ context.Context, now step.Name) {
		if now == at && !done {
			done = true
			do()
		}
	}
}

// onEach runs f for specs on both servers, each with a proxy in front.
func onEach(t *testing.T, specs []string, f func(t *testing.T, g *stage, proxy *wire.Proxy, spec string)) {
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) {
			backendtest.Each(t, func(t *testing.T, s *backend.Server) { f(t, newStage(t, s), wire.Start(t, s), spec) })
		})
	}
}

// protected are the strategies that write with EXEC.
var protected = everyStrategy[:4]

func TestLostReplyToExecIsUnknownAndSettledAsApplied(t *testing.T) {
	onEach(t, protected, func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
		order := g.offer(0)
		a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { proxy.LoseReply("exec") }))
		if _, err := a.purchase(order); err == nil || market.Refused(err) {
			t.Errorf("purchase: %v; want an unknown outcome", err)
		}
		if paid := 100 - g.funds(buyer); paid != price {
			t.Errorf("the buyer paid %d coins, want %d: once", paid, price)
		}
		g.sound(1, 0)
		g.noLocks(spec)
	})
}

func TestLostReplyToAListingIsSettledAsApplied(t *testing.T) {
	onEach(t, protected, func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
		a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { proxy.LoseReply("exec") }))
		if _, err := a.list(market.Listing{Item: g.first, Seller: seller, Price: price}); err == nil || market.Refused(err) {
			t.Errorf("listing: %v; want an unknown outcome", err)
		}
		g.sound(1, 0)
		g.noLocks(spec)
	})
}

func TestExecThatDoesNotArriveIsUnknownAndSettledAsNotApplied(t *testing.T) {
	onEach(t, protected, func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
		order := g.offer(0)
		a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { proxy.LoseCommand("exec") }))
		if _, err := a.purchase(order); err == nil || market.Refused(err) {
			t.Errorf("purchase: %v; want an unknown outcome", err)
		}
		g.sound(0, 1)
		g.noLocks(spec)
		if _, err := a.purchase(order); err != nil {
			t.Errorf("the next purchase on a new connection: %v", err)
		}
	})
}

// The read that fails is the plain ZSCORE, or for the locked strategies the first one in a MULTI.
func TestConnectionCutWhileReadingIsNotSent(t *testing.T) {
	onEach(t, everyStrategy, func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
		order := g.offer(0)
		a := g.actor(spec, proxy.Server(), nil)
		proxy.LoseReply("zscore")
		if _, err := a.purchase(order); !errors.Is(err, market.ErrNotSent) {
			t.Errorf("purchase: %v, want %v", err, market.ErrNotSent)
		}
		g.sound(0, 0)
		g.noLocks(spec)
		if _, err := a.purchase(order); err != nil {
			t.Errorf("the next purchase on a new connection: %v", err)
		}
	})
}

// unsafe writes one command at a time: where it is cut decides what is lost, and the audit says so.
func TestUnsafeCutBetweenItsWrites(t *testing.T) {
	for name, c := range map[string]struct {
		cut              func(*wire.Proxy)
		settled, refused int64
		items, money     int64
	}{
		"first write lost":          {cut: func(p *wire.Proxy) { p.LoseCommand("hset") }, refused: 1},
		"first reply lost":          {cut: func(p *wire.Proxy) { p.LoseReply("hset") }, refused: 1, money: 1},
		"item lost on the way":      {cut: func(p *wire.Proxy) { p.LoseCommand("sadd") }, refused: 1, money: 2},
		"item left on the market":   {cut: func(p *wire.Proxy) { p.LoseCommand("zrem") }, items: 1, settled: 1},
		"reply to the last is lost": {cut: func(p *wire.Proxy) { p.LoseReply("zrem") }, settled: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, everyStrategy[4:], func(t *testing.T, g *stage, proxy *wire.Proxy, spec string) {
				order := g.offer(0)
				a := g.actor(spec, proxy.Server(), once(step.BeforeWrite, func() { c.cut(proxy) }))
				if _, err := a.purchase(order); err == nil || market.Refused(err) {
					t.Errorf("purchase: %v; want an unknown outcome", err)
				}
				v := g.audit()
				if v.ItemProblems != c.items || v.MoneyProblems != c.money || v.Applied != c.settled || v.NotApplied != c.refused {
					t.Errorf("audit: %+v, want %+v", v, c)
				}
			})
		})
	}
}

// unchanged checks that nothing but locks differs from before.
func (g *stage) unchanged(before market.Snapshot) {
	g.Helper()
	after, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
	g.must(err)
	if !maps.Equal(after.Funds, before.Funds) || !maps.Equal(after.Listings, before.Listings) ||
		!slices.Equal(g.owned(after), g.owned(before)) {
		g.Errorf("the market has changed: funds %v, listings %v", after.Funds, after.Listings)
	}
}

func (g *stage) owned(s market.Snapshot) []market.ItemID {
	return slices.Sorted(maps.Keys(s.Inventory[buyer]))
}
