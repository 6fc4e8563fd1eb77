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

// readItems calls see with where each item lies.
func (r reader) readItems(ctx context.Context, see func(found)) error {
	for user := UserID(1); user <= UserID(r.accounts); user++ {
		if err := r.readInventory(ctx, user, see); err != nil {
			return err
		}
	}
	return scan(ctx, func(cursor uint64) *redis.ScanCmd {
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

func (r reader) readInventory(ctx context.Context, user UserID, see func(found)) error {
	return scan(ctx, func(cursor uint64) *redis.ScanCmd {
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

// scan follows a cursor to its end and calls see with every element, which is n strings. One may come twice.
func scan(ctx context.Context, page func(cursor uint64) *redis.ScanCmd, n int, see func([]string)) error {
	for cursor := uint64(0); ; {
		elements, next, err := page(cursor).Result()
		if err != nil {
			return err
		}
		for element := range slices.Chunk(elements, n) {
			see(element)
		}
		if cursor = next; cursor == 0 {
			return ctx.Err()
		}
	}
}
