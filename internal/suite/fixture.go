package suite

import (
	"context"
	"crypto/rand"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// opTimeout bounds an operation, longer than any strategy tries by itself.
const opTimeout = time.Minute

// fixture is what one check trades with: a market of its own, the factory's workers, and
// a connection of the suite's.
type fixture struct {
	*Fixture
	server  *backend.Server
	factory PurchaserFactory
	keys    market.Keys
	conn    *redisconn.Conn
	opening market.Opening
	ledgers []*market.Ledger // the first is the suite's own
	opened  int              // workers
	seeded  bool
	prompt  time.Duration // how soon after its context an operation must end
	unknown atomic.Bool   // an operation had an unknown outcome: its lock may be left to its lease
}

// newFixture returns a fixture whose market is there, and is audited and
// removed after the check.
func newFixture(s *Fixture, server *backend.Server, factory PurchaserFactory) *fixture {
	s.Helper()
	f := &fixture{Fixture: s, server: server, factory: factory, prompt: longestPrompt}

	var err error
	f.keys, err = market.NewKeys("markettest:{" + rand.Text() + "}:")
	f.must(err)
	f.conn, err = server.Dialer(f.keys.Prefix()).Dial(f.Ctx)
	f.must(err)

	// Cleanups run last first: of the workers, which are opened later, of the market, and then of
	// the connection that the audit needs.
	f.Cleanup(func() { _ = f.conn.Close() }) // a test may have closed it
	f.seed(opening)
	f.Cleanup(f.close)
	return f
}

// must ends the check if the suite itself cannot go on.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// seed begins a market. Workers that were opened before trade in it, too, but their ledgers are
// not audited with it.
func (f *fixture) seed(o market.Opening) {
	f.Helper()
	f.opening = o
	f.ledgers = []*market.Ledger{new(market.Ledger)}
	f.seeded = true
	f.must(marketstore.Seed(f.Ctx, f.conn, f.keys, f.opening))
}

func (f *fixture) mint(owner market.UserID) market.ItemID {
	f.Helper()
	first, err := marketstore.Mint(f.Ctx, f.conn, f.keys, owner)
	f.ledgers[0].Minted(first, owner, err)
	f.must(err)
	return first
}

// close audits the market, whose workers are done, and removes it. If the check has removed it
// already, it does nothing.
func (f *fixture) close() {
	f.Helper()
	if !f.seeded {
		return
	}
	result, err := market.Audit(f.Ctx, f.conn, f.keys, f.opening, f.ledgers...)
	if err != nil {
		f.Errorf("the market cannot be audited: %v", err)
	}
	for _, problem := range result.Problems {
		f.Errorf("audit: %s", problem)
	}
	f.onlyTheMarket()
	f.remove()
}

// remove deletes the market and whatever else is under its prefix, which should be nothing.
func (f *fixture) remove() {
	f.Helper()
	f.seeded = false // whatever follows: close does not try again
	made, err := marketstore.ReadNote(f.Ctx, f.conn, f.keys)
	if err == nil {
		locks := slices.Values[[]string](nil)
		if f.factory.LockKeys != nil {
			locks = f.factory.LockKeys(f.keys, made)
		}
		_, err = marketstore.Remove(f.Ctx, f.conn, f.keys, made, locks)
	}
	if err != nil {
		f.Errorf("the market cannot be removed: %v", err)
	}

	for _, key := range f.present() {
		if !f.marks(key) {
			f.Errorf("after the market was removed there is still %q", key)
		}
		f.conn.Unlink(f.Ctx, key)
	}
}

// marks reports whether a key is left on purpose: it expires, and is no lock's. So
// purchases mark what they have done.
func (f *fixture) marks(key string) bool {
	return !strings.HasPrefix(key, f.keys.Lock("")) && f.conn.PTTL(f.Ctx, key).Val() > 0
}

func (f *fixture) present() (keys []string) {
	f.Helper()
	it := f.conn.Scan(f.Ctx, 0, f.keys.Prefix()+"*", 1000).Iterator()
	for it.Next(f.Ctx) {
		keys = append(keys, it.Val())
	}
	f.must(it.Err())
	slices.Sort(keys)
	return slices.Compact(keys)
}

// onlyTheMarket checks that there are no keys under the prefix but the market's own and
// those that may stay or expire.
func (f *fixture) onlyTheMarket() {
	f.Helper()
	own := []string{f.keys.Run(), f.keys.Market()}
	for id := market.UserID(1); id <= market.UserID(f.opening.Accounts); id++ {
		own = append(own, f.keys.User(id), f.keys.Inventory(id))
	}
	for _, key := range f.present() {
		// expires is asked last: it may wait for as long as a lease.
		lasts := f.factory.Lasting != nil && f.factory.Lasting(key)
		if !slices.Contains(own, key) && !lasts && !f.marks(key) && !f.expires(key) {
			f.Errorf("%s was left behind", key)
		}
	}
}

// longestLease is how long a lock may last that is left to its lease.
const longestLease = time.Minute

// expires waits for a key to expire that was left after an unknown outcome: a lock that
// keeps others away from a late write. It reports false for a key that does not expire,
// or too late, and if every outcome was known.
func (f *fixture) expires(key string) bool {
	f.Helper()
	left, err := f.conn.PTTL(f.Ctx, key).Result()
	f.must(err)
	if !f.unknown.Load() || left > longestLease || left < 0 && left != noKey {
		return false
	}
	// If f.Ctx ends meanwhile, the next request fails, and what it returns is not noKey.
	_ = locking.Sleep(f.Ctx, max(0, left)+time.Millisecond, nil)
	return f.conn.PTTL(f.Ctx, key).Val() == noKey
}

const noKey = time.Duration(-2) // what PTTL answers

func (f *fixture) snapshot() market.Snapshot {
	f.Helper()
	s, err := market.ReadSnapshot(f.Ctx, f.conn, f.keys, f.opening.Accounts)
	f.must(err)
	return s
}

func (f *fixture) matches(want market.Snapshot) {
	f.Helper()
	if diff := cmp.Diff(want, f.snapshot()); diff != "" {
		f.Errorf("the market is not in the expected state (-want +got):\n%s", diff)
	}
}

// worker opens a Purchaser with connections and a ledger of its own.
func (f *fixture) worker(steps step.Observer) *worker { return f.open(steps, nil) }

// open makes a worker, which can be held at its proxies; nil: it has none. It is called in the
// check's goroutine alone: it may end the check, and no lock guards opened and ledgers.
func (f *fixture) open(steps step.Observer, proxies *Proxies) *worker {
	f.Helper()
	w := &worker{fixture: f, proxies: proxies, ledger: new(market.Ledger)}
	purchaser, closer, err := f.factory.Open.For(f.Ctx, market.Worker{
		ClientEnv: market.ClientEnv{Number: f.opened, Dial: w.dial, Steps: steps},
		Keys:      f.keys,
	})
	f.opened++
	f.ledgers = append(f.ledgers, w.ledger)
	if err != nil {
		f.Fatalf("open the purchaser of a worker: %v", err)
	}

	f.Cleanup(func() {
		if err := closer.Close(); err != nil {
			f.Errorf("closing the purchaser of a worker: %v", err)
		}
	})
	w.purchaser = purchaser
	return w
}

type worker struct {
	fixture   *fixture
	purchaser market.Purchaser
	proxies   *Proxies // nil: it cannot be held
	ledger    *market.Ledger
	watching  sync.Map // the connections on which a WATCH is in force
}

func (w *worker) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := w.proxies.Connect(ctx, w.fixture.server.Master(w.fixture.keys.Prefix()))
	if err != nil {
		return nil, err
	}
	return &workerConn{Conn: conn, watching: &w.watching}, nil
}

