// Package load loads a market with sellers and buyers, and measures one row: [Measure] a
// result.Point under [Options]. It is what drives package bench, whose comment says what is
// counted when, and the command.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/stored"
)

const (
	// failedGrace is how long operations may go on after the environment failed: a lock
	// may never be released any more.
	failedGrace = time.Second
	endLooks    = time.Millisecond // how often a row looks whether its loaded end is over
)

// Measure measures one row: it seeds a market, loads it, audits it and removes it. When ctx
// ends, the operations in flight are finished and the row is audited and removed all the
// same; its status is then Interrupted.
//
// An error means that the environment failed: the row holds what was measured until then,
// Incomplete, and audited if that was possible. A *PointError means that p cannot be
// measured: the row is empty. A violation is no error.
func Measure(ctx context.Context, p result.Point, o Options) (result.Row, error) {
	if err := o.Validate(p); err != nil {
		return result.Row{}, fmt.Errorf("row %s: %w", p.Name(), err)
	}

	m := newMeasurement(p, o)
	row, err := m.drive(ctx, func() error {
		m.work(ctx)
		return m.markets[0].explain(m.window.failure) // which may be that its keys are gone
	})
	row.Trial = max(o.Trial, 1)
	if err != nil {
		row.Status = stored.Incomplete
		err = fmt.Errorf("row %s: %w", p.Name(), err)
	}
	return row, err
}

// drive is the whole life of a row: its markets are seeded, loaded by load, audited and
// removed. When load returns, no worker may be making an operation. If ctx ends while the row
// is prepared, it is empty and Interrupted, which is no error.
func (m *measurement) drive(ctx context.Context, load func() error) (row result.Row, err error) {
	// The audit and the removal come after an interrupt, too.
	lasting := context.WithoutCancel(ctx)
	defer func() {
		// half a market, perhaps without its note, is no use to anybody
		if !m.Keep || errors.Is(err, ErrKeysLost) {
			if left := m.remove(lasting); left != nil {
				row.Warn(result.KeysStay, 0, left.Error())
				err = errors.Join(err, left)
			}
		}
	}()

	err = m.markets[0].explain(m.prepare(ctx))
	if err != nil { // nothing was measured; stop comes first, because row reads the status
		if ctx.Err() != nil {
			m.window.stop(stored.Interrupted)
			return m.row(), nil
		}
		m.window.stop(stored.Incomplete)
		return m.row(), err
	}

	loading := load()
	closing := m.close()           // also after a load that failed; the audit follows
	err = cmp.Or(loading, closing) // the first failure explains the other
	row = m.row()

	if cluster := m.markets[0].cluster; cluster != nil {
		// A market may have another master by now; if nobody says so, the audit fails.
		_ = cluster.Refresh(lasting)
	}
	if !errors.Is(err, ErrKeysLost) {
		var auditing error
		row.Audit, auditing = m.audit(lasting, &row)
		err = errors.Join(err, auditing)
	}

	if errors.Is(err, ErrKeysLost) { // an audit or a history would blame the strategy
		return row, errors.Join(err, m.history.Abandon())
	}
	return row, errors.Join(err, m.markets[0].finishHistory(lasting, m.history))
}

// A measurement is one row while it is measured: its markets, its workers, and
// what they share.
type measurement struct {
	Options
	point           result.Point
	markets         []*rowMarket // one or more
	sellers, buyers []*worker
	history         *history.Writer

	window *window
	open   *openLoop // nil: the loop is closed
	cut    int64     // operations that began in the window and had not ended when the load did

	meters      []*meter // of the servers on which markets lie, each once
	first, last reading  // at the two ends of the window
}

// newMeasurement makes a row. Its workers are not connected yet, and no market is open.
func newMeasurement(p result.Point, o Options) *measurement {
	m := &measurement{
		Options: o,
		point:   p,
		markets: newMarkets(p, o),
		window:  newWindow(),
		open:    newOpenLoop(p, o),
	}

	// Each worker draws from a stream of its own, the same in every run with this seed. The place,
	// which chooses it, is how many workers were made before: all sellers first.
	newOf := func(r role, number int) *worker {
		in := m.markets[number%len(m.markets)]
		who := identity{
			role:    r,
			number:  number,
			place:   len(m.all()),
			account: account(in.point, r, number/len(m.markets)), // numbered within its market
		}
		return newWorker(in, m.window, who, rand.New(rand.NewPCG(o.Seed, uint64(who.place))))
	}
	for i := range p.Mix.Sellers {
		m.sellers = append(m.sellers, newOf(seller, i))
	}
	for i := range p.Mix.Buyers {
		m.buyers = append(m.buyers, newOf(buyer, i))
	}
	return m
}

func (m *measurement) all() []*worker { return slices.Concat(m.sellers, m.buyers) }

// in are the workers of a market.
func (m *measurement) in(market *rowMarket) []*worker {
	return slices.DeleteFunc(m.all(), func(w *worker) bool { return w.market != market })
}

