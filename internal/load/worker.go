package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

type role string

const (
	seller role = "seller"
	buyer  role = "buyer"
)

// A worker is one seller or buyer. Its methods serve one goroutine.
type worker struct {
	identity
	market *rowMarket
	random *rand.Rand

	purchaser market.Purchaser
	opened    *connect.Opened // nil: it is not connected
	supply    supply
	work      *otherWork // nil: none

	records
	// When the operation under way began, on the window's clock; idle: there is none.
	underway atomic.Int64
	noting   atomic.Bool // it notes a purchase that has ended: see settle
	exchange

	next, last market.ItemID  // a seller's items that are not listed yet: next to last-1
	orders     []market.Order // reused
}

// identity is which worker of a row one is.
type identity struct {
	role    role
	number  int           // among the workers of its role, from 0
	place   int           // among all workers of the row, from 0
	account market.UserID // for which it trades
}

// records are where a worker notes what it did.
type records struct {
	tally   *tally
	ledger  *market.Ledger
	history *history.Recorder // nil: nothing is recorded
}

// exchange is what went over a worker's connections.
type exchange struct {
	carried     redisconn.Stats // over its own
	lockServers redisconn.Stats // between its locks and servers of their own
	background  redisconn.Stats // by renewals and notifications of its locks, with any server
}

const idle = math.MaxInt64 // worker.underway of one that makes no operation

func newWorker(m *rowMarket, in *window, who identity, random *rand.Rand) *worker {
	w := &worker{
		identity: who,
		market:   m,
		random:   random,
		records:  records{tally: newTally(in, timed(who.role, m.point)...), ledger: new(market.Ledger)},
	}
	w.underway.Store(idle)
	return w
}

// timed are the kinds of times that a worker of a row measures.
func timed(r role, p result.Point) []kind {
	if r == seller {
		return []kind{listTime}
	}
	kinds := []kind{purchaseTime, refusedTime, lockWaitTime}
	if p.Hot > 0 {
		kinds = append(kinds, listTime)
	}
	if p.Rate > 0 {
		kinds = append(kinds, serviceTime)
	}
	return kinds
}

// connect opens the worker's Purchaser and what it trades in. On an error it stays closed.
func (w *worker) connect(ctx context.Context) (err error) {
	env := strategies.Env{
		ClientEnv: market.ClientEnv{Number: w.place, Steps: w.openSteps()},
		Keys:      w.market.Keys,
		Process:   &w.market.process,
	}
	if w.history != nil {
		env.Holds = w.history.Held
	}
	traffic := connect.Counters{Market: &w.carried, LockServers: &w.lockServers, Background: &w.background}

	w.opened, err = connect.Open(ctx, w.market.Subject, w.market.servers(), traffic, env)
	if err != nil {
		return errors.Join(err, w.close())
	}

	w.purchaser = w.opened.Purchaser
	w.supply = redisSupply{w.opened.Conn.Client, w.market.Keys, w.market.glanceLength()}
	return nil
}

func (w *worker) close() (err error) {
	if w.opened != nil {
		err = w.opened.Close()
	}
	if w.work != nil {
		w.work.alarm.Close()
	}
	w.opened, w.work = nil, nil
	return err
}

func (w *worker) traffic() traffic { return traffic{w.carried.Snapshot(), w.lockServers.Snapshot()} }

func (w *worker) at(t time.Time) int64 { return w.tally.window.at(t) }

// since is the span of what began at start and ends now.
func (w *worker) since(start time.Time) span {
	at := w.at(start)
	return span{at, at, w.at(time.Now())}
}

// listNext offers the seller's next item. When none is left it first mints a
// batch, which is not measured.
func (w *worker) listNext(ctx context.Context) error {
	if w.next >= w.last {
		if err := w.mint(ctx, w.supply); err != nil {
			return err
		}
	}
	w.next++
	return w.list(ctx, w.next-1)
}

