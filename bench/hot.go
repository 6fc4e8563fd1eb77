package bench

import (
	"context"
	"errors"
	"sync"

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

// lastHot is the highest id of an item in a hot market. Each owner mints whole batches.
func (c Config) lastHot() market.ItemID {
	batches := 0
	for i := range c.hotOwners() {
		batches += (share(c.Hot, c.hotOwners(), i) + market.BatchSize - 1) / market.BatchSize
	}
	return market.ItemID(batches * market.BatchSize)
}

// relist lists again what a buyer of a hot market has bought. Where it gives up under contention, or its lock is lost, it
// tries again: an item that is not listed is lost to trade. It leaves one alone that is not its own any more, of which
// the audit will tell, and does not begin when the row has stopped.
func (m *measurement) relist(ctx context.Context, w *Worker, item market.ItemID) {
	for !m.stop.asked.Load() {
		err := w.list(ctx, item)
		switch {
		case err == nil:
			w.market.relisted.ring()
			return
		case errors.Is(err, market.ErrNotOwned):
			return
		}
		if Fatal(err) {
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
