package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// found is a place where an item was found: with its owner, or on the market if it is listed.
type found struct {
	item   ItemID
	owner  UserID // the seller, if it is listed
	listed bool
	price  float64 // if it is listed
	damage string  // what was found there that is no item; empty: it is one
}

// reader reads a market at rest. Its errors mean that the market could not be read.
type reader struct {
	rdb      redis.Cmdable
	keys     Keys
	accounts int
}

// readItems calls see with where each item lies. It reads many inventories at a time, so that a hundred thousand accounts are not as many
// round trips; of a large one it reads the rest by itself.
func (r reader) readItems(ctx context.Context, see func(found)) error {
	for first := 1; first <= r.accounts; first += inventories {
		var begun []*redis.ScanCmd
		_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for user := first; user < first+inventories && user <= r.accounts; user++ {
				begun = append(begun, p.SScan(ctx, r.keys.Inventory(UserID(user)), 0, "", chunk))
			}
			return nil
		})
		for i, page := range begun {
			if err == nil {
				err = r.readInventory(ctx, UserID(first+i), page, see)
			}
		}
		if err != nil {
			return err
		}
	}
	begun := r.rdb.ZScan(ctx, r.keys.Market(), 0, "", chunk)
	return scan(ctx, begun, func(cursor uint64) *redis.ScanCmd {
		return r.rdb.ZScan(ctx, r.keys.Market(), cursor, "", chunk)
	}, 2, func(listing []string) {
		id, seller, err := ParseMember(listing[0])
		price, priceErr := strconv.ParseFloat(listing[1], 64)
		if err := errors.Join(err, priceErr); err != nil {
			see(found{damage: err.Error()})
			return
		}
		see(found{item: id, owner: seller, listed: true, price: price})
	})
}

// inventories is how many of them are read at a time, each up to chunk items.
const inventories = chunk / 10

// readInventory reads an inventory from its first page on.
func (r reader) readInventory(ctx context.Context, user UserID, begun *redis.ScanCmd, see func(found)) error {
	return scan(ctx, begun, func(cursor uint64) *redis.ScanCmd {
		return r.rdb.SScan(ctx, r.keys.Inventory(user), cursor, "", chunk)
	}, 1, func(item []string) {
		id, err := strconv.ParseInt(item[0], 10, 64)
		if err != nil {
			see(found{damage: fmt.Sprintf("%s holds %q, which is not an item", place(user), item[0])})
			return
		}
		see(found{item: ItemID(id), owner: user})
	})
}

// readFunds calls see with the coins in each account, or why they are not readable there.
func (r reader) readFunds(ctx context.Context, see func(UserID, int64, error)) error {
	for first := 1; first <= r.accounts; first += chunk {
		var replies []redis.Cmder
		_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= r.accounts; id++ {
				replies = append(replies, p.HGet(ctx, r.keys.User(UserID(id)), "funds"))
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return err
		}
		for i, reply := range replies {
			funds, err := reply.(*redis.StringCmd).Int64()
			see(UserID(first+i), funds, err)
		}
	}
	return nil
}

// scan follows a cursor from its first page to its end and calls see with every element, which is n strings. One may come
// twice.
func scan(
	ctx context.Context, page *redis.ScanCmd, next func(cursor uint64) *redis.ScanCmd, n int, see func([]string),
) error {
	for {
		elements, cursor, err := page.Result()
		if err != nil {
			return err
		}
		for element := range slices.Chunk(elements, n) {
			see(element)
		}
		if cursor == 0 {
			return ctx.Err()
		}
		page = next(cursor)
	}
}
