package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/results/stored"
)

// What the workers of a row do until it stops: sellers list, buyers order, browsers look.

const pause = time.Millisecond // how long a buyer waits for listings where there are none

// sell lists items until the row stops; in an open loop, as long as there are too few.
func (m *measurement) sell(ctx context.Context, w *worker) {
	for !m.window.stopped.Load() {
		if m.open != nil && w.market.stock.enough() {
			time.Sleep(m.open.sellersPause)
			continue
		}
		err := w.listNext(ctx)
		if err == nil && m.open != nil {
			w.market.stock.listings.Add(1)
		}
		m.check(ctx, err)
	}
}

// check stops the row if an operation failed because of the environment, and not because it was cut.
func (m *measurement) check(ctx context.Context, err error) {
	if fatal(err) && ctx.Err() == nil {
		m.window.fail(err)
	}
}

// buy orders listings until the row stops, the quota is used up, or the account is empty.
func (m *measurement) buy(ctx context.Context, w *worker) {
	began := time.Now()
	defer func() {
		there := w.since(began)
		w.tally.present += m.window.clip(there.start, there.end)
	}()
	for allowed := false; !m.window.stopped.Load(); {
		short := false
		for _, o := range m.listings(ctx, w) {
			if m.window.stopped.Load() {
				return
			}
			if !allowed && m.Purchases > 0 && m.quota.Add(-1) < 0 {
				m.quota.Add(1) // there is none to take
				return
			}
			err := w.purchase(ctx, o)
			m.check(ctx, err)
			allowed = err != nil // what was not bought is tried again
			if err == nil && m.point.Hot > 0 {
				m.relist(ctx, w, o.Item)
			}
			short = short || errors.Is(err, market.ErrInsufficientFunds)
		}
		if short && m.point.Hot == 0 && m.broke(ctx, w) {
			if allowed {
				m.quota.Add(1) // for the others
			}
			return
		}
	}
}

func (m *measurement) browse(ctx context.Context, w *worker) {
	for !m.window.stopped.Load() {
		for _, o := range m.listings(ctx, w) {
			if m.window.stopped.Load() {
				return
			}
			_, err := w.look(ctx, o)
			m.check(ctx, err)
		}
	}
}

// listings are some of those on the market. Where there are none it waits a little, in a hot market until there are.
func (m *measurement) listings(ctx context.Context, w *worker) []market.Order {
	defer w.spends(time.Now())
	heard := w.market.relisted.times.Load()
	orders, err := w.browse(ctx)
	switch {
	case err != nil:
		m.check(ctx, err)
	case len(orders) > 0:
	case m.point.Hot > 0 && !m.window.stopped.Load(): // or nobody would ring any more
		w.market.relisted.await(heard)
	default:
		time.Sleep(pause)
	}
	return orders
}

// spends notes that the worker did something else than operations from start until now.
func (w *worker) spends(start time.Time) { w.tally.spent(w.since(start)) }

// broke reports whether the account cannot pay the lowest price. It stays so, but in a hot market, where buyers earn.
func (m *measurement) broke(ctx context.Context, w *worker) bool {
	defer w.spends(time.Now())
	funds, err := w.supply.funds(ctx, w.account)
	if err != nil {
		m.check(ctx, err)
		return false
	}
	if funds < minPrice {
		w.tally.count[broke]++
	}
	return funds < minPrice
}

// relist lists again what a buyer of a hot market has bought, until it is listed: else it is lost to trade. It leaves
// one alone that is not its own any more, of which the audit will tell.
func (m *measurement) relist(ctx context.Context, w *worker, item market.ItemID) {
	for !m.window.stopped.Load() {
		err := w.list(ctx, item)
		m.check(ctx, err)
		if err == nil {
			w.market.relisted.ring()
		}
		if errors.Is(err, market.ErrNotOwned) && m.Purchases > 0 { // with what is left it might never come to their number
			m.window.stop(stored.Complete)
		}
		if err == nil || errors.Is(err, market.ErrNotOwned) || fatal(err) {
			return
		}
	}
}

// A bell wakes the buyers of a hot market who found nothing listed, when something is: were they to look again and
// again, they would keep the server busier than those who buy. Ringing and waiting allocate nothing.
type bell struct {
	times atomic.Int64
	*sync.Cond
}

func (b *bell) ring() {
	b.L.Lock()
	defer b.L.Unlock()
	b.times.Add(1)
	b.Broadcast()
}

// await waits until it has rung more often than was heard.
func (b *bell) await(heard int64) {
	b.L.Lock()
	defer b.L.Unlock()
	for b.times.Load() == heard {
		b.Wait()
	}
}
