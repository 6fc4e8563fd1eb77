package strategies

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// ErrExclusive is returned by Browse when the lock cannot be shared.
var ErrExclusive = errors.New("lock is exclusive: browsers need one that can be shared")

var _ market.Browser = (*locked)(nil)

// Browse implements market.Browser under the locks that a listing takes, held shared. The reads are separate commands:
// a lock that admits a writer between them shows as a torn read.
func (k *locked) Browse(ctx context.Context, l market.Listing, accounts int) (
	s market.Sighting, r market.Receipt, err error,
) {
	shared, ok := k.locker.(lock.SharedLocker)
	if !ok {
		return s, r, ErrExclusive
	}
	k.wanted = k.names.operation(k.wanted[:0], l.Item, 0)
	if err := k.acquire(ctx, &r, shared.AcquireShared, true); err != nil {
		return s, r, err
	}
	s, err = k.look(ctx, l, accounts)
	r.LeaseLost = k.release(ctx, &r)
	r.LockHold = time.Since(k.since)
	return s, r, beforeWrite(err)
}

// look reads where an item is: on the market, in which inventories, and on the market again.
func (k *locked) look(ctx context.Context, l market.Listing, accounts int) (s market.Sighting, err error) {
	before, err := k.listed(ctx, l)
	if err != nil {
		return s, err
	}
	k.steps.At(ctx, step.Read)
	owners := make([]*redis.BoolCmd, accounts)
	_, err = k.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range owners {
			owners[i] = p.SIsMember(ctx, k.keys.Inventory(market.UserID(i+1)), int64(l.Item))
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("look for item %d: %w", l.Item, err)
	}
	after, err := k.listed(ctx, l)
	if err != nil {
		return s, err
	}
	for _, owner := range owners {
		if owner.Val() {
			s.Places++
		}
	}
	if before {
		s.Places++
	}
	s.Torn = s.Places != 1 || before != after
	return s, nil
}

func (k *locked) listed(ctx context.Context, l market.Listing) (bool, error) {
	err := k.rdb.ZScore(ctx, k.keys.Market(), market.Member(l.Item, l.Seller)).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("look for item %d: %w", l.Item, err)
	}
	return err == nil, nil
}
