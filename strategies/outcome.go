package strategies

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// beforeWrite classifies an error that came before any write was sent: the operation is certainly not applied. Refusals
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

// pipelined sends several commands at once: TxPipelined as one MULTI/EXEC, Pipelined one by one.
type pipelined func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error)

// exec sends what queue puts in as one MULTI/EXEC, or a pipeline, and classifies what comes back: nil (applied),
// redis.TxFailedErr (a watched key changed), ErrRejected (discarded before it ran, or each command refused), ErrNotSent
// (no connection), or any other error, which leaves the outcome unknown.
func exec(ctx context.Context, send pipelined, queue func(redis.Pipeliner)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
	cmds, err := send(ctx, func(p redis.Pipeliner) error { queue(p); return nil })
	var op *net.OpError
	switch {
	case err == nil || errors.Is(err, redis.TxFailedErr):
		return err
	case redis.IsExecAbortError(err) || eachRefused(cmds):
		return fmt.Errorf("%w: %w", market.ErrRejected, firstError(cmds, err))
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	default:
		return fmt.Errorf("outcome of the writes is unknown: %w", err)
	}
}

// eachRefused reports whether the server answered each command with an error.
func eachRefused(cmds []redis.Cmder) bool {
	for _, cmd := range cmds {
		var refused redis.Error
		if !errors.As(cmd.Err(), &refused) {
			return false
		}
	}
	return len(cmds) > 0
}

// firstError is the answer to the command that made the server discard the transaction.
func firstError(cmds []redis.Cmder, abort error) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !redis.IsExecAbortError(err) {
			return err
		}
	}
	return abort
}

// nothingWritten ends the error message of a script whose first write the server refused.
const nothingWritten = "(nothing was written)"

// afterScript classifies the error of a script that writes: ErrRejected (the server refused the script, or a command of
// it before anything was written), ErrNotSent (no connection), or any other error, which leaves the outcome unknown: what
// a script has written before it fails stays.
func afterScript(err error) error {
	var server redis.Error
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &server) && strings.Contains(err.Error(), nothingWritten), scriptDenied(err), backend.Redirected(err):
		return fmt.Errorf("%w: %w", market.ErrRejected, err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	default:
		return fmt.Errorf("outcome of the writing script is unknown: %w", err)
	}
}

// scriptDenied reports whether the user may run no script at all.
func scriptDenied(err error) bool {
	command, denied := backend.Denied(err)
	return denied && (command == "evalsha" || command == "eval")
}

// judge decides whether an order can be met, from what was read of its listing and its buyer.
func judge(o market.Order, price float64, priceErr error, funds int64, fundsErr error) error {
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

// readOrder reads price and funds, one after the other, and judges them.
func readOrder(ctx context.Context, rdb redis.Cmdable, keys market.Keys, o market.Order) error {
	price, priceErr := rdb.ZScore(ctx, keys.Market(), market.Member(o.Item, o.Seller)).Result()
	funds, fundsErr := rdb.HGet(ctx, keys.User(o.Buyer), "funds").Int64()
	return judge(o, price, priceErr, funds, fundsErr)
}

// readListing reads whether the seller has the item and has not listed it: market.ErrNotOwned if not.
func readListing(ctx context.Context, rdb redis.Cmdable, keys market.Keys, l market.Listing) error {
	owned, err := rdb.SIsMember(ctx, keys.Inventory(l.Seller), int64(l.Item)).Result()
	if err == nil && !owned {
		err = market.ErrNotOwned
	}
	return err
}

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