// list offers an item. It sets underway, as purchase does, but not noting: what is noted are
// purchases alone.
func (w *worker) list(ctx context.Context, item market.ItemID) error {
	l := market.Listing{Item: item, Seller: w.account, Price: w.price()}
	start := time.Now()
	at := w.at(start)
	w.underway.Store(at)
	receipt, err := w.purchaser.List(ctx, l)
	end := time.Now()

	w.history.Listed(start, end, l, err)
	w.ledger.Listed(l, err)
	w.tally.listed(span{at, at, w.at(end)}, receipt, err)
	w.underway.Store(idle)
	if fatal(err) {
		return fmt.Errorf("list item %d: %w", l.Item, err)
	}
	return err
}

func (w *worker) price() int64 { return minPrice + w.random.Int64N(maxPrice-minPrice+1) }

// mint makes a batch for the worker to list. The batch before must have been listed: it is
// forgotten.
func (w *worker) mint(ctx context.Context, from supply) error {
	start := time.Now()
	first, err := from.mint(ctx, w.account)
	w.history.Minted(start, time.Now(), first, w.account, err)
	w.ledger.Minted(first, w.account, err)
	if err == nil {
		w.next, w.last = first, first+market.BatchSize
	}
	return err
}

// browse returns some listings as orders, in random order. It is not measured. The slice
// is good until the next call.
func (w *worker) browse(ctx context.Context) (_ []market.Order, err error) {
	w.orders, err = w.supply.browse(ctx, w.orders[:0], w.account)
	if err != nil {
		return nil, err
	}
	w.random.Shuffle(len(w.orders), func(i, j int) { w.orders[i], w.orders[j] = w.orders[j], w.orders[i] })
	return w.orders, nil
}

func (w *worker) purchase(ctx context.Context, o market.Order) error {
	start := time.Now()
	w.underway.Store(w.at(start))
	err := w.order(ctx, o, start, start)
	w.underway.Store(idle)
	return err
}

// endsAt is when a purchase ended, which the worker notes from now on. It says so before it
// reads the time: see settle.
func (w *worker) endsAt(now func() time.Time) time.Time {
	w.noting.Store(true)
	return now()
}

// order makes a purchase that was asked for before it starts, or at that moment. Whoever calls
// it has set underway. What it returns is the Purchaser's error, with more words if that is
// fatal.
func (w *worker) order(ctx context.Context, o market.Order, asked, start time.Time) error {
	before := w.traffic()
	receipt, err := w.purchaser.Purchase(ctx, o)
	end := w.endsAt(time.Now)
	w.history.Purchased(start, end, o, err)
	w.ledger.Purchased(o, err)
	w.tally.ordered(span{w.at(asked), w.at(start), w.at(end)}, w.traffic().sub(before), receipt, err)
	w.noting.Store(false)
	if fatal(err) {
		return fmt.Errorf("purchase item %d: %w", o.Item, err)
	}
	return err
}

// fatal reports whether an operation failed because of the environment. A row that went
// on would measure the failure.
func fatal(err error) bool {
	return err != nil && (!market.Refused(err) || errors.Is(err, market.ErrRejected) || errors.Is(err, market.ErrNotSent))
}

// openSteps makes the observer of the worker's steps; nil: nobody observes them. If operations
// are held, it also opens w.work, which close closes.
func (w *worker) openSteps() step.Observer {
	var steps step.Observer
	if w.market.steps != nil {
		steps = w.market.steps(w.role)
	}
	if w.market.point.HoldMS == 0 {
		return steps
	}
	w.work = &otherWork{lasts: hold(w.market.point), alarm: redisconn.NewAlarm(), steps: steps}
	return w.work.observe
}

// otherWork takes time, no core and no memory between an operation's reads and its
// write, as a remote call does.
type otherWork struct {
	lasts time.Duration
	alarm redisconn.Alarm
	steps step.Observer // may be nil
}

func (o *otherWork) observe(ctx context.Context, at step.Name) {
	if at == step.BeforeWrite {
		until := time.Now().Add(o.lasts)
		// Sleep may return early.
		for left := o.lasts; left > 0 && ctx.Err() == nil; left = time.Until(until) {
			o.alarm.Sleep(left, ctx.Done())
		}
	}
	o.steps.At(ctx, at)
}
