package markettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// worker is a Purchaser whose ledger is kept.
type worker struct {
	floor     *floor
	conn      *backend.Conn
	purchaser market.Purchaser
	ledger    *market.Ledger
}

func (w *worker) list(ctx context.Context, l market.Listing) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err := w.purchaser.List(ctx, l)
	w.ledger.Listed(l, err)
	return err
}

func (w *worker) purchase(ctx context.Context, o market.Order) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err := w.purchaser.Purchase(ctx, o)
	w.ledger.Purchased(o, err)
	return err
}

// lists lists an item of the seller's, which must succeed, and returns the buyer's order of it.
func (w *worker) lists(item market.ItemID, price int64) market.Order {
	w.floor.Helper()
	w.floor.applied(w.list(w.floor.ctx, market.Listing{Item: item, Seller: seller, Price: price}))
	return market.Order{Item: item, Seller: seller, Buyer: buyer, Price: price}
}

// leftNothing checks that the worker holds no lock and watches no key: writes by others to everything in the market
// do not abort its next transaction.
func (w *worker) leftNothing(after string) {
	f := w.floor
	f.Helper()
	f.onlyTheMarket()
	f.touch()
	_, err := w.conn.TxPipelined(f.ctx, func(p redis.Pipeliner) error { return p.Ping(f.ctx).Err() })
	if errors.Is(err, redis.TxFailedErr) {
		f.Errorf("%s left a WATCH behind on the worker's connection", after)
	} else if err != nil {
		f.Errorf("the worker's connection is not usable after %s: %v", after, err)
	}
}

// touch writes to every key of the market and changes nothing.
func (f *floor) touch() {
	f.Helper()
	_, err := f.conn.Pipelined(f.ctx, func(p redis.Pipeliner) error {
		p.ZAdd(f.ctx, f.keys.Market(), redis.Z{Member: "touch"})
		p.ZRem(f.ctx, f.keys.Market(), "touch")
		for id := market.UserID(1); id <= market.UserID(f.opening.Accounts); id++ {
			p.HSet(f.ctx, f.keys.User(id), "touch", "")
			p.HDel(f.ctx, f.keys.User(id), "touch")
			p.SAdd(f.ctx, f.keys.Inventory(id), "touch")
			p.SRem(f.ctx, f.keys.Inventory(id), "touch")
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// applied checks that an operation was applied.
func (f *floor) applied(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("the operation was not applied: %v", err)
	}
}

// refused checks that an operation was refused for a reason and that the market is as it was before.
func (f *floor) refused(err, why error, before market.Snapshot) {
	f.Helper()
	if !errors.Is(err, why) {
		f.Errorf("the operation returned %v, want %v", err, why)
	}
	f.matches(before)
}

// difference says in which accounts, inventories and listings two snapshots differ.
func difference(got, want market.Snapshot) string {
	var lines []string
	for id := range union(got.Funds, want.Funds) {
		if g, w := got.Funds[id], want.Funds[id]; g != w {
			lines = append(lines, fmt.Sprintf("user %d has %d coins, want %d", id, g, w))
		}
	}
	for id := range union(got.Inventory, want.Inventory) {
		for item := range union(got.Inventory[id], want.Inventory[id]) {
			if g, w := got.Inventory[id][item], want.Inventory[id][item]; g != w {
				lines = append(lines, fmt.Sprintf("item %d in inventory of user %d: %t, want %t", item, id, g, w))
			}
		}
	}
	for member := range union(got.Listings, want.Listings) {
		g, isListed := got.Listings[member]
		if w, shouldBe := want.Listings[member]; g != w || isListed != shouldBe {
			lines = append(lines, fmt.Sprintf("%s listed: %t at %d, want %t at %d", member, isListed, g, shouldBe, w))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func union[K comparable, V any](a, b map[K]V) map[K]V {
	all := maps.Clone(a)
	if all == nil {
		return b
	}
	maps.Copy(all, b)
	return all
}
