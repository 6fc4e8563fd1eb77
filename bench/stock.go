package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// What makes a market large: accounts beyond one for each worker, and items that are listed before anybody trades.

// MaxStock is the largest number of items that are listed before a row begins: Redis needs 15 GB for them. A history,
// which ends with a copy of the whole market, goes with MaxRecordedStock at most.
const (
	MaxStock         = 100_000_000
	MaxRecordedStock = 1_000_000
)

// checkSize returns ErrConfig, wrapped, for numbers of accounts and items that cannot be run, or not with the rest of
// the configuration.
func (c Config) checkSize() error {
	switch {
	case c.Stock < 0 || c.Stock > MaxStock:
		return fmt.Errorf("%w: a stock of %d items: want 0 to %d", ErrConfig, c.Stock, MaxStock)
	case c.Stock > MaxRecordedStock && c.History != "":
		return fmt.Errorf("%w: a stock of %d items and a history, which ends with a copy of the market: want at most %d",
			ErrConfig, c.Stock, MaxRecordedStock)
	case (c.Stock != 0 || c.Accounts != 0) && c.Hot != 0:
		return fmt.Errorf("%w: %d hot items, a stock of %d and %d accounts: what circulates belongs to the buyers' own "+
			"accounts, and is all that there is", ErrConfig, c.Hot, c.Stock, c.Accounts)
	case c.Accounts == 0:
		return nil
	case c.Accounts < c.traders() || c.Accounts > market.MaxAccounts:
		return fmt.Errorf("%w: %d accounts for %d sellers and buyers: want one or more for each, and at most %d", ErrConfig,
			c.Accounts, c.traders(), market.MaxAccounts)
	case c.Wallets != 0:
		return fmt.Errorf("%w: %d accounts and %d wallets: either each worker has accounts of its own, or several share one",
			ErrConfig, c.Accounts, c.Wallets)
	case c.Browsers != 0:
		return fmt.Errorf("%w: %d accounts and browsers, who look for an item in the inventory of each: want no browsers",
			ErrConfig, c.Accounts)
	case c.Funds < DefaultFunds:
		return fmt.Errorf("%w: funds %d: with %d accounts, nobody looks which are empty: want %d or more", ErrConfig, c.Funds,
			c.Accounts, int64(DefaultFunds))
	}
	return nil
}

// traders are those who have accounts.
func (c Config) traders() int { return c.Mix.Sellers + c.Mix.Buyers }

// turn lets the worker trade for the next of its accounts. The accounts of a row belong to its sellers and buyers in
// turn.
func (w *Worker) turn() {
	if w.market.Accounts == 0 {
		return
	}
	w.account += market.UserID(w.market.traders())
	if w.account > market.UserID(w.market.Accounts) {
		w.account = w.market.account(w.role, w.place)
	}
}

const (
	// detailed is how long a row may be, and manyPurchases how many it may make, for its ledgers to keep each item. Where
	// it lasts longer they would fill the memory: 25 bytes a purchase, as measured, at up to 50,000 a second.
	detailed      = time.Minute
	manyPurchases = 1_000_000
)

// newCirculation is what the workers of a market know together of items and coins, where these circulate, where the row is
// long, and where the market is large; nil: each keeps what it has traded, in detail. The market is open.
func (m *rowMarket) newCirculation() *market.Circulation {
	switch {
	case m.Hot > 0:
		return market.NewCirculation(m.lastHot(), m.opening().Accounts)
	case m.Config.Accounts > 0 || m.Stock > 0 || m.Purchases > manyPurchases || m.Purchases == 0 && m.Duration > detailed:
		return market.NewSharedCirculation(market.MaxItems, m.opening().Accounts, market.MaxSums/max(m.Markets, 1))
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
// sellers, a batch for each of their accounts in turn, and those that circulate for the buyers. None of it is measured,
// and neither the strategy nor a delay has a part in it: a million items would take a strategy longer than the row.
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
