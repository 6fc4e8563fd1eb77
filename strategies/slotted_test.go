package strategies_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// A slotted is a market whose keys share no slot, of four accounts with 100 coins each. Its items may be sold again and
// again.
type slotted struct {
	testing.TB
	ctx         context.Context
	open        func() spread.Slots // for one worker, until the end of the test
	slots       spread.Slots        // the test's own
	keys        market.Keys
	opening     market.Opening
	circulation *market.Circulation
	ledgers     []*market.Ledger
	first       market.ItemID
}

// newSlotted seeds a market whose items are the seller's.
func newSlotted(t testing.TB, open func() spread.Slots) *slotted {
	t.Helper()
	keys, err := market.NewKeys("test:" + testkit.Keys(t).Prefix()[6:][:26] + ":")
	if err == nil {
		err = spread.CheckKeys(keys)
	}
	g := &slotted{
		TB: t, ctx: context.WithoutCancel(t.Context()), open: open, slots: open(), keys: keys,
		opening: market.Opening{Accounts: 4, Funds: 100}, circulation: market.NewCirculation(market.BatchSize, 4),
	}
	g.must(err)
	g.must(spread.Seed(g.ctx, g.slots, keys, g.opening))
	// A few items and no whole batch: hundreds of tests would spend their time on the rest of it.
	g.first = 1
	g.ledger().Minted(g.first, seller, errLost)
	for item := range market.ItemID(fewItems) {
		key := keys.Item(g.first + item)
		rdb, err := g.slots.For(g.ctx, key)
		g.must(err)
		g.must(rdb.HSet(g.ctx, key, "owner", int64(seller), "version", 0).Err())
	}
	return g
}

// fewItems is how many items a slotted has.
const fewItems = 3

// errLost is what a mint returns of which a part was made.
var errLost = errors.New("the reply was lost")

// reused returns connections that were opened before, again from the first when restart is called.
func reused(open func() spread.Slots) (again func() spread.Slots, restart func()) {
	var opened []spread.Slots
	next := 0
	again = func() spread.Slots {
		if next == len(opened) {
			opened = append(opened, open())
		}
		next++
		return opened[next-1]
	}
	return again, func() { next = 0 }
}

// onOneServer opens connections to a server that is no cluster, where every slot has the same master.
func onOneServer(t testing.TB, s *backend.Server) func() spread.Slots {
	return func() spread.Slots { return &oneServer{testkit.Dial(t, s), s} }
}

type oneServer struct {
	conn   *backend.Conn
	server *backend.Server
}

func (s *oneServer) For(context.Context, string) (*redis.Client, error) { return s.conn.Client, nil }

func (s *oneServer) Again(context.Context, error) bool { return false }

func (s *oneServer) Dial(ctx context.Context, _ string) (*redis.Client, error) {
	return dialClient(s.server)(ctx)
}

// onCluster opens connections to a cluster, through proxies where there are some.
func onCluster(t testing.TB, c *servers.Cluster, through map[string]*wire.Proxy) func() spread.Slots {
	t.Helper()
	return func() spread.Slots {
		nodes := c.Server().Cluster().Nodes(func(ctx context.Context, target backend.Target) (*backend.Conn, error) {
			if p := through[target.Addr]; p != nil {
				target = p.Target()
			}
			return backend.Dial(ctx, target)
		})
		t.Cleanup(func() { _ = nodes.Close() })
		return nodes
	}
}

func (g *slotted) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *slotted) ledger() *market.Ledger {
	l := market.NewLedger(g.opening.Accounts)
	l.Circulate(g.circulation)
	g.ledgers = append(g.ledgers, l)
	return l
}

// trader is a worker whose ledger is kept, also of what it did not live to see.
type trader struct {
	*slotted
	purchaser market.Purchaser
	ledger    *market.Ledger
}

func (g *slotted) trader(spec string, slots spread.Slots, steps step.Observer) *trader {
	g.Helper()
	env := strategies.Env{Slots: slots, Keys: g.keys, Steps: steps}
	return &trader{g, open(g, parse(g, spec), env), g.ledger()}
}

func (w *trader) list(item market.ItemID, owner market.UserID, price int64) (err error) {
	l := market.Listing{Item: item, Seller: owner, Price: price}
	err = errDied
	defer func() { w.ledger.Listed(l, err) }()
	_, err = w.purchaser.List(w.ctx, l)
	return err
}

func (w *trader) purchase(o market.Order) (err error) {
	err = errDied
	defer func() { w.ledger.Purchased(o, err) }()
	_, err = w.purchaser.Purchase(w.ctx, o)
	return err
}

// start makes an order in a goroutine of its own.
func (w *trader) start(o market.Order) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := errDied
		defer func() { done <- err }()
		err = w.purchase(o)
	}()
	return done
}

// offer lists an item of the seller's, counted from 0, and returns the buyer's order of it.
func (g *slotted) offer(n int) market.Order {
	g.Helper()
	item := g.first + market.ItemID(n)
	g.must(g.trader("spread-intents", g.slots, nil).list(item, seller, price))
	return market.Order{Item: item, Seller: seller, Buyer: buyer, Price: price}
}

func (g *slotted) endAll() int {
	g.Helper()
	ended, err := spread.EndAll(g.ctx, g.slots, g.keys, g.first+fewItems-1)
	g.must(err)
	return ended
}

func (g *slotted) audit() market.AuditResult {
	g.Helper()
	v, err := spread.Audit(g.ctx, g.slots, g.keys, g.opening, g.ledgers...)
	g.must(err)
	return v
}

// sound checks that the audit finds nothing once every operation is ended, and that it settles so many of unknown outcome.
func (g *slotted) sound(applied, notApplied int64) {
	g.Helper()
	g.endAll()
	if v := g.audit(); !v.OK() || v.Applied != applied || v.NotApplied != notApplied {
		g.Errorf("audit: %+v; want no problem, %d settled as applied, %d as not", v, applied, notApplied)
	}
}
