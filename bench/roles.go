package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// What the workers of a row do until it stops: sellers list, buyers order, browsers look.

// idle is how long a buyer waits for listings where there are none. It is not measured.
const idle = time.Millisecond

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
	if Fatal(err) {
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
			if Fatal(err) {
				m.stop.set(result.Incomplete, fmt.Errorf("purchase item %d: %w", o.Item, err))
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
			if _, err := w.look(ctx, o); Fatal(err) {
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
