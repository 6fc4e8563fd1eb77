package load

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/market"
)

const (
	minPrice     = 1     // coins
	maxPrice     = 100   // coins
	glanceSize   = 64    // listings that a worker looks at in one go, at most
	leastGlance  = 4     // the fewest that a buyer of an open loop looks at, however small the stock
	listingsEach = 64    // up for each buyer when a row begins, unless the point says otherwise
	openStock    = 1_000 // up at least when an open loop begins, in all markets together
)

// supply is where a worker gets what it trades in. None of its work is measured.
type supply interface {
	// mint makes market.BatchSize items for owner, as marketstore.Mint does.
	mint(ctx context.Context, owner market.UserID) (first market.ItemID, err error)
	// browse appends random listings as orders of buyer.
	browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error)
	funds(ctx context.Context, account market.UserID) (int64, error)
}

type redisSupply struct {
	rdb  *redis.Client
	keys market.Keys
	some int // how many listings browse looks at
}

func (s redisSupply) mint(ctx context.Context, owner market.UserID) (market.ItemID, error) {
	return marketstore.Mint(ctx, s.rdb, s.keys, owner)
}

func (s redisSupply) browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	listings, err := s.rdb.ZRandMemberWithScores(ctx, s.keys.Market(), s.some).Result()
	if err != nil {
		return orders, fmt.Errorf("browse %s: %w", s.keys.Market(), err)
	}
	for _, z := range listings {
		item, seller, err := market.ParseMember(z.Member.(string))
		if err != nil {
			return orders, fmt.Errorf("browse %s: %w", s.keys.Market(), err)
		}
		orders = append(orders, market.Order{Item: item, Seller: seller, Buyer: buyer, Price: int64(z.Score)})
	}
	return orders, nil
}

func (s redisSupply) funds(ctx context.Context, account market.UserID) (int64, error) {
	funds, err := s.rdb.HGet(ctx, s.keys.User(account), "funds").Int64()
	if err != nil {
		return 0, fmt.Errorf("read funds of user %d: %w", account, err)
	}
	return funds, nil
}

// glanceLength is how many listings a worker looks at in one go. In an open loop they are so
// few that most are still there when a buyer comes to the last one, although the other
// buyers buy as many meanwhile.
func (m *rowMarket) glanceLength() int {
	if m.point.Rate == 0 {
		return glanceSize
	}
	return min(glanceSize, max(leastGlance, m.stock/4/m.point.Mix.Buyers))
}

// listings is how many are up when one of so many markets begins.
func listings(p result.Point, markets int) int {
	switch {
	case p.Empty:
		return 0
	case p.Hot+p.Stock > 0:
		return p.Hot + p.Stock // one of them is 0
	case p.Rate > 0:
		return max(listingsEach*p.Mix.Buyers, openStock/markets)
	}
	return listingsEach * p.Mix.Buyers
}

// stockUp makes and lists the items with which a market begins, many at once. They are
// divided among the sellers or, if items circulate, among the buyers. The strategy has no
// part in it: a million items would take it longer than the row. What the last batch of a
// seller has beyond its part stays in the inventory, and is listed during the row.
func (m *rowMarket) stockUp(ctx context.Context, workers []*worker) error {
	if m.stock == 0 {
		return nil
	}

	var owners []*worker
	hot := min(m.point.Hot, wallets(m.point)) // owners: each has an account of its own, and an item
	for _, w := range workers {
		if w.role == seller || w.role == buyer && len(owners) < hot {
			owners = append(owners, w)
		}
	}

	conn, err := m.Servers.Market.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	for i, w := range owners {
		for left := share(m.stock, len(owners), i); left > 0; left -= market.BatchSize {
			if err := w.mint(ctx, redisSupply{rdb: conn.Client, keys: m.Keys}); err != nil {
				return err
			}
			if err := w.listMany(ctx, conn.Client, min(left, market.BatchSize)); err != nil {
				return err
			}
		}
	}
	return nil
}

// listMany offers the next items of the worker's last batch, which has at least as many, and
// notes each as the worker's own listing.
func (w *worker) listMany(ctx context.Context, rdb *redis.Client, count int) error {
	listings := make([]market.Listing, count)
	for i := range listings {
		listings[i] = market.Listing{Item: w.next, Seller: w.account, Price: w.price()}
		w.next++
	}

	start := time.Now()
	err := marketstore.Offer(ctx, rdb, w.market.Keys, listings...)
	end := time.Now()
	for _, l := range listings {
		w.history.Listed(start, end, l, err)
		w.ledger.Listed(l, err)
	}
	return err
}
