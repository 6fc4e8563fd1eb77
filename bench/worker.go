package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Role is what a worker does.
type Role string

// The roles.
const (
	Seller  Role = "seller"
	Buyer   Role = "buyer"
	Browser Role = "browser" // looks at listings beside the mix
)

// Workers are all workers of a row, and what they have in common.
type Workers struct {
	Config
	markets                   []*rowMarket
	sellers, buyers, browsers []*Worker
	history                   *history.Writer
	collector                 *collector
}

// newWorkers makes the workers of a row. They are not connected yet, and no market is open.
func newWorkers(c Config) *Workers {
	ws := &Workers{Config: c, markets: c.markets(), collector: newCollector()}
	add := func(r Role, workers *[]*Worker, count int) {
		for i := range count {
			in := ws.markets[i%len(ws.markets)]
			w := &Worker{
				market: in, role: r, number: i, account: in.account(r, i/len(ws.markets)),
				recorder: newRecorder(ws.collector, in.opening().Accounts),
				random:   rand.New(rand.NewPCG(c.Seed, uint64(len(ws.All())))),
			}
			*workers = append(*workers, w)
		}
	}
	add(Seller, &ws.sellers, c.Mix.Sellers)
	add(Buyer, &ws.buyers, c.Mix.Buyers)
	add(Browser, &ws.browsers, c.Browsers)
	return ws
}

// connect connects the workers to their markets, which are open, with a history if there is to be one. On an error nothing
// stays open.
func (ws *Workers) connect(ctx context.Context) (err error) {
	if ws.history, err = ws.markets[0].createHistory(); err != nil {
		return err
	}
	for _, m := range ws.markets {
		if m.Hot > 0 {
			m.circulation = market.NewCirculation(m.lastHot(), m.opening().Accounts)
		}
	}
	for _, group := range [][]*Worker{ws.sellers, ws.buyers, ws.browsers} {
		for i, w := range group {
			w.recorder.ledger.Circulate(w.market.circulation)
			if w.recorder.history, err = ws.history.Worker(string(w.role)); err == nil {
				err = w.Connect(ctx)
			}
			if err != nil {
				return errors.Join(fmt.Errorf("connect %s %d: %w", w.role, i+1, err), ws.Close(), ws.history.Discard())
			}
		}
	}
	return nil
}

// All are the sellers, the buyers and the browsers.
func (ws *Workers) All() []*Worker { return slices.Concat(ws.sellers, ws.buyers, ws.browsers) }

// Close closes what the workers have open.
func (ws *Workers) Close() error {
	var errs []error
	for _, w := range ws.All() {
		errs = append(errs, w.close())
	}
	for _, m := range ws.markets {
		errs = append(errs, m.process.Close())
	}
	return errors.Join(errs...)
}

// sharing reports whether workers share a connection, of which nobody can tell what it carries for whom.
func (ws *Workers) sharing() bool {
	return slices.ContainsFunc(ws.markets, func(m *rowMarket) bool { return m.shared.Load() != nil })
}

// Worker is one seller, buyer or browser. It has a connection, a Purchaser, a supply and a recorder of its own. Its
// methods serve one goroutine.
type Worker struct {
	market    *rowMarket
	role      Role
	number    int                          // among those of its role in the row, from 0
	account   market.UserID                // for which it trades; 0 for a browser
	conn      atomic.Pointer[backend.Conn] // nil: it is not connected
	purchaser market.Purchaser
	closer    io.Closer
	supply    supply
	recorder  *recorder
	spent     spent
	work      *otherWork // nil: none
	random    *rand.Rand

	carried     backend.Stats // what its own connection has carried, and those that it had before
	lockServers backend.Stats // what its locks exchange with servers of their own
	background  backend.Stats // what renews its locks and notifies it, wherever
	thrown      traffic       // up to where the operation under way last threw away all it had done

	next, last market.ItemID  // a seller's items that are not listed yet: next to last-1
	orders     []market.Order // reused
}

// Connect opens a connection and a Purchaser for the worker, in place of those that it has.
func (w *Worker) Connect(ctx context.Context) error {
	_ = w.close() // a broken connection cannot end well
	conn, err := w.market.connect(backend.CountInto(ctx, &w.carried))
	if err != nil {
		return err
	}
	purchaser, closer, err := w.market.Subject.Open(w.env(conn))
	if err != nil {
		w.endWork()
		return errors.Join(err, conn.Close())
	}
	w.conn.Store(conn)
	w.purchaser, w.closer = purchaser, closer
	w.supply = redisSupply{conn.Client, w.market.Keys, w.market.browseSize()}
	return nil
}

// env is what the worker's Purchaser works with.
func (w *Worker) env(conn *backend.Conn) strategies.Env {
	env := strategies.Env{
		Redis: conn.Client, Keys: w.market.Keys, Servers: w.market.lockServers(), Process: &w.market.process,
		Traffic: lock.Traffic{Servers: &w.lockServers, Background: &w.background},
		Dial: func(ctx context.Context) (*redis.Client, error) {
			more, err := w.market.connect(backend.CountInto(ctx, &w.background))
			if err != nil {
				return nil, err
			}
			if more.Shared() {
				w.market.shared.Store(more)
			}
			return more.Client, nil
		},
		Thrown: func() { w.thrown = w.traffic() }, Steps: w.observe(),
	}
	if w.recorder.history != nil {
		env.Holds = w.recorder.history.Held
	}
	return env
}

