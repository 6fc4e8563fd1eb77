package strategies_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestMain(m *testing.M) {
	// Random sequences of operations take long. Each strategy plays new ones in every run.
	checks := "5"
	if testkit.Long() {
		checks = "50"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	testkit.StartJavaQuickly()
	testkit.MaxParallel(16) // most of them wait
	testkit.VerifyNoLeaks(m)
}

func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		t.Parallel()
		conform(t, s)
	})
}

// TestStrategiesConformOnACluster: each market is on the master of its slot.
func TestStrategiesConformOnACluster(t *testing.T) {
	t.Parallel()
	if !testkit.Long() {
		t.Skip("every strategy once more, on a cluster: set MARKETSIM_LONG")
	}

	conform(t, serverstest.Cluster(t).Server)
}

// conform tests each strategy on a server.
func conform(t *testing.T, s *backend.Server) {
	for _, strategy := range strategies.All() {
		t.Run(strategy.Name, func(t *testing.T) {
			t.Parallel()
			suite.TestPurchaser(t, s, factory(parse(t, strategy.Name)))
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
func factory(spec strategies.Spec) suite.PurchaserFactory {
	return suite.PurchaserFactory{
		Open:           spec.OpenFor,
		LockKeys:       spec.LockKeys,
		Lasting:        lasts,
		Unprotected:    !spec.Strategy().Protects.Items,
		SharedAccounts: spec.Strategy().Protects.Accounts,
	}
}

// lasts reports whether a key lasts longer than an operation: a fence, an item's version
// or the outcomes at the market, or fenced's counter.
func lasts(key string) bool {
	return strings.Contains(key, ":fence") || strings.Contains(key, ":version:") ||
		strings.HasSuffix(key, ":outcomes") ||
		strings.HasSuffix(key, ":released")
}

func parse(t testing.TB, text string) strategies.Spec {
	t.Helper()
	spec := testkit.Must(catalogue.Full().Parse(text))(t)
	return spec
}

const (
	seller = market.UserID(1)
	buyer  = market.UserID(2)
)

// fixture is a market of three accounts with 100 coins each, in which the
// seller offers items at 80.
type fixture struct {
	testing.TB
	ctx     context.Context
	server  *backend.Server
	conn    *redisconn.Conn // the test's own
	keys    market.Keys
	opening market.Opening
	first   market.ItemID
	ledgers []*market.Ledger
}

const price = 80

// inMarket runs a test in a market on a server, see [testkit.OnBest].
func inMarket(t *testing.T, run func(g *fixture)) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		run(newFixture(t, s))
	})
}

// eachCase runs it for each of several specs, or other cases.
func eachCase[C any](t *testing.T, cases map[string]C, run func(g *fixture, spec string, c C)) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		for spec, c := range cases {
			t.Run(spec, func(t *testing.T) {
				t.Parallel()
				run(newFixture(t, s), spec, c)
			})
		}
	})
}

// eachSpec runs it for each of several specs, on Redis alone if they need what
// miniredis has not. Tests that change the server itself are of Redis alone, one after
// the other.
func eachSpec(t *testing.T, redisOnly bool, specs []string, run func(g *fixture, spec string)) {
	t.Parallel()

	on := func(t *testing.T, s *backend.Server) {
		for _, spec := range specs {
			t.Run(spec, func(t *testing.T) {
				if !redisOnly {
					t.Parallel()
				}
				run(newFixture(t, s), spec)
			})
		}
	}

	if redisOnly {
		on(t, testkit.Local(t))
		return
	}
	testkit.OnBest(t, on)
}

func newFixture(t testing.TB, s *backend.Server) *fixture {
	t.Helper()
	g := &fixture{
		TB: t, ctx: t.Context(), server: s, conn: testkit.Dial(t, s), keys: testkit.Keys(t),
		opening: market.Opening{Accounts: 3, Funds: 100},
	}
	g.ledgers = []*market.Ledger{new(market.Ledger)}
	g.must(marketstore.Seed(g.ctx, g.conn, g.keys, g.opening))
	first, err := marketstore.Mint(g.ctx, g.conn, g.keys, seller)
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

// listing is that of an item, counted from 0.
func (g *fixture) listing(n int) market.Listing {
	return market.Listing{Item: g.first + market.ItemID(n), Seller: seller, Price: price}
}

// offer lists an item, and returns the buyer's order of it.
func (g *fixture) offer(n int) market.Order {
	g.Helper()
	l := g.listing(n)
	_, err := g.worker("watch", nil).list(l)
	g.must(err)
	return market.Order{Item: l.Item, Seller: seller, Buyer: buyer, Price: price}
}

// worker is a worker whose ledger is audited.
type worker struct {
	fixture   *fixture
	conn      *redisconn.Conn
	purchaser market.Purchaser
	ledger    *market.Ledger
}

// observing is an Env whose steps are observed.
func observing(steps step.Observer) strategies.Env {
	return strategies.Env{ClientEnv: market.ClientEnv{Steps: steps}}
}

// worker opens a worker.
func (g *fixture) worker(spec string, steps step.Observer) *worker {
	g.Helper()
	return g.open(spec, g.server, observing(steps))
}

// open opens one that reaches the market through a server, which may be a
// proxy, on connections with hooks.
func (g *fixture) open(
	spec string, through *backend.Server, env strategies.Env, hooks ...redis.Hook) *worker {

	g.Helper()

	env.Keys = g.keys
	hooked := through.Dialer("").WithWrap(func(
		ctx context.Context, dial redisconn.DialFunc) (*redisconn.Conn, error) {

		conn, err := dial(ctx)
		if err == nil {
			for _, h := range hooks {
				conn.AddHook(h)
			}
		}
		return conn, err
	})

	servers := connect.MarketServers{
		Market: hooked, ZooKeeper: env.Servers.ZooKeeper, Etcd: env.Servers.Etcd,
	}
	c, err := connect.Open(g.ctx, parse(g, spec), servers, connect.Counters{}, env)
	g.must(err)

	w := &worker{g, c.Conn, c.Purchaser, new(market.Ledger)}
	g.Cleanup(func() {
		// a test closes the connection
		if err := c.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			g.Errorf("closing %s: %v", spec, err)
		}
	})
	g.ledgers = append(g.ledgers, w.ledger)
	return w
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
	return g.worker(spec, gate.Observe).holds(gate, o)
}

func (g *fixture) audit() market.AuditResult {
	g.Helper()
	v, err := market.Audit(g.ctx, g.conn, g.keys, g.opening, g.ledgers...)
	g.must(err)
	return v
}

// sound checks that the audit finds nothing, and how many operations it settles
// as applied and as not applied.
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
	for _, key := range g.locks(spec) {
		held, err := g.conn.Get(g.ctx, key).Result()
		g.Errorf("%s is still there: %q, %v", key, held, err)
	}
}

// locks are the keys of the locks that are held.
func (g *fixture) locks(spec string) (held []string) {
	g.Helper()
	made := market.RunNote{Accounts: g.opening.Accounts, Items: g.first + 9}
	for key := range parse(g, spec).LockKeys(g.keys, made) {
		n, err := g.conn.Exists(g.ctx, key).Result()
		g.must(err)
		if n > 0 && !lasts(key) {
			held = append(held, key)
		}
	}
	return held
}
