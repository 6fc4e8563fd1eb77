package strategies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// claim lets one command decide who gets an item: the buyer whose ZREM removes the listing. Then the money moves, and if
// the buyer is short of it the listing is put back. A listing claims the item by SREM. No lock is taken and nothing is
// tried again, and as long as every client finishes what it began, each item is sold once and no account is overdrawn for
// good. It is a control, which must be caught.
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
			return &claimer{rdb: env.Redis, keys: env.Keys, steps: env.Steps}, nil, nil
		},
	}
}

type claimer struct {
	rdb   *redis.Client
	keys  market.Keys
	steps step.Observer
}

// List implements market.Purchaser.
func (c *claimer) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	claimed, err := c.claimed(ctx, redis.NewIntCmd(ctx, "srem", c.keys.Inventory(l.Seller), int64(l.Item)))
	if err != nil || !claimed {
		return market.Receipt{}, cmp.Or(err, market.ErrNotOwned)
	}
	return market.Receipt{}, c.complete(ctx, "listing",
		redis.NewIntCmd(ctx, "zadd", c.keys.Market(), l.Price, market.Member(l.Item, l.Seller)))
}

// Purchase implements market.Purchaser.
func (c *claimer) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	member := market.Member(o.Item, o.Seller)
	price, err := c.rdb.ZScore(ctx, c.keys.Market(), member).Result()
	if err := judge(o, price, err, o.Price, nil); err != nil {
		return market.Receipt{}, beforeWrite(err)
	}
	c.steps.At(ctx, step.Read)
	claimed, err := c.claimed(ctx, redis.NewIntCmd(ctx, "zrem", c.keys.Market(), member))
	if err != nil || !claimed {
		return market.Receipt{}, cmp.Or(err, market.ErrNotListed)
	}
	left, err := c.rdb.HIncrBy(context.WithoutCancel(ctx), c.keys.User(o.Buyer), "funds", -o.Price).Result()
	if err == nil && left < 0 {
		err = c.complete(ctx, "repair",
			redis.NewIntCmd(ctx, "hincrby", c.keys.User(o.Buyer), "funds", o.Price),
			redis.NewIntCmd(ctx, "zadd", c.keys.Market(), o.Price, member))
		return market.Receipt{}, cmp.Or(err, market.ErrInsufficientFunds)
	}
	if err != nil {
		return market.Receipt{}, fmt.Errorf("pay for a claimed item: %w", err)
	}
	return market.Receipt{}, c.complete(ctx, "purchase",
		redis.NewIntCmd(ctx, "hincrby", c.keys.User(o.Seller), "funds", o.Price),
		redis.NewIntCmd(ctx, "sadd", c.keys.Inventory(o.Buyer), int64(o.Item)))
}

// claimed removes something, and reports whether it was there. An error leaves the outcome unknown, unless the server
// refused the command.
func (c *claimer) claimed(ctx context.Context, remove *redis.IntCmd) (bool, error) {
	c.steps.At(ctx, step.BeforeWrite)
	if err := ctx.Err(); err != nil {
		return false, beforeWrite(err)
	}
	err := c.rdb.Process(ctx, remove)
	var refused redis.Error
	if errors.As(err, &refused) {
		return false, beforeWrite(err)
	}
	if err != nil {
		return false, fmt.Errorf("outcome of the claim is unknown: %w", err)
	}
	if remove.Val() == 1 {
		c.steps.At(ctx, step.Acquired)
	}
	return remove.Val() == 1, nil
}

// complete sends the rest, one command after the other, whether or not ctx has ended. A failure leaves the outcome
// unknown.
func (c *claimer) complete(ctx context.Context, what string, cmds ...redis.Cmder) error {
	for _, cmd := range cmds {
		if err := c.rdb.Process(context.WithoutCancel(ctx), cmd); err != nil {
			return fmt.Errorf("outcome of a %s that was claimed is unknown: %w", what, err)
		}
	}
	c.steps.At(ctx, step.Written)
	return nil
}
