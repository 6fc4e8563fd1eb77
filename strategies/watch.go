package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// watch is optimistic locking: WATCH what is read, and EXEC the writes only if nothing of it has changed; if it
// has, again. A purchase watches the whole market and the buyer, so every listing and every purchase by anyone aborts
// it: it is correct, and slow in a busy market. A listing watches only the seller's inventory.
//
// Source: Redis in Action, sections 4.4.2 and 4.4.3, list_item and purchase_item.
func watch() Strategy {
	purchaseTimeout := param.Duration("timeout", 10*time.Second, 0, "how long a purchase tries again after aborts")
	listTimeout := param.Duration("list-timeout", 5*time.Second, 0, "how long a listing tries again after aborts")
	return Strategy{
		Name:    "watch",
		Summary: "optimistic locking: WATCH market and buyer, MULTI, EXEC, again after an abort",
		Source:  "Redis in Action, section 4.4",
		Params:  []param.Param{purchaseTimeout, listTimeout},
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return &watcher{
				rdb: env.Redis, keys: env.Keys, steps: env.Steps,
				purchaseTimeout: env.Params.Duration(purchaseTimeout), listTimeout: env.Params.Duration(listTimeout),
			}, nil, nil
		},
	}
}

type watcher struct {
	rdb                          *redis.Client
	keys                         market.Keys
	steps                        step.Observer
	purchaseTimeout, listTimeout time.Duration
}

// List implements market.Purchaser.
func (w *watcher) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	inventory := w.keys.Inventory(l.Seller)
	return w.again(w.listTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			owned, err := tx.SIsMember(ctx, inventory, int64(l.Item)).Result()
			if err == nil && !owned {
				err = market.ErrNotOwned
			}
			return err
		}, func(p redis.Pipeliner) { queueListing(ctx, p, w.keys, l) }, inventory)
	})
}

// Purchase implements market.Purchaser.
func (w *watcher) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	buyer := w.keys.User(o.Buyer)
	return w.again(w.purchaseTimeout, func() error {
		return w.optimistically(ctx, func(tx *redis.Tx) error {
			price, priceErr := tx.ZScore(ctx, w.keys.Market(), market.Member(o.Item, o.Seller)).Result()
			funds, fundsErr := tx.HGet(ctx, buyer, "funds").Int64()
			return judge(o, price, priceErr, funds, fundsErr)
		}, func(p redis.Pipeliner) { queuePurchase(ctx, p, w.keys, o) }, w.keys.Market(), buyer)
	})
}

// again repeats a transaction that is aborted, until the time-out has passed.
func (*watcher) again(timeout time.Duration, transaction func() error) (r market.Receipt, err error) {
	for deadline := time.Now().Add(timeout); ; {
		err := transaction()
		if !errors.Is(err, redis.TxFailedErr) {
			return r, err
		}
		r.Retries++
		if !time.Now().Before(deadline) {
			return r, fmt.Errorf("%w: aborted %d times in %s", market.ErrContended, r.Retries, timeout)
		}
	}
}

// optimistically watches keys, reads and decides, and executes the writes if nothing watched has changed.
func (w *watcher) optimistically(ctx context.Context, read func(*redis.Tx) error, write func(redis.Pipeliner),
	keys ...string,
) error {
	sent := false
	err := w.rdb.Watch(ctx, func(tx *redis.Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		w.steps.At(ctx, step.Read)
		w.steps.At(ctx, step.BeforeWrite)
		sent = true
		if err := exec(ctx, tx.TxPipelined, func(p redis.Pipeliner) error { write(p); return nil }); err != nil {
			return err
		}
		w.steps.At(ctx, step.Written)
		return nil
	}, keys...)
	if !sent {
		return beforeWrite(err)
	}
	return err
}
