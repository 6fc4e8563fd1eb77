package strategies_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/step"
)

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
)

// stage is a market of three accounts with 100 coins each, in which the seller offers items at 80.
type stage struct {
	testing.TB
	ctx     context.Context
	server  *backend.Server
	conn    *backend.Conn // the test's own
	keys    market.Keys
	opening market.Opening
	first   market.ItemID
	ledgers []*market.Ledger
}

const price = 80

func newStage(t testing.TB, s *backend.Server) *stage {
	t.Helper()
	g := &stage{
		TB: t, ctx: t.Context(), server: s, conn: backendtest.Dial(t, s), keys: backendtest.Keys(t),
		opening: market.Opening{Accounts: 3, Funds: 100},
	}
	g.ledgers = []*market.Ledger{market.NewLedger(g.opening.Accounts)}
	g.must(market.Seed(g.ctx, g.conn, g.keys, g.opening))
	first, err := market.Mint(g.ctx, g.conn, g.keys, seller)
	g.must(err)
	g.ledgers[0].Minted(first, seller, nil)
	g.first = first
	return g
}

func (g *stage) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// offer lists an item, counted from 0, and returns the buyer's order of it.
func (g *stage) offer(n int) market.Order {
	g.Helper()
	o := market.Order{Item: g.first + market.ItemID(n), Seller: seller, Buyer: buyer, Price: price}
	_, err := g.actor("watch", g.server, nil).list(market.Listing{Item: o.Item, Seller: seller, Price: price})
	g.must(err)
	return o
}

// actor is a worker whose ledger is audited.
type actor struct {
	stage     *stage
	purchaser market.Purchaser
	ledger    *market.Ledger
}

// actor opens a worker that reaches the market through a server, which may be a proxy.
func (g *stage) actor(spec string, through *backend.Server, steps step.Observer) *actor {
	g.Helper()
	conn := backendtest.Dial(g, through)
	a := &actor{stage: g, ledger: market.NewLedger(g.opening.Accounts)}
	g.ledgers = append(g.ledgers, a.ledger)
	a.purchaser = open(g, parse(g, spec), strategies.Env{Redis: conn.Client, Keys: g.keys, Steps: steps})
	return a
}

func (a *actor) list(l market.Listing) (market.Receipt, error) {
	r, err := a.purchaser.List(a.stage.ctx, l)
	a.ledger.Listed(l, err)
	return r, err
}

func (a *actor) purchase(o market.Order) (market.Receipt, error) {
	r, err := a.purchaser.Purchase(a.stage.ctx, o)
	a.ledger.Purchased(o, err)
	return r, err
}

// start makes an order in a goroutine of its own.
func (a *actor) start(o market.Order) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		r, err := a.purchase(o)
		result <- outcome{r, err}
	}()
	return result
}

// outcome is what became of an order made in a goroutine of its own.
type outcome struct {
	receipt market.Receipt
	err     error
}

// held starts an order and returns when it is held at the gate.
func (g *stage) held(spec string, gate *step.Gate, o market.Order) <-chan outcome {
	g.Helper()
	a := g.actor(spec, g.server, gate.Observe)
	g.Cleanup(gate.Open)
	result := a.start(o)
	select {
	case <-gate.Reached():
	case got := <-result:
		g.Fatalf("%s did not come to the gate: %v", spec, got.err)
	}
	return result
}

func (g *stage) audit() market.Verdict {
	g.Helper()
	v, err := market.Audit(g.ctx, g.conn, g.keys, g.opening, g.ledgers...)
	g.must(err)
	return v
}

// sound checks that the audit finds nothing, and that it settles so many operations as applied and not applied.
func (g *stage) sound(applied, notApplied int64) {
	g.Helper()
	v := g.audit()
	if !v.OK() || v.Applied != applied || v.NotApplied != notApplied {
		g.Errorf("audit: %+v; want no problem, %d settled as applied, %d as not", v, applied, notApplied)
	}
}

func (g *stage) funds(id market.UserID) int64 {
	g.Helper()
	n, err := g.conn.HGet(g.ctx, g.keys.User(id), "funds").Int64()
	g.must(err)
	return n
}

// noLocks checks that no lock is held on an item, its buyer or the market.
func (g *stage) noLocks(spec string) {
	g.Helper()
	made := market.Made{Accounts: g.opening.Accounts, Items: g.first + 9}
	for key := range parse(g, spec).LockKeys(g.keys, made) {
		if held, err := g.conn.Get(g.ctx, key).Result(); err != redis.Nil {
			g.Errorf("%s is still there: %q, %v", key, held, err)
		}
	}
}
