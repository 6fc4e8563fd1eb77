package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const chunk = 1000 // keys that are read in one command or one pipeline, at most

// found is a place where an item was found: with its owner, or on the market if
// it is listed.
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

// readItems calls see with where each item lies, which may come twice.
func (r reader) readItems(ctx context.Context, see func(found)) error {
	for user := UserID(1); user <= UserID(r.accounts); user++ {
		items := r.rdb.SScan(ctx, r.keys.Inventory(user), 0, "", chunk).Iterator()
		for items.Next(ctx) {
			id, err := strconv.ParseInt(items.Val(), 10, 64)
			f := found{item: ItemID(id), owner: user}
			if err != nil {
				f = found{damage: fmt.Sprintf("inventory:%d holds %q, which is not an item", user, items.Val())}
			}
			see(f)
		}
		if err := cmp.Or(items.Err(), ctx.Err()); err != nil {
			return err
		}
	}

	listings := r.rdb.ZScan(ctx, r.keys.Market(), 0, "", chunk).Iterator()
	for listings.Next(ctx) {
		id, seller, err := ParseMember(listings.Val())
		listings.Next(ctx) // its price
		price, priceErr := strconv.ParseFloat(listings.Val(), 64)
		f := found{item: id, owner: seller, listed: true, price: price}
		if err := errors.Join(err, priceErr); err != nil {
			f = found{damage: err.Error()}
		}
		see(f)
	}
	return cmp.Or(listings.Err(), ctx.Err())
}

// readFunds calls see with the coins in each account, or why they are not readable there:
// redis.Nil if the account, or its field, is gone.
func (r reader) readFunds(ctx context.Context, see func(UserID, int64, error)) error {
	for first := 1; first <= r.accounts; first += chunk {
		var replies []*redis.StringCmd
		_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= r.accounts; id++ {
				replies = append(replies, p.HGet(ctx, r.keys.User(UserID(id)), "funds"))
			}
			return nil
		})
		if isUnread(err) { // replies need not have it where no connection could be opened
			return err
		}

		// redis.Nil may be of the first reply alone: after an account that is gone the connection
		// may have broken, and what was not read then is no damage.
		for i, reply := range replies {
			if err := reply.Err(); isUnread(err) {
				return err
			}
			funds, err := reply.Int64()
			see(UserID(first+i), funds, err)
		}
	}
	return nil
}

// isUnread reports whether an error leaves open what is there: redis.Nil says that nothing is.
func isUnread(err error) bool { return err != nil && !errors.Is(err, redis.Nil) }

// Snapshot is the whole state of a small market, for comparing two of them.
type Snapshot struct {
	Funds     map[UserID]int64           // without accounts that are not there
	Inventory map[UserID]map[ItemID]bool // users who own something
	Listings  map[string]int64           // price by Member
}

func newSnapshot() Snapshot {
	return Snapshot{
		Funds:     map[UserID]int64{},
		Inventory: map[UserID]map[ItemID]bool{},
		Listings:  map[string]int64{},
	}
}

func (s Snapshot) put(user UserID, item ItemID) {
	if s.Inventory[user] == nil {
		s.Inventory[user] = map[ItemID]bool{}
	}
	s.Inventory[user][item] = true
}

// maxReads bounds how often a market is read until it does not change.
const maxReads = 10

// ReadSnapshot reads a market with accounts 1 to accounts. It reads until two
// readings are equal, so that a late write does not tear the snapshot; a transaction
// would do the same, but a server without free memory refuses it. It returns an
// error when the market keeps changing, and when it holds what is no item, no
// listing, or no whole number of coins.
func ReadSnapshot(ctx context.Context, rdb redis.Cmdable, keys Keys, accounts int) (Snapshot, error) {
	var before Snapshot
	for range maxReads {
		s, err := reader{rdb, keys, accounts}.snapshot(ctx)
		if err != nil {
			return Snapshot{}, fmt.Errorf("read the market: %w", err)
		}
		if reflect.DeepEqual(s, before) {
			return s, nil
		}
		before = s
	}
	return Snapshot{}, fmt.Errorf("read the market: it changed between %d readings; stop what writes to it", maxReads)
}

// snapshot reads the market once. What is damaged is left out of it, and is in the error beside
// all else that is damaged: who looks for the cause wants to see the whole.
func (r reader) snapshot(ctx context.Context) (Snapshot, error) {
	s := newSnapshot()
	var wrong []error
	err := r.readFunds(ctx, func(id UserID, funds int64, err error) {
		switch {
		case err == nil:
			s.Funds[id] = funds
		case !errors.Is(err, redis.Nil): // which would be an account that was never opened
			wrong = append(wrong, fmt.Errorf("funds of user %d: %w", id, err))
		}
	})
	if err != nil {
		return s, err
	}

	err = r.readItems(ctx, func(f found) {
		switch {
		case f.damage != "":
			wrong = append(wrong, errors.New(f.damage))
		case f.price != float64(int64(f.price)):
			wrong = append(wrong, fmt.Errorf("item %d is listed at %v, which is no whole number of coins", f.item, f.price))
		case f.listed:
			s.Listings[Member(f.item, f.owner)] = int64(f.price)
		default:
			s.put(f.owner, f.item)
		}
	})

	return s, errors.Join(err, errors.Join(wrong...))
}
