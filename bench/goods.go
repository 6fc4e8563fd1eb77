package bench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

const (
	browseSize = 64  // listings a buyer looks at in one go
	minPrice   = 1   // coins
	maxPrice   = 100 // coins
)

// goods is where a worker gets what it trades in. Nothing of it is measured.
type goods interface {
	// mint makes market.BatchSize items for owner, as market.Mint does.
	mint(ctx context.Context, owner market.UserID) (first market.ItemID, err error)
	// browse appends random listings as orders of buyer.
	browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error)
	// funds is what is left in an account.
	funds(ctx context.Context, account market.UserID) (int64, error)
}

// stall is the goods of a market in Redis.
type stall struct {
	rdb  *redis.Client
	keys market.Keys
}

func (s stall) mint(ctx context.Context, owner market.UserID) (market.ItemID, error) {
	return market.Mint(ctx, s.rdb, s.keys, owner)
}

func (s stall) browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error) {
	listings, err := s.rdb.ZRandMemberWithScores(ctx, s.keys.Market(), browseSize).Result()
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

func (s stall) funds(ctx context.Context, account market.UserID) (int64, error) {
	funds, err := s.rdb.HGet(ctx, s.keys.User(account), "funds").Int64()
	if err != nil {
		return 0, fmt.Errorf("read funds of user %d: %w", account, err)
	}
	return funds, nil
}