// A workerConn is a connection of a worker, which notes whether a WATCH is in force on it.
type workerConn struct {
	net.Conn
	watching *sync.Map
	part     string // of a command that was written in part
}

func (c *workerConn) Write(p []byte) (int, error) {
	commands, part := wire.Commands(c.part + string(p))
	c.part = part
	for _, words := range commands {
		switch words[0] {
		case "watch":
			c.watching.Store(c, nil)
		case "unwatch", "exec", "discard", "reset":
			c.watching.Delete(c)
		}
	}
	return c.Conn.Write(p)
}

func (c *workerConn) Close() error {
	c.watching.Delete(c)
	return c.Conn.Close()
}

// trade makes an order, or without a buyer lists the item. It checks that the times in
// the receipt fit the whole time. It is also called in goroutines other than the check's, where
// a check can be failed and not be ended: nothing in it calls Fatal, must or applied.
func (w *worker) trade(ctx context.Context, o market.Order) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()

	start := time.Now()
	r, err := deal(ctx, w.purchaser, o)
	took := time.Since(start)
	note(w.ledger, o, err)

	if err != nil && !market.Refused(err) {
		w.fixture.unknown.Store(true)
	}

	if min(r.LockWait, r.LockHold, r.Thrown) < 0 || r.LockWait+r.LockHold+r.Thrown > took {
		const wrong = "the receipt of an operation that took %s says %s waiting for locks, " +
			"%s holding them and %s thrown away: none can be negative, and the sum no more than the whole"
		w.fixture.Errorf(wrong, took, r.LockWait, r.LockHold, r.Thrown)
	}
	return err
}

// lists lists an item of the seller's, which must succeed, and returns the
// buyer's order of it.
func (w *worker) lists(item market.ItemID, price int64) market.Order {
	w.fixture.Helper()
	order := market.Order{Item: item, Seller: seller, Price: price}
	w.fixture.applied(w.trade(w.fixture.Ctx, order))
	order.Buyer = buyer
	return order
}

// leftNothing checks that the worker holds no lock, and watches no key whose change
// would abort its next transaction.
func (w *worker) leftNothing(after string) {
	f := w.fixture
	f.Helper()
	f.onlyTheMarket()
	for range w.watching.Range {
		f.Errorf("%s left a WATCH behind on a connection of the worker's", after)
		return
	}
}

func (f *fixture) applied(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("the operation was not applied: %v", err)
	}
}
