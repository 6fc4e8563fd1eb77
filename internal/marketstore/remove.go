package marketstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// ReadNote reads the note of the run under the prefix. It returns redis.Nil, wrapped,
// when there is none, ErrNote when a part of it is gone, and ErrForeign when it is none.
func ReadNote(ctx context.Context, rdb redis.Cmdable, keys market.Keys) (market.RunNote, error) {
	note, err := readNote(ctx, rdb, keys)
	if err != nil {
		err = fmt.Errorf("read %s: %w", keys.Run(), err)
	}
	return note, err
}

func readNote(ctx context.Context, rdb redis.Cmdable, keys market.Keys) (note market.RunNote, err error) {
	fields, err := rdb.HGetAll(ctx, keys.Run()).Result()
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return note, fmt.Errorf("%w: %w", ErrForeign, err)
	case err != nil:
		return note, err
	case len(fields) == 0:
		return note, redis.Nil
	case len(fields) == 1 && fields["items"] != "": // a run has gone on minting when its note was lost
		return note, ErrNote
	}

	accounts, err := strconv.Atoi(fields["accounts"])
	// A run that was killed between claiming and noting has no items.
	items, wrong := strconv.ParseInt(cmp.Or(fields["items"], "0"), 10, 64)
	err = errors.Join(err, wrong)
	if err == nil && (accounts < 0 || accounts > MaxAccounts || items < 0 || items > MaxItems) {
		err = fmt.Errorf("%d accounts and %d items", accounts, items)
	}
	if err != nil {
		return note, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return market.RunNote{Accounts: accounts, Items: market.ItemID(items), Strategy: fields["strategy"]}, nil
}

// Remove deletes a market by enumerating what its run made, and then locks, the keys its
// locks may have left. It returns how many keys there were. The run's own note goes last,
// so that an interrupted removal can be repeated.
func Remove(
	ctx context.Context, rdb redis.Cmdable, keys market.Keys, n market.RunNote, locks iter.Seq[string],
) (int64, error) {
	return RemoveKeys(ctx, rdb, func(yield func(string) bool) {
		more := yield(keys.Market())
		for id := market.UserID(1); more && id <= market.UserID(n.Accounts); id++ {
			more = yield(keys.User(id)) && yield(keys.Inventory(id))
		}

		// After yield has returned false it must not be called again.
		for key := range locks {
			more = more && yield(key)
			if !more {
				return
			}
		}
		_ = more && yield(keys.Run())
	})
}

// RemoveKeys deletes keys, many at once, and returns how many there were. It keeps their order:
// Remove has the run's note go last.
func RemoveKeys(ctx context.Context, rdb redis.Cmdable, keys iter.Seq[string]) (removed int64, err error) {
	var batch []string
	unlink := func() { // err is nil before each call, which overwrites it
		n, failed := rdb.Unlink(ctx, batch...).Result()
		removed += n
		err = failed
		batch = batch[:0]
	}

	// keys may be read from the server while this goes on: after an error no more are asked for.
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

// Leftovers lists the keys under the prefix on one server that have the names and
// types of a market's and its locks', by SCAN. Made says that a note or an account
// among them shows that a run made them: without one they may be another program's.
func Leftovers(ctx context.Context, rdb redis.Cmdable, keys market.Keys) (found []string, made bool, err error) {
	for cursor := uint64(0); ; {
		var page []string
		page, cursor, err = rdb.Scan(ctx, cursor, keys.Prefix()+"*", 10*chunk).Result()
		if err != nil {
			return nil, false, fmt.Errorf("look for keys under %s: %w", keys.Prefix(), err)
		}

		ours, err := ofMarket(ctx, rdb, keys, page)
		if err != nil {
			return nil, false, err
		}
		found = append(found, ours...)
		for _, key := range ours {
			if made {
				break
			}
			made, err = madeByRun(ctx, rdb, keys, key)
			if err != nil {
				return nil, false, atKey(key, err)
			}
		}

		if cursor == 0 {
			slices.Sort(found)
			return slices.Compact(found), made, nil // SCAN may name a key twice
		}
	}
}

// ofMarket returns the keys of a page of SCAN that have a name of the market's, and the type
// that belongs to it, in no order.
func ofMarket(ctx context.Context, rdb redis.Cmdable, keys market.Keys, page []string) (ours []string, err error) {
	types := map[string]*redis.StatusCmd{}
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // the error of each is with it
		for _, key := range page {
			if _, named := keys.TypeOf(key); named {
				types[key] = p.Type(ctx, key)
			}
		}
		return nil
	})

	for key, reply := range types {
		if reply.Err() != nil {
			return nil, atKey(key, reply.Err())
		}
		if want, _ := keys.TypeOf(key); want == "" || want == reply.Val() { // a lock may have any type
			ours = append(ours, key)
		}
	}
	return ours, nil
}

// madeByRun reports whether a key shows that a run made it: the note, or an account with
// the name that runs give. Other programs may have keys like the others.
func madeByRun(ctx context.Context, rdb redis.Cmdable, keys market.Keys, key string) (bool, error) {
	id, isAccount := keys.AccountOf(key)
	if !isAccount {
		return key == keys.Run(), nil
	}

	name, err := rdb.HGet(ctx, key, "name").Result()
	if err == redis.Nil {
		return false, nil
	}
	return name == accountName(id), err
}
