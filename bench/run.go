package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

// failedGrace is how long an operation in flight may go on after the environment failed: a worker that waits for a lock
// then waits in vain.
const failedGrace = time.Second

// Run measures one row: it seeds a market under c.Keys, loads it, audits it and removes it. When ctx ends, the
// operations in flight are finished and the row is audited and removed all the same; its status is then Interrupted.
//
// An error means that the environment failed or, wrapping ErrConfig, that c cannot be run. The row then holds what
// was measured until the failure, with status Incomplete, audited if that was possible. A violation found by the
// audit is not an error: it is in the row.
func Run(ctx context.Context, c Config) (result.Row, error) {
	return driveRow(ctx, c, func(ctx context.Context, workers *Workers) (result.Row, error) {
		m := newMeasurement(workers)
		m.work(ctx)
		err := workers.markets[0].unserved(m.failure())
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
		return row, errors.Join(err, auditErr)
	})
}

// A loading lets the workers of a row trade, closes them, and returns the row with its audit. They are connected.
type loading func(context.Context, *Workers) (result.Row, error)

// driveRow does all of a row but its load: it seeds the market, connects the workers, calls load, ends the history and
// removes the market. The errors and the row are those of Run.
func driveRow(ctx context.Context, c Config, load loading) (row result.Row, err error) {
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

func drive(ctx context.Context, c Config, load loading) (row result.Row, err error) {
	workers := newWorkers(c)
	defer func() {
		if !c.Keep || errors.Is(err, ErrKeysLost) { // half a market, perhaps without its note, is of no use to anybody
			err = errors.Join(err, workers.remove(context.WithoutCancel(ctx)))
		}
	}()
	if err = workers.markets[0].unserved(workers.open(ctx)); err != nil { // nothing was measured
		row = workers.Row(result.Incomplete, 0)
		if ctx.Err() != nil {
			row.Status, err = result.Interrupted, nil
		}
		return row, err
	}
	defer workers.collector.run()()
	row, err = load(ctx, workers)
	for _, m := range workers.markets {
		row.Warnings = append(row.Warnings, m.warns...)
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

	started time.Time // when they began
	from    time.Time // end of the warm-up

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
	if m.Purchases == 0 {
		m.collector.keepCourse(m.Duration)
	}
	m.started = time.Now()
	m.from = m.started.Add(m.Warmup)
	m.collector.begin(m.from)

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
		m.warmUp()
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

// warmUp returns when the measured time begins, or when the row is stopped before that.
func (m *measurement) warmUp() {
	select {
	case <-time.After(time.Until(m.from)):
	case <-m.stop.done:
		if m.from.After(m.stop.at) {
			m.from = m.stop.at // nothing is measured
		}
	}
}

// addBlocked adds how often workers found that the collector had not kept up. They then did its work between two
// operations, which nothing measures but throughput.
func (m *measurement) addBlocked(r *result.Row) {
	var n int64
	for _, w := range m.All() {
		n += w.recorder.blocked
	}
	if n == 0 {
		return
	}
	if r.Client == nil {
		r.Client = &result.Client{}
	}
	r.Client.RecorderWaits = n
	r.Warnings = append(r.Warnings, fmt.Sprintf("workers had to wait %d times until their times were recorded: this process "+
		"did not keep up", n))
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
	r.Series = m.collector.series(m.stop.at.Sub(m.from))
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
