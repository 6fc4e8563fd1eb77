package strategies

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// queuePurchase queues the four writes of a purchase.
func queuePurchase(ctx context.Context, p redis.Pipeliner, keys market.Keys, o market.Order) {
	p.HIncrBy(ctx, keys.User(o.Seller), "funds", o.Price)
	p.HIncrBy(ctx, keys.User(o.Buyer), "funds", -o.Price)
	p.SAdd(ctx, keys.Inventory(o.Buyer), int64(o.Item))
	p.ZRem(ctx, keys.Market(), market.Member(o.Item, o.Seller))
}

// queueListing queues the two writes of a listing.
func queueListing(ctx context.Context, p redis.Pipeliner, keys market.Keys, l market.Listing) {
	p.ZAdd(ctx, keys.Market(), redis.Z{Score: float64(l.Price), Member: market.Member(l.Item, l.Seller)})
	p.SRem(ctx, keys.Inventory(l.Seller), int64(l.Item))
}
