package spread

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// Seed opens a market, as market.Seed does, with its errors.
func Seed(ctx context.Context, slots Slots, keys market.Keys, o market.Opening) error {
	rdb, err := slots.For(ctx, keys.Run())
	if err != nil {
		return fmt.Errorf("seed market %s: %w: %w", keys.Prefix(), market.ErrUnclaimed, err)
	}
	if err := market.Claim(ctx, rdb, keys, o); err != nil {
		return err
	}
	err = inBatches(ctx, slots, o.Accounts, func(b *batch, i int) error {
		key := keys.Account(market.UserID(i + 1))
		p, err := b.on(ctx, key)
		if err == nil {
			p.HSet(ctx, key, "funds", o.Funds)
		}
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("seed accounts of market %s: %w", keys.Prefix(), err)
	}
	return nil
}

// Mint gives owner market.BatchSize new items, as market.Mint does, with ids that the minter reserves. After an error some of
// them may exist.
func Mint(ctx context.Context, slots Slots, minter *market.Minter, keys market.Keys, owner market.UserID,
) (first market.ItemID, err error) {
	rdb, err := slots.For(ctx, keys.Run())
	if err != nil {
		return 0, fmt.Errorf("reserve items for user %d: %w", owner, err)
	}
	if first, err = minter.Reserve(ctx, rdb, keys, owner); err != nil {
		return 0, err
	}
	err = inBatches(ctx, slots, market.BatchSize, func(b *batch, i int) error {
		key := keys.Item(first + market.ItemID(i))
		p, err := b.on(ctx, key)
		if err == nil {
			p.HSet(ctx, key, "owner", int64(owner), "version", 0)
		}
		return err
	}, nil)
	if err != nil {
		return first, fmt.Errorf("mint items for user %d: %w", owner, err)
	}
	return first, nil
}

// Missing names a key that Seed made, that only Remove deletes, and that is gone or has lost what Seed wrote; empty when
// there is none.
func Missing(ctx context.Context, slots Slots, keys market.Keys, o market.Opening) (missing string, err error) {
	there := make([]*redis.BoolCmd, o.Accounts+1)
	key := func(i int) (key, field string) {
		if i == 0 {
			return keys.Run(), "accounts"
		}
		return keys.Account(market.UserID(i)), "funds"
	}
	err = inBatches(ctx, slots, len(there), func(b *batch, i int) error {
		name, field := key(i)
		p, err := b.on(ctx, name)
		if err == nil {
			there[i] = p.HExists(ctx, name, field)
		}
		return err
	}, func(first, end int) {
		for i := first; i < end; i++ {
			if name, _ := key(i); missing == "" && !there[i].Val() {
				missing = name
			}
		}
	})
	if err != nil {
		return "", fmt.Errorf("look at the keys of market %s: %w", keys.Prefix(), err)
	}
	return missing, nil
}

// Remove deletes a market and the keys of its locks, as market.Remove does.
func Remove(ctx context.Context, slots Slots, keys market.Keys, m market.Made, locks iter.Seq[string]) (int64, error) {
	return RemoveKeys(ctx, slots, keys, func(yield func(string) bool) {
		for id := market.UserID(1); id <= market.UserID(m.Accounts); id++ {
			if !yield(keys.Account(id)) {
				return
			}
		}
		for id := market.ItemID(1); id <= m.Items; id++ {
			if !yield(keys.Item(id)) {
				return
			}
		}
		for key := range locks {
			if !yield(key) {
				return
			}
		}
		yield(keys.Market())
	})
}

// RemoveKeys deletes keys of a market, called names, and then its note, so that an interrupted removal can be repeated. It
// returns how many there were: too few if the cluster was not ready meanwhile.
func RemoveKeys(ctx context.Context, slots Slots, keys market.Keys, names iter.Seq[string]) (int64, error) {
	removed, err := unlink(ctx, slots, func(yield func(string) bool) {
		for name := range names {
			if name != keys.Run() && !yield(name) {
				return
			}
		}
	})
	if err == nil {
		var note int64
		note, err = unlink(ctx, slots, func(yield func(string) bool) { yield(keys.Run()) })
		removed += note
	}
	if err != nil {
		return removed, fmt.Errorf("remove market %s: %w", keys.Prefix(), err)
	}
	return removed, nil
}

// unlink deletes keys, and returns how many there were.
func unlink(ctx context.Context, slots Slots, keys iter.Seq[string]) (removed int64, err error) {
	names, gone := make([]string, 0, chunk), make([]*redis.IntCmd, chunk)
	flush := func() error {
		err := inBatches(ctx, slots, len(names), func(b *batch, i int) error {
			p, err := b.on(ctx, names[i])
			if err == nil {
				gone[i] = p.Unlink(ctx, names[i])
			}
			return err
		}, func(first, end int) {
			for _, cmd := range gone[first:end] {
				removed += cmd.Val()
			}
		})
		names = names[:0]
		return err
	}
	for key := range keys {
		if names = append(names, key); len(names) == cap(names) {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	return removed, flush()
}

// EndAll finishes every operation that is left on items 1 to last, and returns how many there were. No audit can tell
// before whose an item is. It may be repeated, and clients may trade meanwhile.
func EndAll(ctx context.Context, slots Slots, keys market.Keys, last market.ItemID) (ended int, err error) {
	trade := Trade{Slots: slots, Keys: keys, Patience: Patience}
	var left []Operation
	err = readItems(ctx, slots, keys, last, func(id market.ItemID, item Item, err error) {
		if err == nil && item.Operation.Sequence != 0 {
			left = append(left, item.Operation)
		}
	})
	for _, op := range left {
		if err == nil {
			err = trade.Finish(ctx, op)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("end the operations of market %s: %w", keys.Prefix(), err)
	}
	return len(left), nil
}

// readItems reads items 1 to last. An item that is not there has no owner; err says what is wrong with what is there.
func readItems(ctx context.Context, slots Slots, keys market.Keys, last market.ItemID,
	see func(id market.ItemID, item Item, err error),
) error {
	replies := make([]*redis.SliceCmd, chunk)
	return inBatches(ctx, slots, int(last), func(b *batch, i int) error {
		key := keys.Item(market.ItemID(i + 1))
		p, err := b.on(ctx, key)
		if err == nil {
			replies[i%chunk] = p.HMGet(ctx, key, itemFields...)
		}
		return err
	}, func(first, end int) {
		for i := first; i < end; i++ {
			id := market.ItemID(i + 1)
			item, err := parseItem(id, replies[i%chunk].Val())
			see(id, item, err)
		}
	})
}

// Audit accounts for every coin and item, as market.Audit does. EndAll comes before it.
func Audit(ctx context.Context, slots Slots, keys market.Keys, o market.Opening, ledgers ...*market.Ledger,
) (market.AuditResult, error) {
	result, err := market.AuditRead(ctx, reader{slots, keys, o.Accounts}, o, ledgers...)
	if err != nil {
		return market.AuditResult{}, fmt.Errorf("audit market %s: %w", keys.Prefix(), err)
	}
	return result, nil
}

// reader is the market.Reader of this layout.
type reader struct {
	slots    Slots
	keys     market.Keys
	accounts int
}

// ReadItems implements market.Reader.
func (r reader) ReadItems(ctx context.Context, last market.ItemID, found func(market.Found)) error {
	return readItems(ctx, r.slots, r.keys, last, func(id market.ItemID, item Item, err error) {
		switch {
		case err != nil:
			found(market.Found{Damage: err.Error()})
		case item.Operation.Sequence != 0:
			found(market.Found{Damage: fmt.Sprintf("%s holds the operation %s, which has not ended", r.keys.Item(id),
				item.Operation.ID())})
		case item.Owner != 0:
			found(market.Found{Item: id, Owner: item.Owner, Listed: item.Listed, Price: float64(item.Price)})
		}
	})
}

// ReadFunds implements market.Reader.
func (r reader) ReadFunds(ctx context.Context, found func(market.UserID, int64, error)) error {
	replies := make([]*redis.StringCmd, chunk)
	return inBatches(ctx, r.slots, r.accounts, func(b *batch, i int) error {
		key := r.keys.Account(market.UserID(i + 1))
		p, err := b.on(ctx, key)
		if err == nil {
			replies[i%chunk] = p.HGet(ctx, key, "funds")
		}
		return err
	}, func(first, end int) {
		for i := first; i < end; i++ {
			funds, err := replies[i%chunk].Int64()
			found(market.UserID(i+1), funds, err)
		}
	})
}

// MintsPartly implements market.Reader: the items of a batch are on many slots.
func (reader) MintsPartly() bool { return true }

// ReadSnapshot reads a market at rest with items 1 to last, as market.ReadSnapshot does. It is for tests and for the end
// of a history.
func ReadSnapshot(ctx context.Context, slots Slots, keys market.Keys, accounts int, last market.ItemID,
) (market.Snapshot, error) {
	s := market.Snapshot{
		Funds: map[market.UserID]int64{}, Inventory: map[market.UserID]map[market.ItemID]bool{}, Listings: map[string]int64{},
	}
	var damage []error
	r := reader{slots, keys, accounts}
	err := r.ReadItems(ctx, last, func(f market.Found) {
		switch {
		case f.Damage != "":
			damage = append(damage, errors.New(f.Damage))
		case f.Listed:
			s.Listings[market.Member(f.Item, f.Owner)] = int64(f.Price)
		default:
			if s.Inventory[f.Owner] == nil {
				s.Inventory[f.Owner] = map[market.ItemID]bool{}
			}
			s.Inventory[f.Owner][f.Item] = true
		}
	})
	if err == nil {
		err = r.ReadFunds(ctx, func(id market.UserID, funds int64, err error) {
			switch {
			case err == nil:
				s.Funds[id] = funds
			case !errors.Is(err, redis.Nil):
				damage = append(damage, fmt.Errorf("read funds of user %d: %w", id, err))
			}
		})
	}
	if err = errors.Join(append(damage, err)...); err != nil {
		return market.Snapshot{}, fmt.Errorf("read market %s: %w", keys.Prefix(), err)
	}
	return s, nil
}

// Funds are the coins in an account.
func Funds(ctx context.Context, slots Slots, keys market.Keys, id market.UserID) (funds int64, err error) {
	key := keys.Account(id)
	err = Persist(ctx, slots, Patience, Again, func(ctx context.Context) error {
		rdb, err := slots.For(ctx, key)
		if err != nil {
			return err
		}
		text, err := rdb.HGet(ctx, key, "funds").Result()
		if err != nil {
			return err
		}
		funds, err = strconv.ParseInt(text, 10, 64)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read funds of user %d: %w", id, err)
	}
	return funds, nil
}
