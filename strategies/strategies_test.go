package strategies_test

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/markettest"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

func TestMain(m *testing.M) {
	// Most of the time goes into random sequences of operations. Each strategy plays new ones in every run, on two servers.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	testkit.VerifyNoLeaks(m)
}

func TestStrategiesConform(t *testing.T) {
	for _, strategy := range strategies.All() {
		t.Run(strategy.Name, func(t *testing.T) {
			t.Parallel()
			factory := factory(parse(t, strategy.Name))
			testkit.Each(t, func(t *testing.T, s *backend.Server) { markettest.Run(t, s, factory) })
		})
	}
}

// TestStrategiesConformOnACluster: each market is on the master of its slot.
func TestStrategiesConformOnACluster(t *testing.T) {
	s := testkit.Cluster(t).Server()
	for _, strategy := range strategies.All() {
		t.Run(strategy.Name, func(t *testing.T) {
			t.Parallel()
			markettest.Run(t, s, factory(parse(t, strategy.Name)))
		})
	}
}

// protecting lists the strategies that protect items.
func protecting() (names []string) {
	for _, s := range strategies.All() {
		if s.Protects.Items {
			names = append(names, s.Name)
		}
	}
	return names
}

// everyStrategy lists all of them.
func everyStrategy() (names []string) {
	for _, s := range strategies.All() {
		names = append(names, s.Name)
	}
	return names
}

// factory makes purchasers of a spec for the suite.
func factory(spec strategies.Spec) markettest.Factory {
	return markettest.Factory{
		Open: func(t testing.TB, w markettest.Worker) market.Purchaser {
			return open(t, spec, strategies.Env{Redis: w.Conn.Client, Dial: w.Dial, Keys: w.Keys, Steps: w.Steps})
		},
		LockKeys:       spec.LockKeys,
		Lasting:        lasts,
		Unprotected:    !spec.Strategy().Protects.Items,
		SharedAccounts: spec.Strategy().Protects.Accounts,
	}
}

// lasts reports whether a key lasts longer than an operation: a fence, an item's version or the outcomes at the market,
// or fenced's counter.
func lasts(key string) bool {
	return strings.Contains(key, ":fence") || strings.Contains(key, ":version:") || strings.HasSuffix(key, ":outcomes")
}

func parse(t testing.TB, text string) strategies.Spec {
	t.Helper()
	spec, err := strategies.Builtin().Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// open makes a Purchaser that is closed with the test.
func open(t testing.TB, spec strategies.Spec, env strategies.Env) market.Purchaser {
	t.Helper()
	p, closer, err := spec.Open(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closer.Close(); err != nil {
			t.Errorf("closing %s: %v", spec, err)
		}
	})
	return p
}

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
)

// fixture is a market of three accounts with 100 coins each, in which the seller offers items at 80.
type fixture struct {
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

func newFixture(t testing.TB, s *backend.Server) *fixture {
	t.Helper()
	g := &fixture{
		TB: t, ctx: t.Context(), server: s, conn: testkit.Dial(t, s), keys: testkit.Keys(t),
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

func (g *fixture) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// offer lists an item, counted from 0, and returns the buyer's order of it.
func (g *fixture) offer(n int) market.Order {
	g.Helper()
	o := market.Order{Item: g.first + market.ItemID(n), Seller: seller, Buyer: buyer, Price: price}
	_, err := g.worker("watch", g.server, nil).list(market.Listing{Item: o.Item, Seller: seller, Price: price})
	g.must(err)
	return o
}

// worker is a worker whose ledger is audited.
type worker struct {
	fixture   *fixture
	conn      *backend.Conn
	hooks     []redis.Hook // of the connections that it opens later
	purchaser market.Purchaser
	ledger    *market.Ledger
}

// worker opens a worker that reaches the market through a server, which may be a proxy.
func (g *fixture) worker(spec string, through *backend.Server, steps step.Observer) *worker {
	g.Helper()
	conn := testkit.Dial(g, through)
	w := &worker{fixture: g, conn: conn, ledger: market.NewLedger(g.opening.Accounts)}
	g.ledgers = append(g.ledgers, w.ledger)
	dial := func(ctx context.Context) (*redis.Client, error) {
		more, err := through.Dial(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range w.hooks {
			more.AddHook(h)
		}
		return more.Client, nil
	}
	w.purchaser = open(g, parse(g, spec), strategies.Env{Redis: conn.Client, Dial: dial, Keys: g.keys, Steps: steps})
	return w
}

// hook sees the commands of a worker that has sent none yet.
func (w *worker) hook(h redis.Hook) {
	w.conn.AddHook(h)
	w.hooks = append(w.hooks, h)
}

func (w *worker) list(l market.Listing) (market.Receipt, error) {
	r, err := w.purchaser.List(w.fixture.ctx, l)
	w.ledger.Listed(l, err)
	return r, err
}

func (w *worker) purchase(o market.Order) (market.Receipt, error) {
	r, err := w.purchaser.Purchase(w.fixture.ctx, o)
	w.ledger.Purchased(o, err)
	return r, err
}

// start makes an order in a goroutine of its own.
func (w *worker) start(o market.Order) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		r, err := w.purchase(o)
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
func (g *fixture) held(spec string, gate *step.Gate, o market.Order) <-chan outcome {
	g.Helper()
	a := g.worker(spec, g.server, gate.Observe)
	g.Cleanup(gate.Open)
	result := a.start(o)
	select {
	case <-gate.Reached():
	case got := <-result:
		g.Fatalf("%s did not come to the gate: %v", spec, got.err)
	}
	return result
}

func (g *fixture) audit() market.AuditResult {
	g.Helper()
	v, err := market.Audit(g.ctx, g.conn, g.keys, g.opening, g.ledgers...)
	g.must(err)
	return v
}

// sound checks that the audit finds nothing, and that it settles so many operations as applied and not applied.
func (g *fixture) sound(applied, notApplied int64) {
	g.Helper()
	v := g.audit()
	if !v.OK() || v.Applied != applied || v.NotApplied != notApplied {
		g.Errorf("audit: %+v; want no problem, %d settled as applied, %d as not", v, applied, notApplied)
	}
}

func (g *fixture) funds(id market.UserID) int64 {
	g.Helper()
	n, err := g.conn.HGet(g.ctx, g.keys.User(id), "funds").Int64()
	g.must(err)
	return n
}

// noLocks checks that no lock is held on an item, its buyer or the market.
func (g *fixture) noLocks(spec string) {
	g.Helper()
	made := market.Made{Accounts: g.opening.Accounts, Items: g.first + 9}
	for key := range parse(g, spec).LockKeys(g.keys, made) {
		if held, err := g.conn.Get(g.ctx, key).Result(); err != redis.Nil && !lasts(key) {
			g.Errorf("%s is still there: %q, %v", key, held, err)
		}
	}
}
