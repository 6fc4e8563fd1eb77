package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// BatchSize is how many items one Mint makes.
const BatchSize = 1000

// chunk bounds how many commands or keys go into one pipeline or one command.
const chunk = 1000

// maxAccounts and maxItems bound what a note is believed.
const (
	maxAccounts = 1_000_000
	maxItems    = 10_000_000_000
)

// ErrOccupied is returned when keys exist under a prefix that a run wants for itself.
var ErrOccupied = errors.New("prefix already holds keys")

// ErrUnclaimed is returned by Seed when it is not known to have claimed the prefix: what is under it may be somebody
// else's.
var ErrUnclaimed = errors.New("prefix was not claimed")

// Opening is what a market starts with: accounts 1 to Accounts, holding Funds coins each.
type Opening struct {
	Accounts int
	Funds    int64
	Strategy string // who trades here, as a canonical spec: tells Remove's caller which locks there may be
}

// Seed opens a market: it claims the prefix and makes the accounts. It returns ErrOccupied when another run has
// claimed the prefix, and ErrUnclaimed when the claim failed. After any other error there may be half a market.
func Seed(ctx context.Context, rdb redis.Cmdable, keys Keys, o Opening) error {
	claimed, err := rdb.HSetNX(ctx, keys.Run(), "accounts", o.Accounts).Result()
	if err != nil {
		return fmt.Errorf("seed market %s: %w: %w", keys.Prefix(), ErrUnclaimed, err)
	}
	if !claimed {
		return fmt.Errorf("%w: %s exists", ErrOccupied, keys.Run())
	}
	if err := rdb.HSet(ctx, keys.Run(), "items", 0, "strategy", o.Strategy).Err(); err != nil {
		return fmt.Errorf("seed market %s: %w", keys.Prefix(), err)
	}
	for first := 1; first <= o.Accounts; first += chunk {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= o.Accounts; id++ {
				p.HSet(ctx, keys.User(UserID(id)), "name", "user-"+strconv.Itoa(id), "funds", o.Funds)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("seed accounts of market %s: %w", keys.Prefix(), err)
		}
	}
	return nil
}

// Occupied returns ErrOccupied, naming a key, when any key exists under the prefix. It walks the names of the whole
// keyspace with SCAN, so it is for prefixes that a person chose; one drawn at random needs no such check.
func Occupied(ctx context.Context, rdb redis.Cmdable, keys Keys) error {
	it := rdb.Scan(ctx, 0, keys.Prefix()+"*", 10*chunk).Iterator()
	if it.Next(ctx) {
		return fmt.Errorf("%w: %s exists; choose another prefix, or remove what an earlier run left with"+
			" 'marketsim clean --prefix %s'", ErrOccupied, it.Val(), keys.Prefix())
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("look for keys under %s: %w", keys.Prefix(), err)
	}
	return nil
}

// Mint gives owner BatchSize new items and returns the id of the first; the others follow without gaps. On an
// error the batch may or may not exist when first is not zero, and does not exist when it is.
func Mint(ctx context.Context, rdb redis.Cmdable, keys Keys, owner UserID) (first ItemID, err error) {
	last, err := rdb.HIncrBy(ctx, keys.Run(), "items", BatchSize).Result()
	if err != nil {
		return 0, fmt.Errorf("reserve items for user %d: %w", owner, err)
	}
	first = ItemID(last - BatchSize + 1)
	items := make([]any, BatchSize)
	for i := range items {
		items[i] = int64(first) + int64(i)
	}
	if err := rdb.SAdd(ctx, keys.Inventory(owner), items...).Err(); err != nil {
		return first, fmt.Errorf("mint items for user %d: %w", owner, err)
	}
	return first, nil
}

// Made is what a run noted about itself under its prefix: enough to remove it by enumeration.
type Made struct {
	Accounts int
	Items    ItemID // the highest id that may have been minted
	Strategy string // canonical spec
}

// ReadMade reads the note of the run under the prefix. It returns redis.Nil, wrapped, when there is none.
func ReadMade(ctx context.Context, rdb redis.Cmdable, keys Keys) (Made, error) {
	note, err := rdb.HGetAll(ctx, keys.Run()).Result()
	if err == nil && len(note) == 0 {
		err = redis.Nil
	}
	if err != nil {
		return Made{}, fmt.Errorf("read %s: %w", keys.Run(), err)
	}
	accounts, err1 := strconv.Atoi(note["accounts"])
	items, err2 := strconv.ParseInt(note["items"], 10, 64)
	if note["items"] == "" { // killed between claiming and noting
		items, err2 = 0, nil
	}
	if err := errors.Join(err1, err2); err != nil {
		return Made{}, fmt.Errorf("read %s: not a note of marketsim: %w", keys.Run(), err)
	}
	if accounts < 0 || accounts > maxAccounts || items < 0 || items > maxItems {
		return Made{}, fmt.Errorf("read %s: not a note of marketsim: %d accounts and %d items", keys.Run(), accounts, items)
	}
	return Made{Accounts: accounts, Items: ItemID(items), Strategy: note["strategy"]}, nil
}

// Remove deletes a market by enumerating what its run made, and then locks, the keys its locks may have left. It
// returns how many keys there were. The run's own note goes last, so that an interrupted removal can be repeated.
func Remove(ctx context.Context, rdb redis.Cmdable, keys Keys, m Made, locks iter.Seq[string]) (removed int64, err error) {
	removed, err = unlink(ctx, rdb, made(keys, m, locks))
	if err != nil {
		return removed, fmt.Errorf("remove market %s: %w", keys.Prefix(), err)
	}
	return removed, nil
}

// RemoveLocks deletes keys of locks from a market that stays, and returns how many there were. Nobody may hold one.
func RemoveLocks(ctx context.Context, rdb redis.Cmdable, locks iter.Seq[string]) (removed int64, err error) {
	removed, err = unlink(ctx, rdb, locks)
	if err != nil {
		return removed, fmt.Errorf("remove locks: %w", err)
	}
	return removed, nil
}

// unlink deletes keys, many at once, and returns how many there were.
func unlink(ctx context.Context, rdb redis.Cmdable, keys iter.Seq[string]) (removed int64, err error) {
	batch := make([]string, 0, chunk)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n, err := rdb.Unlink(ctx, batch...).Result()
		batch, removed = batch[:0], removed+n
		return err
	}
	for key := range keys {
		if batch = append(batch, key); len(batch) == cap(batch) {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	err = flush()
	return removed, err
}

// made enumerates the keys of a market.
func made(keys Keys, m Made, locks iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := UserID(1); id <= UserID(m.Accounts); id++ {
			if !yield(keys.User(id)) || !yield(keys.Inventory(id)) {
				return
			}
		}
		if !yield(keys.Market()) {
			return
		}
		for key := range locks {
			if !yield(key) {
				return
			}
		}
		yield(keys.Run())
	}
}
