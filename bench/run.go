package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

const (
	// failedGrace is how long an operation in flight may go on after the environment failed: a worker that waits for a lock
	// then waits in vain.
	failedGrace = time.Second
	// idle is how long a buyer waits for listings where there are none. It is not measured.
	idle = time.Millisecond
)

// Run measures one row: it seeds a market under c.Keys, loads it, audits it and removes it. When ctx ends, the
// operations in flight are finished and the row is audited and removed all the same; its status is then Interrupted.
//
// An error means that the environment failed or, wrapping ErrConfig, that c cannot be run. The row then holds what
// was measured until the failure, with status Incomplete, audited if that was possible. A violation found by the
// audit is not an error: it is in the row.
func Run(ctx context.Context, c Config) (result.Row, error) {
	return Drive(ctx, c, func(ctx context.Context, workers *Workers) (result.Row, error) {
		m := newMeasurement(workers)
		m.work(ctx)
		err := m.failure()
		closing := workers.Close()
		if err == nil {
			err = closing // the first failure explains this one
		}
		row := m.row()
		if err == nil {
			warnOfNothing(&row)
		}
		var auditErr error
		row.Audit, auditErr = workers.Audit(context.WithoutCancel(ctx))
		return row, errors.Join(auditErr, err)
	})
}

// A Load lets the workers of a row trade, closes them, and returns the row with its audit. They are connected.
type Load func(context.Context, *Workers) (result.Row, error)

// Drive does all of a row but its load, for Run and for drivers elsewhere: it seeds the market, connects the workers,
// calls load, ends the history and removes the market. The errors and the row are those of Run.
func Drive(ctx context.Context, c Config, load Load) (row result.Row, err error) {
	if err := c.validate(); err != nil {
		return result.Row{}, err
	}
	row, err = drive(ctx, c, load)
	if err != nil {
		row.Status = result.Incomplete
		err = fmt.Errorf("row %s: %w", c.Name(), err)
	}
	return row, err
}

func drive(ctx context.Context, c Config, load Load) (row result.Row, err error) {
	workers := newWorkers(c)
	defer func() {
		if !c.Keep || errors.Is(err, ErrKeysLost) { // half a market, perhaps without its note, is of no use to anybody
			err = errors.Join(err, workers.remove(context.WithoutCancel(ctx)))
		}
	}()
	if err = workers.seed(ctx); err == nil {
		err = workers.connect(ctx)
	}
	if err == nil {
		if err = workers.stock(ctx); err != nil {
			err = errors.Join(err, workers.Close(), workers.history.Abandon())
		}
	}
	if err != nil { // nothing was measured
		row = workers.Row(result.Incomplete, 0)
		if ctx.Err() != nil {
			row.Status, err = result.Interrupted, nil
		}
		return row, err
	}
	defer workers.collector.run()()
	row, err = load(ctx, workers)
	for _, m := range workers.markets {
		if m.warning != "" {
			row.Warnings = append(row.Warnings, m.warning)
		}
	}
	if errors.Is(err, ErrKeysLost) { // a history would blame the strategy
		return row, errors.Join(err, workers.history.Abandon())
	}
	return row, errors.Join(err, workers.markets[0].finishHistory(context.WithoutCancel(ctx), workers.history))
}

// measurement is a row while it is measured.
type measurement struct {
	*Workers
	stop  *stop
	quota *quota
	open  *openLoop // nil: the loop is closed

	begins   time.Time // when the workers are to begin; zero: at once
	started  time.Time // when they began
	from     time.Time // end of the warm-up; zero: not known yet
	unsteady string    // what was not steady then, if anything

	nodes   []*node
	warmed  observed // at the end of the warm-up
	stopped observed // at the end of the row
	silence silence
}

func newMeasurement(workers *Workers) *measurement {
	return &measurement{
		Workers: workers, stop: newStop(), quota: newQuota(workers.Purchases), open: newOpenLoop(workers.Config),
	}
}

// known is how long the row is to be; 0: until so many purchases are made.
func (m *measurement) known() time.Duration {
	if m.Purchases > 0 {
		return 0
	}
	return m.Duration
}

