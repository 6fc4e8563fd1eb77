package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/market"
)

// look reads listings under a shared lock until the brake is pulled.
func (w *worker) look(ctx context.Context) {
	browser, ok := w.purchaser.(market.Browser)
	if !ok {
		w.brake.pull(Incomplete, fmt.Errorf("%w: this strategy takes no lock that browsers could share", ErrConfig))
		return
	}
	orders := make([]market.Order, 0, browseSize)
	for !w.brake.pulled.Load() {
		var err error
		if orders, err = w.goods.browse(ctx, orders[:0], w.account); err != nil {
			w.brake.pull(Incomplete, err)
			return
		}
		if len(orders) == 0 {
			time.Sleep(idle)
			continue
		}
		w.random.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
		for _, o := range orders {
			if w.brake.pulled.Load() {
				return
			}
			start := time.Now()
			sighting, receipt, err := browser.Browse(ctx, market.Listing{Item: o.Item, Seller: o.Seller, Price: o.Price}, w.accounts)
			w.recorder.sight(start, time.Now(), sighting, receipt, err)
			if fatal(err) {
				w.brake.pull(Incomplete, fmt.Errorf("browse item %d: %w", o.Item, err))
			}
		}
	}
}
