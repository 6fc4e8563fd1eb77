package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/step"
)

// restricted is the server as seen by a user who may not run some command.
func restricted(g *stage, without string) *backend.Server {
	g.Helper()
	g.must(g.conn.Do(g.ctx, "acl", "setuser", "clerk", "on", ">secret", "~*", "&*", "+@all", "-"+without).Err())
	target := g.server.Target
	target.Username, target.Password = "clerk", "secret"
	return backend.NewServer(g.server.Kind, target, "", nil)
}

func TestMissingPermissionIsRejected(t *testing.T) {
	s := backendtest.Local(t)
	for _, spec := range everyStrategy {
		denied := map[bool]string{true: "hset", false: "zrem"}[spec == "unsafe"] // the first plain write, or one in a MULTI
		t.Run(spec, func(t *testing.T) { rejected(t, newStage(t, s), spec, denied) })
	}
}

// rejected checks that a purchase without permission for a command is refused, and that nothing was written.
func rejected(t *testing.T, g *stage, spec, denied string) {
	order := g.offer(0)
	before, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
	g.must(err)
	_, err = g.actor(spec, restricted(g, denied), nil).purchase(order)
	if !errors.Is(err, market.ErrRejected) || !redis.IsPermissionError(err) {
		t.Errorf("purchase: %v, want %v because of a missing permission", err, market.ErrRejected)
	}
	g.unchanged(before)
	g.sound(0, 0)
	g.noLocks(spec)
}

// The server runs out of memory between the decision and the write.
func TestFullMemoryIsRejected(t *testing.T) {
	s := backendtest.Local(t)
	for _, spec := range everyStrategy {
		t.Run(spec, func(t *testing.T) {
			g := newStage(t, s)
			order := g.offer(0)
			before, err := market.ReadSnapshot(g.ctx, g.conn, g.keys, g.opening.Accounts)
			g.must(err)
			a := g.actor(spec, s, once(step.BeforeWrite, func() { g.must(g.conn.ConfigSet(g.ctx, "maxmemory", "1").Err()) }))
			defer g.conn.ConfigSet(context.WithoutCancel(g.ctx), "maxmemory", "0")
			if _, err := a.purchase(order); !errors.Is(err, market.ErrRejected) || !redis.IsOOMError(err) {
				t.Errorf("purchase: %v, want %v because of OOM", err, market.ErrRejected)
			}
			g.unchanged(before)
			g.sound(0, 0) // the locks stay: a full server refuses to queue their DEL (see the test of setnx)
		})
	}
}

func TestUnreadableMarketIsRejected(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		for _, spec := range everyStrategy {
			g := newStage(t, s)
			g.must(g.conn.Set(g.ctx, g.keys.Market(), "not a sorted set", 0).Err())
			order := market.Order{Item: g.first, Seller: seller, Buyer: buyer, Price: price}
			if _, err := g.actor(spec, s, nil).purchase(order); !errors.Is(err, market.ErrRejected) {
				t.Errorf("%s: purchase: %v, want %v", spec, err, market.ErrRejected)
			}
		}
	})
}