// work runs the row: warm-up, measurement, drain. It returns when every worker has ended.
func (m *measurement) work(ctx context.Context) {
	// Operations outlive the user's wish to stop, so that the one in flight can end well, but not the grace.
	operations, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { m.stop.set(result.Interrupted, nil) })()
	if m.open != nil {
		m.stockUp(operations)
	}
	m.nodes = m.openNodes(ctx)
	defer func() {
		for _, n := range m.nodes {
			n.close()
		}
	}()
	m.warmed = m.observe()
	m.collector.series = newSeries(m.known())
	m.started = m.awaitBegin()
	m.collector.from.Store(never)
	if m.LongestWarmup() == m.Warmup {
		m.begin(m.started.Add(m.Warmup))
	}

	var everybody, buyers sync.WaitGroup
	if m.open != nil {
		m.open.begin(m)
		for _, in := range m.markets {
			everybody.Go(func() { in.stock.watch(m.stop.done) })
		}
	}
	everybody.Go(func() {
		<-m.stop.done
		for _, in := range m.markets {
			in.relisted.ring() // nobody waits any more
		}
	})
	for _, w := range m.All() {
		if w.role == Buyer {
			buyers.Add(1)
		}
		everybody.Go(func() {
			switch w.role {
			case Seller:
				m.sell(operations, w)
			case Buyer:
				defer buyers.Done()
				if m.open != nil {
					m.open.buyers[w.number].run(operations)
				} else {
					m.buy(operations, w)
				}
			case Browser:
				m.browse(operations, w)
			}
		})
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.warmUp(operations)
		m.watch()
	}()
	go func() { // buyers end before their time when the quota is used up or their coins are gone
		buyers.Wait()
		m.stop.set(result.Complete, nil)
	}()
	<-watching
	limit := m.grace()
	if m.stop.status == result.Incomplete {
		limit = failedGrace
	}
	defer time.AfterFunc(limit, cancel).Stop()
	everybody.Wait()
}

// awaitBegin returns when the workers are to begin, and the time at which they should have begun.
func (m *measurement) awaitBegin() time.Time {
	if m.begins.IsZero() {
		return time.Now()
	}
	select {
	case <-time.After(time.Until(m.begins)):
	case <-m.stop.done:
	}
	return m.begins
}

// sell lists items until the row stops; in an open loop, as long as there are too few.
func (m *measurement) sell(ctx context.Context, w *Worker) {
	for !m.stop.asked.Load() {
		if m.open != nil && w.market.stock.enough() {
			time.Sleep(m.open.sellersPause)
			continue
		}
		m.listOne(ctx, w)
	}
}

// listOne lists one item. A failure stops the row.
func (m *measurement) listOne(ctx context.Context, w *Worker) {
	err := w.List(ctx)
	if err == nil && m.open != nil {
		w.market.stock.listings.Add(1)
	}
	if err := w.fatal(ctx, err); err != nil {
		m.stop.set(result.Incomplete, err)
	}
}

// buy orders listings until the row stops, the quota is used up, or the account is empty.
func (m *measurement) buy(ctx context.Context, w *Worker) {
	for allowed := false; !m.stop.asked.Load(); {
		orders := m.listings(ctx, w)
		short := false
		for _, o := range orders {
			if m.stop.asked.Load() {
				return
			}
			if !allowed && !m.quota.take() {
				return
			}
			err := w.Purchase(ctx, o)
			if failure := w.fatal(ctx, err); failure != nil {
				m.stop.set(result.Incomplete, fmt.Errorf("purchase item %d: %w", o.Item, failure))
			}
			allowed = err != nil // what was not bought is tried again
			if err == nil && m.Hot > 0 {
				m.relist(ctx, w, o.Item)
			}
			short = short || errors.Is(err, market.ErrInsufficientFunds)
		}
		if short && m.Hot == 0 && m.broke(ctx, w) {
			if allowed {
				m.quota.giveBack()
			}
			return
		}
	}
}

// browse reads listings under a shared lock until the row stops.
func (m *measurement) browse(ctx context.Context, w *Worker) {
	for !m.stop.asked.Load() {
		for _, o := range m.listings(ctx, w) {
			if m.stop.asked.Load() {
				return
			}
			_, err := w.look(ctx, o)
			if err = w.fatal(ctx, err); err != nil {
				m.stop.set(result.Incomplete, fmt.Errorf("browse item %d: %w", o.Item, err))
			}
		}
	}
}

