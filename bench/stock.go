package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// MaxStock is the largest number of items that are listed before a row begins: with their ledgers and the audit of them this
// process takes 130 MB, as measured. What is traded takes 25 bytes a purchase more.
const MaxStock = 1_000_000

// checkStock returns ErrConfig, wrapped, for a stock that cannot be listed, or not with the rest of the configuration.
func (c Config) checkStock() error {
	switch {
	case c.Stock < 0 || c.Stock > MaxStock:
		return fmt.Errorf("%w: a stock of %d items: want 0 to %d", ErrConfig, c.Stock, MaxStock)
	case c.Stock != 0 && c.Hot != 0:
		return fmt.Errorf("%w: %d hot items and a stock of %d: what circulates is all that there is", ErrConfig, c.Hot, c.Stock)
	}
	return nil
}

// share is how many of so many items the i-th of so many owners has, from 0.
func share(items, owners, i int) int {
	each := items / owners
	if i < items%owners {
		each++
	}
	return each
}

// stock makes the items with which each market of a row begins, and lists them, many at once: those of a stock for the
// sellers, and those that circulate for the buyers. None of it is measured, and neither the strategy nor a delay has a part
// in it: a million items would take a strategy longer than the row.
func (ws *Workers) stock(ctx context.Context) error {
	for _, m := range ws.markets {
		owners, items := m.among(ws.sellers), m.Stock
		if m.Hot > 0 {
			owners, items = m.among(ws.buyers)[:m.hotOwners()], m.Hot
		}
		if items == 0 {
			continue
		}
		ws.collector.from.Store(never)
		if err := m.stockUp(ctx, owners, items); err != nil {
			return err
		}
	}
	return nil
}

// stockUp lists so many items, divided among their owners.
func (m *rowMarket) stockUp(ctx context.Context, owners []*Worker, items int) error {
	conn, err := m.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i, w := range owners {
		for left := share(items, len(owners), i); left > 0; left -= market.BatchSize {
			if err := w.mintFrom(ctx, redisSupply{rdb: conn.Client, keys: m.Keys}); err != nil {
				return err
			}
			if err := w.listMany(ctx, conn.Client, min(left, market.BatchSize)); err != nil {
				return fmt.Errorf("list %d items of user %d: %w", min(left, market.BatchSize), w.account, err)
			}
		}
	}
	return nil
}

// listMany lists so many of the worker's next items.
func (w *Worker) listMany(ctx context.Context, rdb *redis.Client, count int) error {
	listings := make([]market.Listing, count)
	offers, items := make([]redis.Z, count), make([]any, count)
	for i := range listings {
		l := market.Listing{Item: w.next, Seller: w.account, Price: w.price()}
		w.next++
		listings[i], items[i] = l, int64(l.Item)
		offers[i] = redis.Z{Score: float64(l.Price), Member: market.Member(l.Item, l.Seller)}
	}
	start := time.Now()
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SRem(ctx, w.market.Keys.Inventory(w.account), items...)
		p.ZAdd(ctx, w.market.Keys.Market(), offers...)
		return nil
	})
	end := time.Now()
	for _, l := range listings {
		w.recorder.listed(start, end, l, market.Receipt{}, err)
	}
	return err
}
