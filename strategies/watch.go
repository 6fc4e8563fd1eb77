package strategies

import (
	"context"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// watch is optimistic locking: WATCH what is read, and EXEC the writes only if nothing of it has changed; if something
// has, start again. A purchase watches the whole market and the buyer, so every listing and every purchase by anyone
// aborts it: it is correct, and slow in a busy market. A listing watches only the seller's inventory.
//
// As the book prints it, it starts again at once. backoff=exp, full or decorrelated waits first, from base to cap.
// gate=local lets the workers of one process through one at a time, so that only other processes abort them, as JuiceFS
// does. tries=N gives up after so many aborts.
//
// Source: Redis in Action, sections 4.4.2 and 4.4.3, list_item and purchase_item. The back-offs are those of M. Brooker,
// "Exponential Backoff And Jitter", 2015.
func watch() Strategy {
	return Strategy{
		Name:     "watch",
		Summary:  "optimistic locking: WATCH market and buyer, MULTI, EXEC, again after an abort",
		Source:   "Redis in Action, section 4.4",
		Protects: Protection{Items: true, Accounts: true},
		Params:   repeaterParams(),
		Check:    func(s Spec, _ Catalogue) error { return checkRepeats(s.params) },
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			again, err := newRepeater(env)
			return &watcher{again, env.Keys}, nil, err
		},
	}
}

type watcher struct {
	repeater
	keys market.Keys
}

// List implements market.Purchaser.
func (w *watcher) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	return w.again(ctx, w.listTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			return readListing(ctx, tx, w.keys, l)
		}, func(p redis.Pipeliner) { queueListing(ctx, p, w.keys, l) }, w.keys.Inventory(l.Seller))
	})
}

// Purchase implements market.Purchaser.
func (w *watcher) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return w.again(ctx, w.purchaseTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			return readOrder(ctx, tx, w.keys, o)
		}, func(p redis.Pipeliner) { queuePurchase(ctx, p, w.keys, o) }, w.keys.Market(), w.keys.User(o.Buyer))
	})
}
