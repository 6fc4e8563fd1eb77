package strategies

import (
	"context"
	"io"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// watchItem is optimistic locking on a version of each item, in place of the whole market: WATCH the item's version and
// the buyer's account, read, and count the version up with the writes. Only another operation on the same item, or on
// the same account, aborts it. It is to watch what fine is to coarse, and protects items and accounts.
//
// What breaks it: whoever writes an item without counting up its version, such as another strategy. Each item that was
// ever listed leaves a key at the market for the market's lifetime.
//
// Source: Redis in Action, section 4.4, with the granularity of section 6.2.4; versions as in "optimistic concurrency
// control", H. T. Kung and J. T. Robinson, 1981.
func watchItem() Strategy {
	return Strategy{
		Name:     "watch-item",
		Summary:  "optimistic locking on a version an item and the buyer's account, in place of the market",
		Source:   "Redis in Action, section 4.4, at the granularity of 6.2.4",
		Protects: Protection{Items: true, Accounts: true},
		Params:   repeaterParams(),
		Check:    func(s Spec, _ Catalogue) error { return checkRepeats(s.params) },
		Keys: func(keys market.Keys, made market.Made) iter.Seq[string] {
			return func(yield func(string) bool) {
				for id := market.ItemID(1); id <= made.Items; id++ {
					if !yield(keys.Version(id)) {
						return
					}
				}
			}
		},
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			again, err := newRepeater(env)
			return &itemWatcher{again, env.Keys}, nil, err
		},
	}
}

type itemWatcher struct {
	repeater
	keys market.Keys
}

// List implements market.Purchaser.
func (w *itemWatcher) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	version := w.keys.Version(l.Item)
	return w.again(ctx, w.listTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			return readListing(ctx, tx, w.keys, l)
		}, func(p redis.Pipeliner) {
			p.Incr(ctx, version)
			queueListing(ctx, p, w.keys, l)
		}, version)
	})
}

// Purchase implements market.Purchaser.
func (w *itemWatcher) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	version := w.keys.Version(o.Item)
	return w.again(ctx, w.purchaseTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			return readOrder(ctx, tx, w.keys, o)
		}, func(p redis.Pipeliner) {
			p.Incr(ctx, version)
			queuePurchase(ctx, p, w.keys, o)
		}, version, w.keys.User(o.Buyer))
	})
}
