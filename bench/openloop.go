package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/market"
)

const (
	// patience is how long an order of an open loop tries to buy something, from when it was due.
	patience = 10 * time.Second
	// enoughStock is how many listings the sellers of an open loop keep up, in all markets together, or as many as the row
	// begins with.
	enoughStock = 1_000
	// stockLooks is how many times a second the sellers together look whether listings are missing, longestPause how long
	// one of them waits at most, stockWatch how often the row looks whether there are any, and stockTimeout how long
	// sellers have for the first ones.
	stockLooks   = 2_000
	longestPause = 100 * time.Millisecond
	stockWatch   = 5 * time.Millisecond
	stockTimeout = 10 * time.Second
	// leastBrowsed is how many listings a buyer looks at in one go where so many buy that more would be gone before it
	// comes to them.
	leastBrowsed = 4
)

// An openLoop is what the workers of a row have in common whose orders fall due at times that are fixed beforehand. An
// order that finds all buyers busy waits in the schedule, and that wait is part of its latency: a loop that sends the
// next order when the last one is done leaves it out, which G. Tene calls coordinated omission ("How NOT to Measure
// Latency", 2013).
type openLoop struct {
	schedule schedule
	began    time.Time    // the schedule's zero
	buyers   []*openBuyer // as those of the row
	alarms   func() alarm.Alarm

	sellersPause time.Duration // of a seller, where there is enough stock
}

func newOpenLoop(c Config) *openLoop {
	if c.Rate == 0 {
		return nil
	}
	return &openLoop{
		schedule: schedule{arrivals: c.Arrivals, rate: c.Rate, seed: c.Seed}, alarms: alarm.New,
		sellersPause: min(longestPause, time.Duration(c.Mix.Sellers)*time.Second/stockLooks),
	}
}

// stock is how many listings of a market are up, as sellers and buyers count them. One that is bought before its seller has
// counted it makes it one too low for that moment.
type stock struct {
	wanted   int64
	listings atomic.Int64
	without  atomic.Int64 // ns in which there were none, since watch began
}

// enough reports whether sellers have nothing to do.
func (s *stock) enough() bool { return s.listings.Load() >= s.wanted }

// watch looks whether there are listings until done is closed. A look stands for the time since the last.
func (s *stock) watch(done <-chan struct{}) {
	tick := time.NewTicker(stockWatch)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case now := <-tick.C:
			if s.listings.Load() <= 0 {
				s.without.Add(int64(now.Sub(last)))
			}
			last = now
		case <-done:
			return
		}
	}
}

// stockUp lets the sellers list until there is enough, so that the first orders find something. None of it is measured.
// Sellers who are too slow get stockTimeout.
func (m *measurement) stockUp(ctx context.Context) {
	m.collector.from.Store(never)
	timeout := time.Now().Add(stockTimeout)
	var sellers sync.WaitGroup
	for _, w := range m.sellers {
		sellers.Go(func() {
			for !w.market.stock.enough() && time.Now().Before(timeout) && !m.stop.asked.Load() {
				m.listOne(ctx, w)
			}
		})
	}
	sellers.Wait()
}

// An openBuyer is a buyer of an open loop. What it counts are the orders of the row, those due in the warm-up excluded.
type openBuyer struct {
	*measurement
	worker  *Worker
	alarm   alarm.Alarm
	offers  []market.Order // listings that it has not tried yet
	due     int64          // orders that it took and that fell due
	done    int64          // those that bought something, were given up, or ended with the row's failure
	givenUp int64
	made    int64 // purchases until the row stopped
}

// begin lets the schedule of a row begin now.
func (o *openLoop) begin(m *measurement) {
	o.began = time.Now()
	for _, w := range m.buyers {
		o.buyers = append(o.buyers, &openBuyer{measurement: m, worker: w, alarm: o.alarms()})
	}
}

