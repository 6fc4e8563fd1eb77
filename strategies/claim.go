package strategies

import (
	"cmp"
	"context"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// claim lets one command decide who gets an item: the buyer whose ZREM removes the listing. Then the money moves, and
// if the buyer is short of it the listing is put back. A listing claims the item by SREM. No lock is taken and nothing
// is tried again, and as long as every client finishes what it began, each item is sold once and no account is
// overdrawn for good. It is a control, which must be caught.
//
// What breaks it: between the claim and the rest the item is nowhere. A client that dies there, or whose connection is
// cut, loses the item for good (scenario crash-holding), one that dies a step later the coins; and a buyer can be told
// "gone" of an item that is for sale again a moment later. Nobody can repair it, because nothing says what was under
// way.
//
// Source: recipes that take a job from a set by ZREM or SREM; redis.io/commands/zrem answers how many were removed.
func claim() Strategy {
	return Strategy{
		Name:    "claim",
		Summary: "ZREM decides who won, then the money moves; a control: who dies in between loses the item",
		Source:  "recipes that take work from a set by ZREM",
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return &claimer{env}, nil, nil
		},
	}
}

type claimer struct{ Env }

// List implements market.Purchaser.
func (c *claimer) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	claimed, err := c.claimed(ctx, redis.NewIntCmd(ctx, "srem", c.Keys.Inventory(l.Seller), int64(l.Item)))
	if err != nil || !claimed {
		return market.Receipt{}, cmp.Or(err, market.ErrNotOwned)
	}
	return market.Receipt{}, c.complete(ctx,
		redis.NewIntCmd(ctx, "zadd", c.Keys.Market(), l.Price, market.Member(l.Item, l.Seller)))
}

// Purchase implements market.Purchaser.
func (c *claimer) Purchase(ctx context.Context, o market.Order) (r market.Receipt, err error) {
	enough := redis.NewStringResult(strconv.FormatInt(o.Price, 10), nil) // the funds are known when they are taken
	op := operation{Order: o, funds: enough}
	op.price = c.Redis.ZScore(ctx, c.Keys.Market(), op.member())
	if err := op.judge(); err != nil {
		return r, beforeWrite(err)
	}
	c.Steps.At(ctx, step.Read)
	claimed, err := c.claimed(ctx, redis.NewIntCmd(ctx, "zrem", c.Keys.Market(), op.member()))
	if err != nil || !claimed {
		return r, cmp.Or(err, market.ErrNotListed)
	}
	paid := redis.NewIntCmd(ctx, "hincrby", c.Keys.User(o.Buyer), "funds", -o.Price)
	if err := oneByOne(context.WithoutCancel(ctx), c.Redis, paid); err != nil {
		return r, err
	}
	if paid.Val() < 0 {
		err = c.complete(ctx,
			redis.NewIntCmd(ctx, "hincrby", c.Keys.User(o.Buyer), "funds", o.Price),
			redis.NewIntCmd(ctx, "zadd", c.Keys.Market(), o.Price, op.member()))
		return r, cmp.Or(err, market.ErrInsufficientFunds)
	}
	return r, c.complete(ctx,
		redis.NewIntCmd(ctx, "hincrby", c.Keys.User(o.Seller), "funds", o.Price),
		redis.NewIntCmd(ctx, "sadd", c.Keys.Inventory(o.Buyer), int64(o.Item)))
}

// claimed removes something, and reports whether it was there.
func (c *claimer) claimed(ctx context.Context, remove *redis.IntCmd) (bool, error) {
	c.Steps.At(ctx, step.BeforeWrite)
	if err := exec(ctx, c.Redis.Pipelined, true, func(p redis.Pipeliner) { _ = p.Process(ctx, remove) }); err != nil {
		return false, err
	}
	if remove.Val() == 1 {
		c.Steps.At(ctx, step.Acquired)
	}
	return remove.Val() == 1, nil
}

// complete sends the rest, whether or not ctx has ended.
func (c *claimer) complete(ctx context.Context, rest ...redis.Cmder) error {
	if err := oneByOne(context.WithoutCancel(ctx), c.Redis, rest...); err != nil {
		return err
	}
	c.Steps.At(ctx, step.Written)
	return nil
}
