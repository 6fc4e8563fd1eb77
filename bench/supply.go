package bench

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

const (
	browseSize = 64  // listings a buyer of a closed loop looks at in one go
	minPrice   = 1   // coins
	maxPrice   = 100 // coins
)

// supply is where a worker gets what it trades in. Nothing of it is measured.
type supply interface {
	// mint makes market.BatchSize items for owner, as market.Mint does.
	mint(ctx context.Context, owner market.UserID) (first market.ItemID, err error)
	// browse appends random listings as orders of buyer.
	browse(ctx context.Context, orders []market.Order, buyer market.UserID) ([]market.Order, error)
	// funds are the coins in an account.
	funds(ctx context.Context, account market.UserID) (int64, error)
}

// redisSupply is the supply of a market in Redis.
type redisSupply struct {
	rdb  *redis.Client
	keys market.Keys
	some int // how many listings browse looks at
}

func (s redisSupply) mint(ctx context.Context, owner market.UserID) (market.ItemID, error) {
	return market.Mint(ctx, s.rdb, s.keys, owner)
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
