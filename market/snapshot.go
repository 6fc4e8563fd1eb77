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

// ReadSnapshot reads a market with accounts 1 to accounts. It loads everything at once: for tests, not for audits.
func ReadSnapshot(ctx context.Context, rdb redis.Cmdable, keys Keys, accounts int) (Snapshot, error) {
	s := newSnapshot()
	for id := UserID(1); id <= UserID(accounts); id++ {
		funds, err := rdb.HGet(ctx, keys.User(id), "funds").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return Snapshot{}, fmt.Errorf("read funds of user %d: %w", id, err)
		}
		if err == nil {
			s.Funds[id] = funds
		}
		items, err := rdb.SMembers(ctx, keys.Inventory(id)).Result()
		if err != nil {
			return Snapshot{}, fmt.Errorf("read inventory of user %d: %w", id, err)
		}
		for _, item := range items {
			n, err := strconv.ParseInt(item, 10, 64)
			if err != nil {
				return Snapshot{}, fmt.Errorf("read inventory of user %d: %w", id, err)
			}
			s.put(id, ItemID(n))
		}
	}
	listings, err := rdb.ZRangeWithScores(ctx, keys.Market(), 0, -1).Result()
	if err != nil {
		return Snapshot{}, fmt.Errorf("read listings: %w", err)
	}
	for _, z := range listings {
		s.Listings[z.Member.(string)] = int64(z.Score)
	}
	return s, nil
}
