// Package marketstore keeps markets in Redis: it opens and fills them, and removes what a
// run left. [Reference] is one in memory, to compare others with. Package market has what
// a market is, and spells its keys.
package marketstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// ReadNote accepts notes of at most MaxAccounts and MaxItems.
const (
	MaxAccounts = 1_000_000
	MaxItems    = 10_000_000_000
	chunk       = 1000 // commands or keys in one pipeline or one command at most
)

// The errors of a prefix and of the note under it.
var (
	ErrOccupied = errors.New("prefix already holds keys")
	// ErrUnclaimed is returned by Seed where it is not known whether it claimed the
	// prefix, whose keys may be another's.
	ErrUnclaimed = errors.New("prefix was not claimed")
	// ErrNote is returned by ReadNote for a note that has lost its beginning, as when a
	// server lost its keys in a run, and ErrForeign for what no run has written.
	ErrNote    = errors.New("the run's note is not whole")
	ErrForeign = errors.New("not a note of marketsim")
)

// Seed opens a market: it claims the prefix, notes what it will make there, and makes the
// accounts. ErrOccupied means that another run has claimed the prefix, ErrUnclaimed that
// the claim failed. Another error may leave half a market.
func Seed(ctx context.Context, rdb redis.Cmdable, keys market.Keys, o market.Opening) error {
	// The claim is a field that nothing else writes: by it MissingKey knows the note.
	claimed, err := rdb.HSetNX(ctx, keys.Run(), "accounts", o.Accounts).Result()
	if err != nil {
		return fmt.Errorf("seed market %s: %w: %w", keys.Prefix(), ErrUnclaimed, err)
	}
	if !claimed {
		return fmt.Errorf("%w: %s exists", ErrOccupied, keys.Run())
	}

	// From here on the note says how far the market may have come, so that clean can remove it.
	if err := rdb.HSet(ctx, keys.Run(), "items", 0, "strategy", o.Strategy).Err(); err != nil {
		return fmt.Errorf("seed market %s: %w", keys.Prefix(), err)
	}

	for first := 1; first <= o.Accounts; first += chunk {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= o.Accounts; id++ {
				p.Do(ctx, AccountCommand(keys, market.UserID(id), o.Funds)...)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("seed accounts of market %s: %w", keys.Prefix(), err)
		}
	}
	return nil
}

// AccountCommand is the command that opens the account of a user with funds coins.
func AccountCommand(keys market.Keys, id market.UserID, funds int64) []any {
	return []any{"hset", keys.User(id), "name", accountName(id), "funds", funds}
}

func accountName(id market.UserID) string { return fmt.Sprintf("user-%d", id) }

// Offer moves items of one seller from the inventory to the market, all at once in a
// transaction: what a market begins with, not what is measured. There is at least one
// listing.
func Offer(ctx context.Context, rdb redis.Cmdable, keys market.Keys, listings ...market.Listing) error {
	leave := []any{"srem", keys.Inventory(listings[0].Seller)}
	enter := []any{"zadd", keys.Market()}
	for _, l := range listings {
		leave = append(leave, int64(l.Item))
		enter = append(enter, l.Price, market.Member(l.Item, l.Seller))
	}

	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, leave...)
		p.Do(ctx, enter...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %d items of user %d: %w", len(listings), listings[0].Seller, err)
	}
	return nil
}

// Occupied returns ErrOccupied, naming a key, when any key exists under the
// prefix. It walks the names of the whole keyspace with SCAN, so it is for
// prefixes that a person chose.
func Occupied(ctx context.Context, rdb redis.Cmdable, keys market.Keys) error {
	it := rdb.Scan(ctx, 0, keys.Prefix()+"*", 10*chunk).Iterator()
	for it.Next(ctx) {
		return fmt.Errorf("%w: %s exists; choose another prefix, or remove what an earlier run left", ErrOccupied, it.Val())
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("look for keys under %s: %w", keys.Prefix(), err)
	}
	return nil
}

// MissingKey names a key that is gone, or has lost what Seed wrote, and that only Remove
// deletes; empty: there is none. With an error nothing is known of any key.
func MissingKey(ctx context.Context, rdb redis.Cmdable, keys market.Keys, o market.Opening) (string, error) {
	// It asks for fields that only Seed writes: minting and trading make a lost key again, without
	// them.
	there, err := rdb.HExists(ctx, keys.Run(), "accounts").Result()
	if err != nil || !there {
		return keys.Run(), atKey(keys.Run(), err)
	}

	for first := 1; first <= o.Accounts; first += chunk {
		var named []*redis.BoolCmd
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= o.Accounts; id++ {
				named = append(named, p.HExists(ctx, keys.User(market.UserID(id)), "name"))
			}
			return nil
		})
		for i, reply := range named {
			if key := keys.User(market.UserID(first + i)); err != nil || !reply.Val() {
				return key, atKey(key, cmp.Or(reply.Err(), err))
			}
		}
	}
	return "", nil
}

// atKey says at which key a failure was met, if any.
func atKey(key string, err error) error {
	if err != nil {
		err = fmt.Errorf("look at key %s: %w", key, err)
	}
	return err
}

// Mint gives owner BatchSize new items and returns the id of the first; the
// others follow without gaps. On an error the batch does not exist if first is
// zero, and may exist otherwise.
func Mint(
	ctx context.Context, rdb redis.Cmdable, keys market.Keys, owner market.UserID,
) (first market.ItemID, err error) {
	// The note counts items before there are any: by it Remove is told of the locks of each.
	last, err := rdb.HIncrBy(ctx, keys.Run(), "items", market.BatchSize).Result()
	if err != nil {
		return 0, fmt.Errorf("reserve items for user %d: %w", owner, err)
	}

	first = market.ItemID(last - market.BatchSize + 1)
	items := make([]any, market.BatchSize)
	for i := range items {
		items[i] = int64(first) + int64(i)
	}

	if err := rdb.SAdd(ctx, keys.Inventory(owner), items...).Err(); err != nil {
		return first, fmt.Errorf("mint items for user %d: %w", owner, err)
	}
	return first, nil
}