// listings are some of those on the market. Where there are none it waits a little, in a hot market until there are; a
// failure stops the row.
func (m *measurement) listings(ctx context.Context, w *Worker) []market.Order {
	heard := w.market.relisted.heard()
	start := time.Now()
	orders, err := w.Browse(ctx)
	end := time.Now()
	if err != nil {
		m.stop.set(result.Incomplete, err)
		return nil
	}
	counted := w.recorder.counts(start)
	if counted {
		w.spent.browsed(start, end)
	}
	if len(orders) == 0 {
		if m.Hot > 0 {
			w.market.relisted.wait(heard)
		} else {
			time.Sleep(idle)
		}
		if counted {
			w.spent.idled(end, time.Now())
		}
	}
	return orders
}

// broke reports whether the account cannot pay the lowest price. Only buyers spend, so it stays so, but in a hot market,
// where they earn as well.
func (m *measurement) broke(ctx context.Context, w *Worker) bool {
	funds, err := w.funds(ctx)
	if err != nil {
		m.stop.set(result.Incomplete, err)
		return false
	}
	w.recorder.broke = funds < minPrice
	return w.recorder.broke
}

// failure is why the row is incomplete; nil if it is not.
func (m *measurement) failure() error {
	if late := m.stop.late; late != nil && m.stop.status == result.Complete {
		return fmt.Errorf("an operation failed as the row ended: %w", late)
	}
	return m.stop.cause
}

// row is what was measured.
func (m *measurement) row() result.Row {
	r := m.Row(m.stop.status, m.stop.at.Sub(m.from))
	if r.Seconds > 0 {
		r.BackgroundPerSecond = shared(m.stopped.background.Sub(m.warmed.background), r.Seconds)
		if !m.sharing() {
			r.CommandsPerSecond = &shared(m.stopped.market.Sub(m.warmed.market), r.Seconds).Commands
		}
	}
	m.addCourse(&r)
	m.account(&r)
	m.addBlocked(&r)
	if r.Open != nil {
		m.open.report(r.Open, m.from, m.stop.at, m.stopped.withoutStock-m.warmed.withoutStock)
	}
	longest := float64(m.silence.longest.Microseconds()) / 1000
	if r.LongestSilenceMS = &longest; m.silence.longest >= silent+m.rtt() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the market's server answered nobody for %.1f s, %.1f s after the "+
			"warm-up: the waits hold that time", m.silence.longest.Seconds(), m.silence.at.Sub(m.from).Seconds()))
	}
	m.addService(&r)
	if late := m.stop.late; late != nil {
		r.Warnings = append(r.Warnings,
			fmt.Sprintf("an operation that was finished after the end of the row failed: %v", late))
	}
	return r
}

// stop ends the work of a row: when time is up, when the user says so, or when the environment failed.
type stop struct {
	asked atomic.Bool // workers look at it between two operations
	done  chan struct{}

	mu     sync.Mutex
	at     time.Time     // when it was asked for
	status result.Status // what that makes of the row
	cause  error         // why the row is incomplete
	late   error         // the first failure after that, in an operation that was finished
}

func newStop() *stop { return &stop{done: make(chan struct{})} }

// set asks the workers to stop; the first reason counts. A later failure is kept as a warning.
func (s *stop) set(status result.Status, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.Load() {
		if cause != nil && s.late == nil {
			s.late = cause
		}
		return
	}
	s.at, s.status, s.cause = time.Now(), status, cause
	s.asked.Store(true)
	close(s.done)
}

// quota bounds how many purchases are made, over all buyers. Nil bounds nothing.
type quota struct{ left atomic.Int64 }

func newQuota(n int64) *quota {
	if n == 0 {
		return nil
	}
	q := new(quota)
	q.left.Store(n)
	return q
}

// take reports whether the caller may make one more purchase. It makes that one, or gives it back.
func (q *quota) take() bool {
	if q == nil {
		return true
	}
	for {
		left := q.left.Load()
		if left <= 0 {
			return false
		}
		if q.left.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

// giveBack leaves a purchase to the others.
func (q *quota) giveBack() {
	if q != nil {
		q.left.Add(1)
	}
}
