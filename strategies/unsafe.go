package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// unsafe protects nothing: it reads balances and writes absolute values, one command at a time. It is right for one
// client and loses items and coins for several. It is the control: a test suite that does not catch it proves
// nothing.
func unsafe() Strategy {
	return Strategy{
		Name:    "unsafe",
		Summary: "no protection: reads balances, writes absolute values; the control, which must be caught",
		Source:  "the lost update, as in any database textbook",
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return &unprotected{rdb: env.Redis, keys: env.Keys, steps: env.Steps}, nil, nil
		},
	}
}

type unprotected struct {
	rdb   *redis.Client
	keys  market.Keys
	steps step.Observer
}

// List implements market.Purchaser.
func (u *unprotected) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	if err := readListing(ctx, u.rdb, u.keys, l); err != nil {
		return market.Receipt{}, beforeWrite(err)
	}
	u.steps.At(ctx, step.Read)
	u.steps.At(ctx, step.BeforeWrite)
	return market.Receipt{}, u.write(ctx,
		redis.NewIntCmd(ctx, "zadd", u.keys.Market(), l.Price, market.Member(l.Item, l.Seller)),
		redis.NewIntCmd(ctx, "srem", u.keys.Inventory(l.Seller), int64(l.Item)),
	)
}

// Purchase implements market.Purchaser.
func (u *unprotected) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	price, priceErr := u.rdb.ZScore(ctx, u.keys.Market(), market.Member(o.Item, o.Seller)).Result()
	buyerFunds, fundsErr := u.rdb.HGet(ctx, u.keys.User(o.Buyer), "funds").Int64()
	if err := judge(o, price, priceErr, buyerFunds, fundsErr); err != nil {
		return market.Receipt{}, beforeWrite(err)
	}
	sellerFunds, err := u.rdb.HGet(ctx, u.keys.User(o.Seller), "funds").Int64()
	if err != nil {
		return market.Receipt{}, beforeWrite(fmt.Errorf("read funds of user %d: %w", o.Seller, err))
	}
	if o.Seller == o.Buyer { // both balances are one, and it does not change
		sellerFunds, buyerFunds = buyerFunds-o.Price, buyerFunds+o.Price
	}
	u.steps.At(ctx, step.Read)
	u.steps.At(ctx, step.BeforeWrite)
	return market.Receipt{}, u.write(ctx,
		redis.NewIntCmd(ctx, "hset", u.keys.User(o.Seller), "funds", sellerFunds+o.Price),
		redis.NewIntCmd(ctx, "hset", u.keys.User(o.Buyer), "funds", buyerFunds-o.Price),
		redis.NewIntCmd(ctx, "sadd", u.keys.Inventory(o.Buyer), int64(o.Item)),
		redis.NewIntCmd(ctx, "zrem", u.keys.Market(), market.Member(o.Item, o.Seller)),
	)
}

// write sends the commands one by one. If the server refuses the first one, nothing was written; after any other
// failure the outcome is unknown.
func (u *unprotected) write(ctx context.Context, cmds ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		return beforeWrite(err)
	}
	for i, cmd := range cmds {
		err := u.rdb.Process(ctx, cmd)
		var refused redis.Error
		if i == 0 && errors.As(err, &refused) {
			return beforeWrite(err)
		}
		if err != nil {
			return fmt.Errorf("outcome of unprotected write %d of %d is unknown: %w", i+1, len(cmds), err)
		}
	}
	u.steps.At(ctx, step.Written)
	return nil
}