// prepare seeds and stocks the markets, and connects the workers. On an error nothing
// stays open, but keys may stay.
func (m *measurement) prepare(ctx context.Context) (err error) {
	for _, in := range m.markets { // the first one first: its note says where the others are
		in.ours, err = in.seed(ctx)
		if err != nil {
			return err
		}
	}

	// Validate allows a history for one market only.
	m.history, err = m.markets[0].createHistory()
	if err != nil {
		return err
	}

	err = m.stockAndConnect(ctx)
	if err != nil {
		err = errors.Join(err, m.close(), m.history.Abandon())
	}
	return err
}

// stockAndConnect gives the workers their recorders, stocks the markets and connects the
// workers. The order matters: what the markets are stocked with is part of the history, and a
// worker that connects tells its recorder which locks it holds.
func (m *measurement) stockAndConnect(ctx context.Context) (err error) {
	workers := m.all()

	for _, w := range workers {
		w.history, err = m.history.Worker()
		if err != nil {
			return err
		}
	}
	for _, in := range m.markets {
		if err := in.stockUp(ctx, m.in(in)); err != nil {
			return err
		}
	}

	for _, w := range workers {
		if err := w.connect(ctx); err != nil {
			return fmt.Errorf("connect %s %d: %w", w.role, w.number+1, err)
		}
	}

	// Programs (package program) start side by side, and only then is each waited for.
	for _, w := range workers {
		program, is := w.purchaser.(interface{ Ready(context.Context) error })
		if !is {
			continue
		}
		if err := program.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close closes the workers, and only then what their locks share.
func (m *measurement) close() (err error) {
	for _, w := range m.all() {
		err = errors.Join(err, w.close())
	}
	for _, in := range m.markets {
		err = errors.Join(err, in.process.Close())
	}
	return err
}

// work loads the row: warm-up, measured time, loaded end, and an end without
// load, in which every worker ends.
func (m *measurement) work(ctx context.Context) {
	// An operation outlives an interrupt, so that it can end well, but not its limit.
	operations, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	m.openMeters(ctx)
	defer m.closeMeters()

	m.first = m.read()
	m.window.begin(m.Warmup, m.Duration)
	defer context.AfterFunc(ctx, func() { m.window.stop(stored.Interrupted) })()

	var everybody, buyers sync.WaitGroup
	for _, w := range m.all() {
		switch {
		case w.role == seller:
			everybody.Go(func() { m.sell(operations, w) })
		case m.open != nil:
			buyers.Go(func() { m.serve(operations, w) })
		default:
			buyers.Go(func() { m.buy(operations, w) })
		}
	}
	for _, in := range m.markets {
		if in.server != nil && in.server.conn != nil {
			everybody.Go(func() { m.guard(operations, in) })
		}
	}
	if m.Progress != nil {
		everybody.Go(m.tell)
	}
	// Buyers end early when their coins are gone. everybody includes them, because this waits for
	// them.
	everybody.Go(func() {
		buyers.Wait()
		m.window.stop(stored.Complete)
	})

	m.watch()

	// Operations that are under way may end by themselves; at the limit their context ends.
	limit := m.limit(m.point)
	if m.window.status == stored.Incomplete { // watch has stopped it: it does not change any more
		limit = failedGrace
	}
	defer time.AfterFunc(limit, cancel).Stop()
	everybody.Wait()
}

// watch reads what is used at the two ends of the measured time, and returns
// when the load has ended and the window is stopped.
func (m *measurement) watch() {
	defer time.AfterFunc(time.Until(m.window.from)+m.Duration, m.window.end).Stop()
	if m.Warmup > 0 { // otherwise what work read before the workers began will do
		select {
		case <-time.After(m.Warmup):
			m.first = m.read()
		case <-m.window.over:
		}
	}

	<-m.window.over
	m.last = m.read()

	// The loaded end: until the operations of the measured time have ended, or the limit.
	limit := time.Now().Add(m.limit(m.point))
	if m.open != nil {
		limit = limit.Add(patience)
	}
	m.cut = m.underway()
	for m.cut > 0 && !m.window.stopped.Load() && !time.Now().After(limit) {
		time.Sleep(endLooks)
		m.cut = m.underway()
	}
	m.window.stop(stored.Complete)
	for _, in := range m.markets {
		in.relisted.ring() // after the stop: a buyer that has not seen that waits for it
	}
}

// underway counts operations that began in the window and have not ended, and
// orders due in it that still wait.
func (m *measurement) underway() (n int64) {
	// The schedule comes first. A buyer says that it is under way before it takes an order, so that
	// one which is taken meanwhile is counted twice, and never missed.
	if m.open != nil {
		n = m.open.schedule.untaken(m.Warmup, m.Warmup+time.Duration(m.window.until.Load()))
	}
	for _, w := range m.all() {
		if m.window.holds(w.underway.Load()) {
			n++
		}
	}
	return n
}
