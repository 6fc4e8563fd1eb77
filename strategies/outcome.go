package strategies

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// beforeWrite classifies an error met before any write was sent: the operation is certainly not applied. Refusals
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

// exec sends the commands queued by fn as one MULTI/EXEC and classifies what comes back: nil (applied),
// redis.TxFailedErr (a watched key changed), ErrRejected (discarded before it ran), ErrNotSent (no connection), or
// any other error, which leaves the outcome unknown.
func exec(ctx context.Context, pipelined func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error),
	fn func(redis.Pipeliner) error,
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
	cmds, err := pipelined(ctx, fn)
	var op *net.OpError
	switch {
	case err == nil || errors.Is(err, redis.TxFailedErr):
		return err
	case redis.IsExecAbortError(err):
		return fmt.Errorf("%w: %w", market.ErrRejected, firstError(cmds, err))
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	default:
		return fmt.Errorf("outcome of EXEC is unknown: %w", err)
	}
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
