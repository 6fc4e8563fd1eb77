package strategies

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// claim lets one command decide who gets an item: the buyer whose ZREM removes the
// listing. Then the money moves; a buyer who is short of it has the listing put back. A
// listing claims the item by SREM. If every client finishes what it began, each item is
// sold once and no account stays overdrawn. It is a control.
//
// What breaks it: between the claim and the rest the item is nowhere. A client that dies
// or is cut off there loses the item for good (scenario crash-holding), one that dies a
// step later the coins: nothing says what was under way. A buyer can be told "gone" of an
// item that is for sale again a moment later. Source: recipes that take a job from a set
// by ZREM or SREM; redis.io/commands/zrem answers how many were removed.
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

func (c *claimer) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	remove := redis.NewIntCmd(ctx, "srem", c.Keys.Inventory(l.Seller), int64(l.Item))
	claimed, err := c.claimed(ctx, remove)
	if err != nil || !claimed {
		return market.Receipt{}, cmp.Or(err, market.ErrNotOwned)
	}
	return market.Receipt{}, c.complete(ctx,
		redis.NewIntCmd(ctx, "zadd", c.Keys.Market(), l.Price, market.Member(l.Item, l.Seller)))
}

func (c *claimer) Purchase(ctx context.Context, o market.Order) (r market.Receipt, err error) {
	// The funds are not read. They count as enough here: whether they were is seen when they are taken.
	enough := redis.NewStringResult(strconv.FormatInt(o.Price, 10), nil)
	// It has no keys: of its methods only member and judge need none.
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

	// The item is nowhere now: all that follows is sent even if ctx has ended.
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

func (c *claimer) claimed(ctx context.Context, remove *redis.IntCmd) (bool, error) {
	c.Steps.At(ctx, step.BeforeWrite)
	err := exec(ctx, c.Redis.Pipelined, true, func(p redis.Pipeliner) {
		_ = p.Process(ctx, remove)
	})
	if err != nil {
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

// unsafe protects nothing: it reads balances and writes absolute values, one command at a
// time. It is the control: a test suite that does not catch it proves nothing.
func unsafe() Strategy {
	return Strategy{
		Name:    "unsafe",
		Summary: "no protection: reads balances, writes absolute values; the control, which must be caught",
		Source:  "the lost update, as in any database textbook",
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return purchaser{env.Keys, unprotected{env}}, nil, nil
		},
	}
}

type unprotected struct{ Env }

func (u unprotected) execute(ctx context.Context, op *operation) (r market.Receipt, err error) {
	writes, err := u.decide(ctx, op)
	if err != nil {
		return r, beforeWrite(err)
	}
	u.Steps.At(ctx, step.Read)

	// Only an error of the first write can mean that nothing was written.
	u.Steps.At(ctx, step.BeforeWrite)
	first := func(p redis.Pipeliner) { _ = p.Process(ctx, writes[0]) }
	if err := exec(ctx, u.Redis.Pipelined, true, first); err != nil {
		return r, err
	}
	if err := oneByOne(ctx, u.Redis, writes[1:]...); err != nil {
		return r, err
	}
	u.Steps.At(ctx, step.Written)
	return r, nil
}

// decide reads, and returns the commands that write.
func (u unprotected) decide(ctx context.Context, op *operation) ([]redis.Cmder, error) {
	op.read(ctx, u.Redis)
	if err := op.judge(); err != nil {
		return nil, err
	}

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
