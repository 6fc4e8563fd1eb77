package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// In a hot market, a few items circulate among the buyers, and nobody else sells: who has bought one lists it again at
// once. The fewer items there are, the more buyers want the same one.

// MaxHot is the largest number of items that circulate in a row, and LeastHotFunds what each account opens with at least:
// the accounts together then always hold enough for somebody to pay for any item.
const (
	MaxHot        = 1_000_000
	LeastHotFunds = maxPrice
)

// hotOwners is how many accounts open a hot market with items of their own.
func (c Config) hotOwners() int { return min(c.Hot, c.wallets()) }

// hotShare is how many items the i-th of them has, from 0.
func (c Config) hotShare(i int) int {
	share := c.Hot / c.hotOwners()
	if i < c.Hot%c.hotOwners() {
		share++
	}
	return share
}

// circulation is what the workers of a hot market know together; nil: the market is none. Each owner mints whole batches.
func (c Config) circulation() *market.Circulation {
	if c.Hot == 0 {
		return nil
	}
	batches := 0
	for i := range c.hotOwners() {
		batches += (c.hotShare(i) + market.BatchSize - 1) / market.BatchSize
	}
	return market.NewCirculation(market.ItemID(batches*market.BatchSize), c.opening().Accounts)
}

// stockHot gives the buyers the items that circulate, and lists them, many at once. None of it is measured, and neither
// the strategy nor a delay has a part in it: a million items would take a strategy longer than the row.
func (ws *Workers) stockHot(ctx context.Context) error {
	ws.collector.from.Store(never)
	conn, err := ws.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for i := range ws.hotOwners() {
		w, left := ws.buyers[i], ws.hotShare(i)
		for ; left > 0; left -= market.BatchSize {
			if err := w.mintFrom(ctx, redisSupply{rdb: conn.Client, keys: ws.Keys}); err != nil {
				return err
			}
			if err := w.listMany(ctx, conn.Client, min(left, market.BatchSize)); err != nil {
				return fmt.Errorf("list %d items of user %d: %w", min(left, market.BatchSize), w.account, err)
			}
		}
	}
	return nil
}

// listMany lists so many of the worker's next items, and leaves the rest of their batch where it is.
func (w *Worker) listMany(ctx context.Context, rdb *redis.Client, count int) error {
	listings := make([]market.Listing, count)
	offers, items := make([]redis.Z, count), make([]any, count)
	for i := range listings {
		l := market.Listing{Item: w.next, Seller: w.account, Price: w.price()}
		w.next++
		listings[i], items[i] = l, int64(l.Item)
		offers[i] = redis.Z{Score: float64(l.Price), Member: market.Member(l.Item, l.Seller)}
	}
	w.next = w.last
	start := time.Now()
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.SRem(ctx, w.row.Keys.Inventory(w.account), items...)
		p.ZAdd(ctx, w.row.Keys.Market(), offers...)
		return nil
	})
	end := time.Now()
	for _, l := range listings {
		w.recorder.listed(start, end, l, market.Receipt{}, err)
	}
	return err
}

// relist lists again what a buyer of a hot market has bought. Where it gives up under contention, or its lock is lost, it
// tries again: an item that is not listed is lost to trade. It leaves one alone that is not its own any more, of which
// the audit will tell, and does not begin when the row has stopped.
func (m *measurement) relist(ctx context.Context, w *Worker, item market.ItemID) {
	for !m.stop.asked.Load() {
		err := w.list(ctx, item)
		switch {
		case err == nil:
			m.relisted.ring()
			return
		case errors.Is(err, market.ErrNotOwned):
			return
		case Fatal(err):
			m.stop.set(result.Incomplete, err)
			return
		}
	}
}

// A bell wakes the buyers of a hot market who found nothing listed, when something is. Were they to look again and again,
// 64 buyers of one item would keep the server busier than those who buy; so they all come for the same item at once.
// Ringing and waiting allocate nothing. Make one with newBell.
type bell struct {
	mu    sync.Mutex
	rung  sync.Cond
	times int
}

func newBell() *bell {
	b := new(bell)
	b.rung.L = &b.mu
	return b
}

// heard is how often it has rung.
func (b *bell) heard() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times++
	b.rung.Broadcast()
}

// wait waits until it has rung more often than was heard.
func (b *bell) wait(heard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.times == heard {
		b.rung.Wait()
	}
}
