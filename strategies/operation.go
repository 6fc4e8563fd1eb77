package strategies

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
)

// An operation is a purchase or a listing: what it reads, how it decides, and what
// it writes. It serves one call.
type operation struct {
	market.Order // of a listing without Buyer
	lists        bool
	keys         market.Keys

	// What was read.
	owned *redis.BoolCmd // of a listing
	price *redis.FloatCmd
	funds *redis.StringCmd
}

// A purchaser is a market.Purchaser that leaves both operations to an executor.
type purchaser struct {
	keys     market.Keys
	executor executor
}

// An executor executes operations in one way, one at a time: under WATCH (watcher), by a
// script (scripter), under locks (locked), or without protection (unprotected). It may
// stand around another one (replicated, sharedScripter).
type executor interface {
	execute(context.Context, *operation) (market.Receipt, error)
}

func (p purchaser) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	o := market.Order{Item: l.Item, Seller: l.Seller, Price: l.Price}
	return p.executor.execute(ctx, &operation{Order: o, lists: true, keys: p.keys})
}

func (p purchaser) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return p.executor.execute(ctx, &operation{Order: o, keys: p.keys})
}

func (o *operation) member() string { return market.Member(o.Item, o.Seller) }

// reads are the keys whose change makes a decision void, that of many items first: watch-item has
// a version in its place. They are KEYS of list_read.lua and purchase_read.lua, in this order.
func (o *operation) reads() []string {
	if o.lists {
		return []string{o.keys.Inventory(o.Seller)}
	}
	return []string{o.keys.Market(), o.keys.User(o.Buyer)}
}

// read sends the commands that read, or queues them in a pipeline.
func (o *operation) read(ctx context.Context, rdb redis.Cmdable) {
	if o.lists {
		o.owned = rdb.SIsMember(ctx, o.keys.Inventory(o.Seller), int64(o.Item))
		return
	}
	o.price = rdb.ZScore(ctx, o.keys.Market(), o.member())
	o.funds = rdb.HGet(ctx, o.keys.User(o.Buyer), "funds")
}

// judge decides by what was read: nil, and the operation may be written, or why not. The
// first reason that applies is given, in the order that market.Purchaser promises.
func (o *operation) judge() error {
	if o.lists {
		if owned, err := o.owned.Result(); err != nil || owned {
			return err
		}
		return market.ErrNotOwned
	}

	price, priceErr := o.price.Result()
	funds, fundsErr := o.funds.Int64()
	switch {
	case errors.Is(priceErr, redis.Nil):
		return market.ErrNotListed
	case priceErr != nil:
		return fmt.Errorf("read price of item %d: %w", o.Item, priceErr)
	case fundsErr != nil:
		return fmt.Errorf("read funds of user %d: %w", o.Buyer, fundsErr)
	case int64(price) != o.Price:
		return market.ErrPriceChanged
	case funds < o.Price:
		return market.ErrInsufficientFunds
	}
	return nil
}

func (o *operation) write(ctx context.Context, p redis.Pipeliner) {
	if o.lists {
		p.ZAdd(ctx, o.keys.Market(), redis.Z{Score: float64(o.Price), Member: o.member()})
		p.SRem(ctx, o.keys.Inventory(o.Seller), int64(o.Item))
		return
	}
	p.HIncrBy(ctx, o.keys.User(o.Seller), "funds", o.Price)
	p.HIncrBy(ctx, o.keys.User(o.Buyer), "funds", -o.Price)
	p.SAdd(ctx, o.keys.Inventory(o.Buyer), int64(o.Item))
	p.ZRem(ctx, o.keys.Market(), o.member())
}

// beforeWrite classifies an error that came before any write was sent. Refusals
// keep their meaning.
func beforeWrite(err error) error {
	var server redis.Error
	switch {
	case err == nil || market.Refused(err):
		return err
	case errors.As(err, &server):
		return fmt.Errorf("%w: %w", market.ErrRejected, err)
	default:
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
}

// pipelined sends several commands at once: TxPipelined as one MULTI/EXEC,
// Pipelined one by one.
type pipelined func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error)

// exec sends what queue puts in as one MULTI/EXEC, or each command alone, and classifies
// what comes back: nil (applied), redis.TxFailedErr, ErrRejected (discarded before it
// ran, or each refused alone), ErrNotSent, or any other error, which leaves the outcome
// unknown: of a MULTI that is refused the rest is executed.
func exec(ctx context.Context, send pipelined, alone bool, queue func(redis.Pipeliner)) error {
	if err := ctx.Err(); err != nil {
		return beforeWrite(err)
	}

	cmds, err := send(ctx, func(p redis.Pipeliner) error {
		queue(p)
		return nil
	})
	if err == nil || errors.Is(err, redis.TxFailedErr) {
		return err
	}

	refused := 0
	cause := err
	for _, cmd := range cmds {
		if answer, is := errors.AsType[redis.Error](cmd.Err()); is {
			refused++
			if !redis.IsExecAbortError(answer) && cause == err {
				cause = answer // made the server discard the transaction
			}
		}
	}
	if redis.IsExecAbortError(err) || alone && len(cmds) > 0 && refused == len(cmds) {
		return fmt.Errorf("%w: %w", market.ErrRejected, cause)
	}
	return afterWrite(err)
}

// afterWrite classifies an error of writes that may have been made: ErrNotSent where
// not a byte of them has left.
func afterWrite(err error) error {
	if redisconn.Unsent(err) {
		return beforeWrite(err)
	}
	return fmt.Errorf("outcome of the writes is unknown: %w", err)
}

// oneByOne sends writes that follow another one, each by itself. An error
// leaves the outcome unknown.
func oneByOne(ctx context.Context, rdb *redis.Client, writes ...redis.Cmder) error {
	for _, cmd := range writes {
		if err := rdb.Process(ctx, cmd); err != nil {
			return fmt.Errorf("outcome of %s, after another write, is unknown: %w", cmd.Name(), err)
		}
	}
	return nil
}
