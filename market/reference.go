package market

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Reference is the market in memory, one operation at a time: the sequential oracle. It is a Purchaser, safe for
// concurrent use.
type Reference struct {
	mu    sync.Mutex
	state Snapshot
	next  ItemID
}

var _ Purchaser = (*Reference)(nil)

// NewReference opens a reference market, as Seed opens one in Redis.
func NewReference(o Opening) *Reference {
	r := &Reference{state: newSnapshot(), next: 1}
	for id := UserID(1); id <= UserID(o.Accounts); id++ {
		r.state.Funds[id] = o.Funds
	}
	return r
}

// Mint gives owner BatchSize new items, as the function Mint does in Redis.
func (r *Reference) Mint(owner UserID) (first ItemID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.next
	for r.next < first+BatchSize {
		r.state.put(owner, r.next)
		r.next++
	}
	return first
}

// List implements Purchaser.
func (r *Reference) List(_ context.Context, l Listing) (Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.state.Inventory[l.Seller][l.Item] {
		return Receipt{}, ErrNotOwned
	}
	r.state.take(l.Seller, l.Item)
	r.state.Listings[Member(l.Item, l.Seller)] = l.Price
	return Receipt{}, nil
}

// Purchase implements Purchaser.
func (r *Reference) Purchase(_ context.Context, o Order) (Receipt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	member := Member(o.Item, o.Seller)
	price, listed := r.state.Listings[member]
	switch {
	case !listed:
		return Receipt{}, ErrNotListed
	case price != o.Price:
		return Receipt{}, ErrPriceChanged
	case r.state.Funds[o.Buyer] < price:
		return Receipt{}, ErrInsufficientFunds
	}
	r.state.Funds[o.Seller] += price
	r.state.Funds[o.Buyer] -= price
	r.state.put(o.Buyer, o.Item)
	delete(r.state.Listings, member)
	return Receipt{}, nil
}

// Snapshot returns a copy of the whole state.
func (r *Reference) Snapshot() Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.clone()
}

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

// ReadSnapshot reads a market with accounts 1 to accounts. It reads until two readings are equal, so that a late write
// does not tear the snapshot; a transaction would do the same, but a server without free memory refuses it. It loads
// everything at once: for tests and for the end of a history, not for audits. It returns an error when the market keeps
// changing, when a member of an inventory is no number, and when a price is not a whole number of coins.
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
	return Snapshot{}, errors.Join(err,
		fmt.Errorf("read the market: it changed between %d readings; stop what writes to it", maxReads))
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
	var answered redis.Error // a single command's, which is returned with that command below
	if err != nil && !errors.As(err, &answered) {
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
