package strategies

import (
	"context"
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
			return purchaser{env.Keys, unprotected{env}.do}, nil, nil
		},
	}
}

type unprotected struct{ Env }

func (u unprotected) do(ctx context.Context, op *operation) (r market.Receipt, err error) {
	op.read(ctx, u.Redis)
	err = op.judge()
	var writes []redis.Cmder
	if err == nil {
		writes, err = u.writes(ctx, op)
	}
	if err != nil {
		return r, beforeWrite(err)
	}
	u.Steps.At(ctx, step.Read)
	u.Steps.At(ctx, step.BeforeWrite)
	if err := exec(ctx, u.Redis.Pipelined, true, func(p redis.Pipeliner) { _ = p.Process(ctx, writes[0]) }); err != nil {
		return r, err
	}
	if err := oneByOne(ctx, u.Redis, writes[1:]...); err != nil {
		return r, err
	}
	u.Steps.At(ctx, step.Written)
	return r, nil
}

// writes are the commands that write. It reads the other balance of a purchase first.
func (u unprotected) writes(ctx context.Context, op *operation) ([]redis.Cmder, error) {
	if op.lists {
		return []redis.Cmder{
			redis.NewIntCmd(ctx, "zadd", u.Keys.Market(), op.Price, op.member()),
			redis.NewIntCmd(ctx, "srem", u.Keys.Inventory(op.Seller), int64(op.Item)),
		}, nil
	}
	sellerFunds, err := u.Redis.HGet(ctx, u.Keys.User(op.Seller), "funds").Int64()
	if err != nil {
		return nil, fmt.Errorf("read funds of user %d: %w", op.Seller, err)
	}
	buyerFunds, _ := op.funds.Int64()
	if op.Seller == op.Buyer { // both balances are one, and it does not change
		sellerFunds, buyerFunds = buyerFunds-op.Price, buyerFunds+op.Price
	}
	return []redis.Cmder{
		redis.NewIntCmd(ctx, "hset", u.Keys.User(op.Seller), "funds", sellerFunds+op.Price),
		redis.NewIntCmd(ctx, "hset", u.Keys.User(op.Buyer), "funds", buyerFunds-op.Price),
		redis.NewIntCmd(ctx, "sadd", u.Keys.Inventory(op.Buyer), int64(op.Item)),
		redis.NewIntCmd(ctx, "zrem", u.Keys.Market(), op.member()),
	}, nil
}
