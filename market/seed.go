package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The sizes of a market: BatchSize is how many items one Mint makes. ReadMade accepts
// MaxAccounts and MaxItems at most.
const (
	BatchSize   = 1000
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
	// ErrNote is returned by ReadMade for a note that has lost its beginning, as when a
	// server lost its keys in a run, and ErrForeign for what no run has written.
	ErrNote    = errors.New("the run's note is not whole")
	ErrForeign = errors.New("not a note of marketsim")
)

// Opening is what a market starts with: accounts 1 to Accounts, holding Funds coins each.
type Opening struct {
	Accounts int
	Funds    int64
	// Who trades here, as a canonical spec; from it Remove's caller knows which
	// locks there may be.
	Strategy string
}

// Seed opens a market: it claims the prefix, notes what it will make there, and makes the
// accounts. ErrOccupied means that another run has claimed the prefix, ErrUnclaimed that
// the claim failed. Another error may leave half a market.
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
				p.Do(ctx, AccountCommand(keys, UserID(id), o.Funds)...)
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
func AccountCommand(keys Keys, id UserID, funds int64) []any {
	return []any{"hset", keys.User(id), "name", accountName(decimal(id)), "funds", funds}
}

// Offer moves items of one seller from the inventory to the market, all at once in a
// transaction: what a market begins with, not what is measured.
func Offer(ctx context.Context, rdb redis.Cmdable, keys Keys, listings ...Listing) error {
	leave := []any{"srem", keys.Inventory(listings[0].Seller)}
	enter := []any{"zadd", keys.Market()}
	for _, l := range listings {
		leave = append(leave, int64(l.Item))
		enter = append(enter, l.Price, Member(l.Item, l.Seller))
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

func accountName(id string) string { return "user-" + id }

// Occupied returns ErrOccupied, naming a key, when any key exists under the
// prefix. It walks the names of the whole keyspace with SCAN, so it is for
// prefixes that a person chose.
func Occupied(ctx context.Context, rdb redis.Cmdable, keys Keys) error {
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
// deletes; empty: there is none.
func MissingKey(ctx context.Context, rdb redis.Cmdable, keys Keys, o Opening) (string, error) {
	there, err := rdb.HExists(ctx, keys.Run(), "accounts").Result()
	if err != nil || !there {
		return keys.Run(), looked(keys.Run(), err)
	}
	for first := 1; first <= o.Accounts; first += chunk {
		var named []*redis.BoolCmd
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= o.Accounts; id++ {
				named = append(named, p.HExists(ctx, keys.User(UserID(id)), "name"))
			}
			return nil
		})
		for i, reply := range named {
			if key := keys.User(UserID(first + i)); err != nil || !reply.Val() {
				return key, looked(key, cmp.Or(reply.Err(), err))
			}
		}
	}
	return "", nil
}

// looked says at which key a failure was met, if any.
func looked(key string, err error) error {
	if err != nil {
		err = fmt.Errorf("look at key %s: %w", key, err)
	}
	return err
}

// Mint gives owner BatchSize new items and returns the id of the first; the
// others follow without gaps. On an error the batch does not exist if first is
// zero, and may exist otherwise.
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

// Made is what a run noted about itself under its prefix: enough to remove it
// by enumeration.
type Made struct {
	Accounts int
	Items    ItemID // the highest id that may have been minted
	Strategy string // canonical spec
}

// ReadMade reads the note of the run under the prefix. It returns redis.Nil, wrapped,
// when there is none, ErrNote when a part of it is gone, and ErrForeign when it is none.
func ReadMade(ctx context.Context, rdb redis.Cmdable, keys Keys) (made Made, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %s: %w", keys.Run(), err)
		}
	}()
	note, err := rdb.HGetAll(ctx, keys.Run()).Result()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return made, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return made, err
	case len(note) == 0:
		return made, redis.Nil
	case len(note) == 1 && note["items"] != "": // a run has gone on minting when its note was lost
		return made, ErrNote
	}
	accounts, err1 := strconv.Atoi(note["accounts"])
	// None: killed between claiming and noting.
	items, err2 := strconv.ParseInt(cmp.Or(note["items"], "0"), 10, 64)
	err = errors.Join(err1, err2)
	if err == nil && (accounts < 0 || accounts > MaxAccounts || items < 0 || items > MaxItems) {
		err = fmt.Errorf("%d accounts and %d items", accounts, items)
	}
	if err != nil {
		return made, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return Made{Accounts: accounts, Items: ItemID(items), Strategy: note["strategy"]}, nil
}

// Remove deletes a market by enumerating what its run made, and then locks, the keys its
// locks may have left. It returns how many keys there were. The run's own note goes last,
// so that an interrupted removal can be repeated.
func Remove(ctx context.Context, rdb redis.Cmdable, keys Keys, m Made, locks iter.Seq[string]) (int64, error) {
	return RemoveKeys(ctx, rdb, func(yield func(string) bool) {
		more := yield(keys.Market())
		for id := UserID(1); more && id <= UserID(m.Accounts); id++ {
			more = yield(keys.User(id)) && yield(keys.Inventory(id))
		}
		for key := range locks {
			more = more && yield(key)
			if !more {
				return
			}
		}
		_ = more && yield(keys.Run())
	})
}

// RemoveKeys deletes keys, many at once, and returns how many there were.
func RemoveKeys(ctx context.Context, rdb redis.Cmdable, keys iter.Seq[string]) (removed int64, err error) {
	var batch []string
	unlink := func() {
		n, failed := rdb.Unlink(ctx, batch...).Result()
		batch, removed, err = batch[:0], removed+n, failed
	}
	for key := range keys {
		batch = append(batch, key)
		if len(batch) == chunk {
			unlink()
		}
		if err != nil {
			break
		}
	}
	if len(batch) > 0 {
		unlink()
	}
	if err != nil {
		err = fmt.Errorf("remove keys: %w", err)
	}
	return removed, err
}
