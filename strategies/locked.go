package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/step"
)

// LockNames says which locks a locked strategy takes, in the order in which it takes them.
type LockNames struct {
	list     func(names []string, l market.Listing) []string
	purchase func(names []string, o market.Order) []string
	all      func(accounts int, items market.ItemID) iter.Seq[string]
}

func itemLock(id market.ItemID) string { return strconv.FormatInt(int64(id), 10) }

func accountLock(id market.UserID) string { return "users:" + strconv.FormatInt(int64(id), 10) }

// itemLocks enumerates the locks of items 1 to last.
func itemLocks(last market.ItemID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := market.ItemID(1); id <= last; id++ {
			if !yield(itemLock(id)) {
				return
			}
		}
	}
}

// locked does both operations under locks: take them, read and decide, write in one MULTI/EXEC, give them back. What
// the locks cover is what tells the locked strategies apart. See registering for the same with the market on guard.
type locked struct {
	rdb    *redis.Client
	keys   market.Keys
	locker lock.Locker
	names  LockNames
	steps  step.Observer
	wanted []string // reused
	held   []lock.Lease
	since  time.Time // when the first of held was acquired
	holds  holds
}

func newLocked(names LockNames) func(Env) (market.Purchaser, io.Closer, error) {
	return func(env Env) (market.Purchaser, io.Closer, error) {
		k := &locked{
			rdb: env.Redis, keys: env.Keys, locker: env.Locker, names: names, steps: env.Steps, holds: holds{report: env.Holds},
		}
		if fencing := env.Params.Text(fencingParam); fencing != fencingNone {
			return &registering{locked: k, fencing: fencing}, nil, nil
		}
		return k, nil, nil
	}
}

// List implements market.Purchaser.
func (k *locked) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	k.wanted = k.names.list(k.wanted[:0], l)
	return k.under(ctx, func() error {
		owned, err := k.rdb.SIsMember(ctx, k.keys.Inventory(l.Seller), int64(l.Item)).Result()
		if err == nil && !owned {
			err = market.ErrNotOwned
		}
		return err
	}, k.transaction(ctx, func(p redis.Pipeliner) { queueListing(ctx, p, k.keys, l) }))
}

// Purchase implements market.Purchaser.
func (k *locked) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	k.wanted = k.names.purchase(k.wanted[:0], o)
	return k.under(ctx, func() error {
		var price *redis.FloatCmd
		var funds *redis.StringCmd
		// The pipeline's error is that of its first failed command: both are judged one by one.
		_, _ = k.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			price = p.ZScore(ctx, k.keys.Market(), market.Member(o.Item, o.Seller))
			funds = p.HGet(ctx, k.keys.User(o.Buyer), "funds")
			return nil
		})
		coins, err := funds.Int64()
		return judge(o, price.Val(), price.Err(), coins, err)
	}, k.transaction(ctx, func(p redis.Pipeliner) { queuePurchase(ctx, p, k.keys, o) }))
}

// transaction is a write made by one MULTI/EXEC.
func (k *locked) transaction(ctx context.Context, queue func(redis.Pipeliner)) func() error {
	return func() error {
		return exec(ctx, k.rdb.TxPipelined, func(p redis.Pipeliner) error { queue(p); return nil })
	}
}

// under does one operation while the wanted locks are held.
func (k *locked) under(ctx context.Context, read, write func() error) (r market.Receipt, err error) {
	if err := k.acquire(ctx, &r, k.locker.Acquire, false); err != nil {
		return r, err
	}
	err = k.guarded(ctx, read, write)
	k.steps.At(ctx, step.BeforeRelease)
	lost := k.release(ctx)
	r.LeaseLost = lost && err == nil
	r.LockHold = time.Since(k.since)
	return r, err
}

// guarded reads, decides and writes. A lease that is known to be lost stops it before the write.
func (k *locked) guarded(ctx context.Context, read, write func() error) error {
	if err := beforeWrite(read()); err != nil {
		return err
	}
	k.steps.At(ctx, step.Read)
	for _, lease := range k.held {
		if lease.Context().Err() != nil {
			return fmt.Errorf("%w: %w", market.ErrLockLost, context.Cause(lease.Context()))
		}
	}
	k.steps.At(ctx, step.BeforeWrite) // after that look: no look is late enough to rule a pause out
	if err := write(); err != nil {
		return err
	}
	k.steps.At(ctx, step.Written)
	return nil
}

// acquire takes the wanted locks in order, or none of them.
func (k *locked) acquire(ctx context.Context, r *market.Receipt,
	take func(context.Context, string) (lock.Lease, error), shared bool,
) error {
	start, polls := time.Now(), k.polls()
	var err error
	k.held = k.held[:0]
	for _, name := range k.wanted {
		var lease lock.Lease
		k.holds.call(name, shared)
		if lease, err = take(ctx, name); err != nil {
			break
		}
		if len(k.held) == 0 {
			k.since = time.Now()
		}
		k.holds.acquired(lease)
		k.held = append(k.held, lease)
	}
	r.LockWait, r.Polls = time.Since(start), int(k.polls()-polls)
	if err == nil {
		k.steps.At(ctx, step.Acquired)
		return nil
	}
	k.release(ctx)
	if errors.Is(err, lock.ErrTimeout) {
		r.Retries++
		return fmt.Errorf("%w: %w", market.ErrContended, err)
	}
	return beforeWrite(err)
}

// release gives the held locks back, last first, even if the operation's context has ended, and reports whether one
// of them had been lost. Another failure to release does not change what became of the operation: whoever needs the
// lock next meets it.
func (k *locked) release(ctx context.Context) (lost bool) {
	ctx = context.WithoutCancel(ctx) // the connection's own time-outs bound it
	for i := len(k.held) - 1; i >= 0; i-- {
		if err := k.holds.release(ctx, k.held[i]); errors.Is(err, lock.ErrLost) {
			lost = true
		}
	}
	k.held = k.held[:0]
	return lost
}

func (k *locked) polls() int64 {
	if p, ok := k.locker.(lock.Poller); ok {
		return p.Polls()
	}
	return 0
}