// close closes what Connect opened, if anything is open.
func (w *Worker) close() error {
	if w.purchaser == nil {
		return nil
	}
	err := errors.Join(w.closer.Close(), w.conn.Swap(nil).Close())
	w.endWork()
	w.purchaser, w.closer = nil, nil
	return err
}

// List offers the seller's next item at a random price. When none is left it first mints a batch, which is not
// measured.
func (w *Worker) List(ctx context.Context) error {
	if w.next >= w.last {
		if err := w.mint(ctx); err != nil {
			return err
		}
	}
	w.next++
	return w.list(ctx, w.next-1)
}

// list offers an item of the worker's at a random price.
func (w *Worker) list(ctx context.Context, item market.ItemID) error {
	l := market.Listing{Item: item, Seller: w.account, Price: w.price()}
	start := time.Now()
	receipt, err := w.purchaser.List(ctx, l)
	for moved(start, err) {
		receipt, err = w.purchaser.List(ctx, l)
	}
	end := time.Now()
	w.recorder.listed(start, end, l, receipt, err)
	if w.recorder.counts(start) {
		w.spent.listed(start, end)
	}
	if Fatal(err) {
		return fmt.Errorf("list item %d: %w", l.Item, err)
	}
	return err
}

// movesFor is for how long an operation is made again because its market's slot moves.
const movesFor = 5 * time.Second

// moved reports whether an operation that began at start was certainly not made, because the slot of its market moves or its
// connection has just been left for that, and is to be made again.
func moved(start time.Time, err error) bool {
	notMade := errors.Is(err, market.ErrRejected) || errors.Is(err, market.ErrNotSent)
	return notMade && (backend.Redirected(err) || errors.Is(err, net.ErrClosed)) && time.Since(start) < movesFor
}

// price draws what an item is offered for.
func (w *Worker) price() int64 { return minPrice + w.random.Int64N(maxPrice-minPrice+1) }

// mint makes the next items, and sets next and last.
func (w *Worker) mint(ctx context.Context) error { return w.mintFrom(ctx, w.supply) }

// mintFrom does so with a supply other than the worker's.
func (w *Worker) mintFrom(ctx context.Context, from supply) error {
	start := time.Now()
	first, err := from.mint(ctx, w.account)
	w.recorder.minted(start, time.Now(), first, w.account, err)
	if err == nil {
		w.next, w.last = first, first+market.BatchSize
	}
	return err
}

// Browse returns some of the listings as orders of the worker's, in random order. It is not measured. The slice is good
// until the next call.
func (w *Worker) Browse(ctx context.Context) ([]market.Order, error) {
	var err error
	if w.orders, err = w.supply.browse(ctx, w.orders[:0], w.account); err != nil {
		return nil, err
	}
	w.random.Shuffle(len(w.orders), func(i, j int) { w.orders[i], w.orders[j] = w.orders[j], w.orders[i] })
	return w.orders, nil
}

// funds are the coins in the worker's account. Reading them is not measured.
func (w *Worker) funds(ctx context.Context) (int64, error) { return w.supply.funds(ctx, w.account) }

// Purchase makes one order.
func (w *Worker) Purchase(ctx context.Context, o market.Order) error {
	return w.purchase(ctx, o, time.Time{}, time.Time{})
}

// purchase makes one order. In an open loop it was due at a time and taken up at another, maybe with other listings
// before this one; in a closed loop both are zero.
func (w *Worker) purchase(ctx context.Context, o market.Order, due, taken time.Time) error {
	before := w.traffic()
	w.thrown = before
	start := time.Now()
	receipt, err := w.purchaser.Purchase(ctx, o)
	for moved(start, err) {
		receipt, err = w.purchaser.Purchase(ctx, o)
	}
	end := time.Now()
	asked := start
	if !due.IsZero() {
		asked = due
	}
	cost, thrown := w.traffic().sub(before), w.thrown.sub(before)
	w.recorder.purchased(asked, start, end, o, cost, receipt, err)
	if w.recorder.counts(asked) {
		w.spent.order(asked, start, end, cost.market, thrown.market, receipt, err)
	}
	if err == nil && !due.IsZero() {
		w.recorder.served(due, taken, end)
	}
	return err
}

// look reads where an item lies, under a lock that readers share.
func (w *Worker) look(ctx context.Context, o market.Order) (market.Sighting, error) {
	browser, ok := w.purchaser.(market.Browser)
	if !ok {
		return market.Sighting{}, fmt.Errorf("%w: %s takes no lock that browsers could share", ErrConfig, w.market.Subject)
	}
	start := time.Now()
	sighting, receipt, err := browser.Browse(ctx,
		market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}, w.market.opening().Accounts)
	w.recorder.sighted(start, time.Now(), sighting, receipt, err)
	return sighting, err
}

// traffic is what a worker has exchanged with the market's server, and what its locks have with servers of their own.
// What goes on in the background is not in it, nor what goes over a connection that workers share.
type traffic struct{ market, lockServers backend.Counts }

func (t traffic) sub(b traffic) traffic {
	return traffic{t.market.Sub(b.market), t.lockServers.Sub(b.lockServers)}
}

func (w *Worker) traffic() traffic {
	return traffic{w.carried.Snapshot(), w.lockServers.Snapshot()}
}

// Fatal reports whether an operation failed because of the environment. A row that went on would measure the failure.
func Fatal(err error) bool {
	return err != nil &&
		(!market.Refused(err) || errors.Is(err, market.ErrRejected) || errors.Is(err, market.ErrNotSent))
}