// run takes order after order from the schedule and makes it when it is due, until the row stops.
func (b *openBuyer) run(ctx context.Context) {
	defer b.alarm.Close()
	for !b.stop.asked.Load() {
		due := b.open.began.Add(b.open.schedule.take())
		if len(b.offers) == 0 && time.Until(due) > 0 {
			b.browse(ctx) // while there is time
		}
		awake := b.await(due)
		_, counted := b.worker.recorder.began(due)
		if counted && (awake || !due.After(b.stop.at)) {
			b.due++
		}
		switch {
		case !awake:
			return
		case !counted && b.warm(): // it has waited since the warm-up, and would be counted nowhere
			continue
		case !b.order(ctx, due, counted):
			return
		}
	}
}

// warm reports whether the warm-up has ended.
func (b *openBuyer) warm() bool {
	_, counted := b.worker.recorder.began(time.Now())
	return counted
}

// await sleeps until an order is due, and reports false if the row stops first.
func (b *openBuyer) await(due time.Time) bool {
	for {
		left := time.Until(due)
		switch {
		case b.stop.asked.Load():
			return false
		case left <= 0:
			return true
		}
		b.alarm.Sleep(left, b.stop.done)
	}
}

// order tries listing after listing until it has bought something or its patience is at an end. It reports false when the
// buyer can go on no longer: the row has stopped, or the account is empty.
func (b *openBuyer) order(ctx context.Context, due time.Time, counted bool) bool {
	taken, until := time.Now(), due.Add(patience)
	for !b.stop.asked.Load() {
		if time.Now().After(until) {
			b.finished(counted, &b.givenUp)
			return true
		}
		if len(b.offers) == 0 && !b.browse(ctx) {
			time.Sleep(idle)
			continue
		}
		o := b.offers[0]
		b.offers = b.offers[1:]
		err := b.worker.purchase(ctx, o, due, taken)
		switch {
		case err == nil:
			b.worker.market.stock.listings.Add(-1)
			if b.stop.asked.Load() {
				b.finished(counted, nil)
			} else {
				b.finished(counted, &b.made)
			}
			return true
		case Fatal(err):
			b.stop.set(result.Incomplete, fmt.Errorf("purchase item %d: %w", o.Item, err))
			b.finished(counted, nil) // also where nobody knows whether it has bought
			return false
		case errors.Is(err, market.ErrInsufficientFunds) && b.broke(ctx, b.worker):
			b.finished(counted, &b.givenUp)
			return false
		}
	}
	return false
}

// finished counts an order that is done.
func (b *openBuyer) finished(counted bool, as *int64) {
	if counted {
		b.done++
		if as != nil {
			*as++
		}
	}
}

// browse fills the buyer's offers, and reports whether there are any. A failure stops the row.
func (b *openBuyer) browse(ctx context.Context) bool {
	var err error
	if b.offers, err = b.worker.Browse(ctx); err != nil {
		b.stop.set(result.Incomplete, err)
	}
	return len(b.offers) > 0
}

// browseSize is how many listings a worker looks at in one go: in an open loop so few that most are still there when a
// buyer comes to the last, while the others buy as many each from the stock that sellers keep up.
func (c Config) browseSize() int {
	if c.Rate == 0 {
		return browseSize
	}
	return min(browseSize, max(leastBrowsed, enoughStock/4/c.Mix.Buyers))
}

// report says what became of the orders of a row.
func (o *openLoop) report(r *result.Open, from, to time.Time, withoutStock time.Duration) {
	seconds := to.Sub(from).Seconds()
	if seconds <= 0 {
		return
	}
	due, made, done := o.schedule.untaken(from.Sub(o.began), to.Sub(o.began)), int64(0), int64(0)
	for _, b := range o.buyers {
		due, made, done, r.GivenUp = due+b.due, made+b.made, done+b.done, r.GivenUp+b.givenUp
	}
	r.Offered, r.Reached, r.Backlog = float64(due)/seconds, float64(made)/seconds, due-done
	r.WithoutStockSeconds = withoutStock.Seconds()
}
