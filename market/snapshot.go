package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Snapshot is the whole state of a small market, for comparing two of them.
type Snapshot struct {
	Funds     map[UserID]int64           // without accounts that are not there
	Inventory map[UserID]map[ItemID]bool // users who own something
	Listings  map[string]int64           // price by Member
}

func newSnapshot() Snapshot {
	return Snapshot{
		Funds: map[UserID]int64{}, Inventory: map[UserID]map[ItemID]bool{}, Listings: map[string]int64{},
	}
}

func (s Snapshot) clone() Snapshot {
	c := Snapshot{maps.Clone(s.Funds), map[UserID]map[ItemID]bool{}, maps.Clone(s.Listings)}
	for user, items := range s.Inventory {
		c.Inventory[user] = maps.Clone(items)
	}
	return c
}

// put adds an item to an inventory.
func (s Snapshot) put(user UserID, item ItemID) {
	if s.Inventory[user] == nil {
		s.Inventory[user] = map[ItemID]bool{}
	}
	s.Inventory[user][item] = true
}

// take removes an item from an inventory; empty inventories do not exist, as in Redis.
func (s Snapshot) take(user UserID, item ItemID) {
	delete(s.Inventory[user], item)
	if len(s.Inventory[user]) == 0 {
		delete(s.Inventory, user)
	}
}

// maxReads bounds how often a market is read until it does not change.
const maxReads = 10

// ReadSnapshot reads a market with accounts 1 to accounts, again and again until two readings are equal, so that what comes
// late does not tear it. It is not read in a transaction, which a server without free memory refuses. It loads everything
// at once: for tests and for the end of a history, not for audits. A market that does not come to rest, a member of an
// inventory that is no number, and a price that is not whole, is an error.
func ReadSnapshot(ctx context.Context, rdb redis.Cmdable, keys Keys, accounts int) (Snapshot, error) {
	before, err := readOnce(ctx, rdb, keys, accounts)
	for range maxReads - 1 {
		if err != nil {
			return Snapshot{}, err
		}
		var s Snapshot
		if s, err = readOnce(ctx, rdb, keys, accounts); err == nil && reflect.DeepEqual(s, before) {
			return s, nil
		}
		before = s
	}
	return Snapshot{}, errors.Join(err, fmt.Errorf("read the market: it changed between %d readings; stop what writes to it", maxReads))
}

func readOnce(ctx context.Context, rdb redis.Cmdable, keys Keys, accounts int) (Snapshot, error) {
	funds, items := make([]*redis.StringCmd, accounts), make([]*redis.StringSliceCmd, accounts)
	var listings *redis.ZSliceCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range accounts {
			funds[i] = p.HGet(ctx, keys.User(UserID(i+1)), "funds")
			items[i] = p.SMembers(ctx, keys.Inventory(UserID(i+1)))
		}
		listings = p.ZRangeWithScores(ctx, keys.Market(), 0, -1)
		return nil
	})
	var told redis.Error // of a command, and told with it below
	if err != nil && !errors.As(err, &told) {
		return Snapshot{}, fmt.Errorf("read the market: %w", err)
	}
	s := newSnapshot()
	for i := range accounts {
		if err := s.readAccount(UserID(i+1), funds[i], items[i]); err != nil {
			return Snapshot{}, err
		}
	}
	return s, s.readListings(listings)
}

func (s Snapshot) readAccount(id UserID, funds *redis.StringCmd, items *redis.StringSliceCmd) error {
	switch coins, err := funds.Int64(); {
	case err == nil:
		s.Funds[id] = coins
	case !errors.Is(err, redis.Nil):
		return fmt.Errorf("read funds of user %d: %w", id, err)
	}
	members, err := items.Result()
	if err != nil {
		return fmt.Errorf("read inventory of user %d: %w", id, err)
	}
	for _, member := range members {
		item, err := strconv.ParseInt(member, 10, 64)
		if err != nil {
			return fmt.Errorf("read inventory of user %d: %w", id, err)
		}
		s.put(id, ItemID(item))
	}
	return nil
}

func (s Snapshot) readListings(listings *redis.ZSliceCmd) error {
	members, err := listings.Result()
	if err != nil {
		return fmt.Errorf("read listings: %w", err)
	}
	for _, z := range members {
		price := int64(z.Score)
		if float64(price) != z.Score {
			return fmt.Errorf("read listings: %q is listed at %v, which is no whole number of coins", z.Member, z.Score)
		}
		s.Listings[z.Member.(string)] = price
	}
	return nil
}
