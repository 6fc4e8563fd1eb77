package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/marketsim/marketsim/market"
)

const pause = time.Millisecond // how long a buyer waits when nothing is listed

// sell lists items until the row stops. In an open loop it pauses while enough are listed.
func (m *measurement) sell(ctx context.Context, w *worker) {
	for !m.window.stopped.Load() {
		if m.open != nil && w.market.missing.Load() <= 0 {
			time.Sleep(m.open.sellersPause)
			continue
		}
		err := w.listNext(ctx)
		if err == nil && m.open != nil {
			w.market.missing.Add(-1)
		}
		m.check(ctx, err)
	}
}

// check stops the row at a fatal error. After ctx, that of the operations, has ended, errors
// are no failure: the row itself has cut them.
func (m *measurement) check(ctx context.Context, err error) {
	if fatal(err) && ctx.Err() == nil {
		m.window.fail(err)
	}
}

// buy buys until the load ends, or until the buyer has no coins and gets none: with hot items
// it lists what it has bought, and so is paid again.
func (m *measurement) buy(ctx context.Context, w *worker) {
	// All that a buyer does while it is there is noted as busy time, by what this calls (ordered,
	// listed, spends): warn compares the two, see result.TimesOff.
	began := time.Now()
	defer func() {
		there := w.since(began)
		w.tally.present += m.window.clip(there.start, there.end)
	}()

	for !m.window.stopped.Load() {
		short := false
		for _, o := range m.listings(ctx, w) {
			if m.window.stopped.Load() {
				return
			}
			err := w.purchase(ctx, o)
			m.check(ctx, err)
			if err == nil && m.point.Hot > 0 {
				m.relist(ctx, w, o.Item)
			}
			short = short || errors.Is(err, market.ErrInsufficientFunds)
		}

		// One order may have been too dear: a buyer leaves when it cannot pay the lowest price.
		if short && m.point.Hot == 0 && m.broke(ctx, w) {
			return
		}
	}
}

// listings are some of those on the market. If there are none it first waits a little, or
// in a hot market for the bell.
func (m *measurement) listings(ctx context.Context, w *worker) []market.Order {
	defer w.spends(time.Now())
	// Before browsing and the look at stopped: whatever rings after it ends the wait at once.
	heard := w.market.relisted.times.Load()
	orders, err := w.browse(ctx)
	switch {
	case err != nil:
		m.check(ctx, err)
	case len(orders) > 0:
	case m.point.Hot > 0 && !m.window.stopped.Load(): // after the last ring nobody rings
		w.market.relisted.await(heard)
	default:
		time.Sleep(pause)
	}
	return orders
}

func (w *worker) spends(start time.Time) { w.tally.spent(w.since(start)) }

// broke reports whether the account cannot pay the lowest price. That changes only in a
// hot market, where buyers earn.
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

// relist lists an item that a buyer of a hot market bought. It tries until the
// item is listed or no longer the buyer's, because an item that stays unlisted
// never circulates again.
func (m *measurement) relist(ctx context.Context, w *worker, item market.ItemID) {
	for !m.window.stopped.Load() {
		err := w.list(ctx, item)
		m.check(ctx, err)
		if err == nil {
			w.market.relisted.ring()
		}
		if err == nil || errors.Is(err, market.ErrNotOwned) || fatal(err) {
			return
		}
	}
}

// A bell wakes workers of a hot market that found nothing listed. Looking again and
// again would keep the server busy.
type bell struct {
	times atomic.Int64 // that it has rung; listings reads it without the lock
	*sync.Cond
}

func (b *bell) ring() {
	b.L.Lock()
	defer b.L.Unlock()
	b.times.Add(1)
	b.Broadcast()
}

func (b *bell) await(heard int64) {
	b.L.Lock()
	defer b.L.Unlock()
	for b.times.Load() == heard {
		b.Wait()
	}
}
