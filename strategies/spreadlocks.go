package strategies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// spreadLocks makes a purchase over three slots under locks of item, buyer and seller, each on a slot of its own: it takes
// the item's first and then those of the accounts, the lower number first, reads, decides, and makes a write a slot:
// debit, credit, item. While every client finishes what it began that is right. It is a control, which must be caught.
//
// What breaks it: three writes are not one. A client that dies after the debit loses the buyer's coins, one that dies after
// the credit leaves the item with a seller who has been paid for it, and nobody can tell, because nothing says what was
// under way. Locks that expire let the next one in, and locks that do not keep the item and both accounts for good. No better
// lock helps.
//
// Source: fine-wallet, where the slot cannot be shared.
func spreadLocks() Strategy {
	return Strategy{
		Name:     "spread-locks",
		Summary:  "locks on item, buyer, seller, then a write a slot; a control: who dies in between loses coins",
		Source:   "fine-wallet, where keys share no slot",
		Lock:     "set-px",
		Locks:    itemAndAccount(),
		Protects: Protection{Accounts: true},
		Spread:   true,
		Check:    func(s Spec, _ Catalogue) error { return slotEach(*s.lock) },
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return &slotLocked{
				locked: &locked{keys: env.Keys, locker: env.Locker, steps: env.Steps, holds: holds{report: env.Holds}},
				trade:  spread.Trade{Slots: env.Slots, Keys: env.Keys, Patience: spread.Patience},
			}, nil, nil
		},
	}
}

// slotEach refuses a lock that keeps several names in one key: they have a slot each here.
func slotEach(kind lock.Kind) error {
	key := market.Keys{}.SlotLock(accountLock(1))
	for _, k := range kind.AllKeys(key) {
		if backend.Slot(k) != backend.Slot(key) {
			return fmt.Errorf("%s keeps all locks in one key, and each has a slot of its own here: take a lock that has a key a name",
				kind.Name)
		}
	}
	return nil
}

// slotLocked does each operation under locks on slots of their own.
type slotLocked struct {
	*locked
	trade spread.Trade
}

// List implements market.Purchaser.
func (k *slotLocked) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	k.wanted = append(k.wanted[:0], itemLock(l.Item))
	return k.under(ctx, func() error {
		item, err := k.trade.Read(ctx, l.Item)
		if err == nil && (item.Owner != l.Seller || item.Listed) {
			err = market.ErrNotOwned
		}
		return err
	}, func() error {
		key := k.keys.Item(l.Item)
		err := k.write(ctx, key, func(p redis.Pipeliner) {
			p.HSet(ctx, key, "price", l.Price)
			p.HIncrBy(ctx, key, "version", 1)
		})
		if err == nil {
			k.trade.Hint(ctx, l)
		}
		return err
	})
}

// Purchase implements market.Purchaser.
func (k *slotLocked) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	k.wanted = append(k.wanted[:0], itemLock(o.Item), accountLock(min(o.Buyer, o.Seller)),
		accountLock(max(o.Buyer, o.Seller)))
	k.wanted = slices.Compact(k.wanted)
	return k.under(ctx, func() error {
		item, err := k.trade.Read(ctx, o.Item)
		if err := cmp.Or(err, item.Meets(o)); err != nil {
			return err
		}
		funds, err := spread.Funds(ctx, k.trade.Slots, k.keys, o.Buyer)
		if err == nil && funds < o.Price {
			err = market.ErrInsufficientFunds
		}
		return err
	}, func() error { return k.deliver(ctx, o) })
}

// deliver makes a write a slot. After the first one an error leaves the outcome unknown.
func (k *slotLocked) deliver(ctx context.Context, o market.Order) error {
	buyer, seller, item := k.keys.Account(o.Buyer), k.keys.Account(o.Seller), k.keys.Item(o.Item)
	for i, one := range []struct {
		key   string
		queue func(redis.Pipeliner)
	}{
		{buyer, func(p redis.Pipeliner) { p.HIncrBy(ctx, buyer, "funds", -o.Price) }},
		{seller, func(p redis.Pipeliner) { p.HIncrBy(ctx, seller, "funds", o.Price) }},
		{item, func(p redis.Pipeliner) {
			p.HSet(ctx, item, "owner", int64(o.Buyer))
			p.HDel(ctx, item, "price")
			p.HIncrBy(ctx, item, "version", 1)
		}},
	} {
		if i > 0 {
			k.steps.At(ctx, step.BetweenWrites)
		}
		if err := k.write(ctx, one.key, one.queue); err != nil {
			if i > 0 {
				return fmt.Errorf("outcome of a purchase of which %d of 3 writes were made is unknown: %v", i, err)
			}
			return err
		}
	}
	k.trade.Unhint(ctx, o.Item, o.Seller)
	return nil
}

// write makes the writes to one key, as one MULTI/EXEC on its slot. It is tried again while it was certainly not executed.
func (k *slotLocked) write(ctx context.Context, key string, queue func(redis.Pipeliner)) error {
	return spread.Persist(ctx, k.trade.Slots, k.trade.Patience, spread.Unsent, func(context.Context) error {
		rdb, err := k.trade.Slots.For(ctx, key)
		if err != nil {
			return beforeWrite(err)
		}
		return exec(ctx, rdb.TxPipelined, queue)
	})
}

// slotLocker is the Locker of locks on slots of their own: one Locker a master, made when it is first needed.
type slotLocker struct {
	spec    Spec
	env     Env
	lockers map[*redis.Client]lock.Locker
}

func newSlotLocker(spec Spec, env Env) *slotLocker {
	return &slotLocker{spec: spec, env: env, lockers: map[*redis.Client]lock.Locker{}}
}

// at is the Locker of the master of a lock's slot.
func (l *slotLocker) at(ctx context.Context, name string) (lock.Locker, error) {
	key := l.env.Keys.SlotLock(name)
	rdb, err := l.env.Slots.For(ctx, key)
	if err != nil {
		return nil, err
	}
	if at := l.lockers[rdb]; at != nil {
		return at, nil
	}
	dial := func(ctx context.Context) (*redis.Client, error) { return l.env.Slots.Dial(ctx, key) }
	at, err := l.spec.newLocker(l.env, rdb, dial)
	if err != nil {
		return nil, err
	}
	l.lockers[rdb] = at
	return at, nil
}

// Acquire implements lock.Locker.
func (l *slotLocker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	at, err := l.at(ctx, name)
	if err != nil {
		return nil, err
	}
	lease, err := at.Acquire(ctx, name)
	if err != nil {
		l.env.Slots.Again(ctx, err) // so that the next attempt is made where the slot's master is then
	}
	return lease, err
}

// Try implements lock.Locker.
func (l *slotLocker) Try(ctx context.Context, name string) (lock.Lease, error) {
	at, err := l.at(ctx, name)
	if err != nil {
		return nil, err
	}
	return at.Try(ctx, name)
}

// Promises implements lock.Locker.
func (l *slotLocker) Promises() lock.Promises { return l.spec.Promises() }

// Polls implements lock.Poller.
func (l *slotLocker) Polls() (polls int64) {
	for _, one := range l.lockers {
		if p, ok := one.(lock.Poller); ok {
			polls += p.Polls()
		}
	}
	return polls
}

// Close implements io.Closer.
func (l *slotLocker) Close() error {
	var errs []error
	for _, one := range l.lockers {
		if c, ok := one.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
