package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// ReadSnapshot reads a market with accounts 1 to accounts at one instant, in a transaction. It loads everything at once:
// for tests and for the end of a history, not for audits. On Redis Cluster it is one instant only if the prefix keeps the
// market on one slot. A member of an inventory that is no number, and a price that is not whole, is an error.
func ReadSnapshot(ctx context.Context, rdb redis.Cmdable, keys Keys, accounts int) (Snapshot, error) {
	funds, items := make([]*redis.StringCmd, accounts), make([]*redis.StringSliceCmd, accounts)
	var listings *redis.ZSliceCmd
	_, err := rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for i := range accounts {
			funds[i] = tx.HGet(ctx, keys.User(UserID(i+1)), "funds")
			items[i] = tx.SMembers(ctx, keys.Inventory(UserID(i+1)))
		}
		listings = tx.ZRangeWithScores(ctx, keys.Market(), 0, -1)
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
