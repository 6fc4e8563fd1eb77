package market_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// A damage is done to a sound market in which user 1 has listed items 1 and 2 at 30
// coins and user 2 has bought 1.
type damage struct {
	name         string
	do           func(w *world)
	items, money int64
	says         string
}

var damages = []damage{
	{name: "none", do: func(*world) {}},
	{name: "lost coin", money: 1, says: "account of user 1 holds 129 coins, and should hold 130 (-1)",
		do: func(w *world) {
			w.do("hincrby", w.keys.User(1), "funds", -1)
		}},
	{name: "coins moved between accounts", money: 2, says: "account of user 3 holds 95 coins",
		do: func(w *world) {
			w.pay(3, 1, 5)
		}},
	{name: "lost update", money: 1, says: "should hold 130 (-30)", do: func(w *world) {
		w.do("hset", w.keys.User(1), "funds", 100)
	}},
	{name: "overdrawn account", money: 1, says: "account of user 2 is overdrawn: -10 coins",
		do: func(w *world) {
			w.lists(3, 80, nil)
			w.buys(3, 80, nil)
		}},
	{name: "account gone", money: 1, says: "account of user 3 is gone", do: func(w *world) {
		w.do("del", w.keys.User(3))
	}},
	{name: "funds that are no number", money: 1, says: "account of user 3 has no readable funds",
		do: func(w *world) {
			w.do("hset", w.keys.User(3), "funds", "many")
		}},
	{name: "item lost", items: 1, says: "item 7 of user 1 is nowhere", do: func(w *world) {
		w.do("srem", w.keys.Inventory(1), 7)
	}},
	{name: "item in two inventories", items: 1,
		says: "item 7 is in two places: inventory:1 and inventory:3",
		do: func(w *world) {
			w.do("sadd", w.keys.Inventory(3), 7)
		}},
	{
		name:  "item in market and inventory",
		items: 1,
		says:  "item 7 is in two places: inventory:1 and market: (seller 1, 30 coins)",
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 30, "7.1")
		},
	},
	{name: "item listed by two", items: 1, says: "item 2 is in two places: market: (seller",
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 30, "2.3")
		}},
	{
		name:  "item listed by nobody",
		items: 1,
		says:  "item 7 should lie in inventory:1 but lies in market: (seller 1, 30 coins)",
		do: func(w *world) {
			w.do("srem", w.keys.Inventory(1), 7)
			w.do("zadd", w.keys.Market(), 30, "7.1")
		},
	},
	{
		name:  "listing by a user without an account",
		items: 1,
		says:  "item 2 is listed by user 4294967297, who has no account",
		do: func(w *world) {
			w.do("zrem", w.keys.Market(), "2.1")
			w.do("zadd", w.keys.Market(), 30, "2.4294967297")
		},
	},
	{name: "listing by a negative user", items: 1,
		says: "item 7 is listed by user -1, who has no account",
		do: func(w *world) {
			w.do("srem", w.keys.Inventory(1), 7)
			w.do("zadd", w.keys.Market(), 30, "7.-1")
		}},
	{name: "item never minted", items: 1, says: "item 5000 lies in inventory:3 but was never minted",
		do: func(w *world) {
			w.do("sadd", w.keys.Inventory(3), 5000)
		}},
	{name: "item with a giant id", items: 1, says: "item 9000000000000000000 lies in market:",
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 1, "9000000000000000000.1")
		}},
	{name: "bought item not with its buyer", items: 1,
		says: "item 1 should lie in inventory:2 but lies in inventory:3",
		do: func(w *world) {
			w.do("smove", w.keys.Inventory(2), w.keys.Inventory(3), 1)
		}},
	{
		name:  "listed item back with its seller",
		items: 1,
		says:  "item 2 should lie in market: (seller 1, 30 coins) but lies in inventory:1",
		do: func(w *world) {
			w.do("zrem", w.keys.Market(), "2.1")
			w.do("sadd", w.keys.Inventory(1), 2)
		},
	},
	{name: "sold twice", items: 1, says: "item 1 was sold twice: to user 2 and to user 3",
		do: func(w *world) {
			w.pay(3, 1, 30)
			w.ledger.Purchased(order(1, 3, 30), nil)
		}},
	{name: "sold twice to one buyer", items: 1, says: "item 1 was sold twice: to user 2 and to user 2",
		do: func(w *world) {
			w.pay(2, 1, 30)
			w.ledger.Purchased(order(1, 2, 30), nil)
		}},
	{
		name:  "listing at another price",
		items: 1,
		says: "item 2 should lie in market: (seller 1, 30 coins) " +
			"but lies in market: (seller 1, 29 coins)",
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 29, "2.1")
		},
	},
	{name: "listing at a broken price", items: 1, says: "but lies in market: (seller 1, 30.5 coins)",
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 30.5, "2.1")
		}},
	{
		name:  "listing of unknown outcome at another price",
		items: 1,
		says:  "item 3 should lie in inventory:1 but lies in market: (seller 1, 4 coins)",
		do: func(w *world) {
			w.lists(3, 40, errLost)
			w.do("zadd", w.keys.Market(), 4, "3.1")
		},
	},
	{name: "twice round, and from a user to itself", do: func(w *world) {
		w.round()
		w.round()
		w.sells(order(2, 1, 30), nil)
		w.lists(2, 31, nil)
	}},
	{
		name:  "sold twice, and both bought by one in the end",
		items: 1,
		says:  "item 2 was sold twice: to user 2 and to user 3",
		do: func(w *world) {
			w.sells(order(2, 2, 30), nil)
			w.sells(order(2, 3, 30), nil)
			w.offers(2, 2, 5, nil)
			w.sells(market.Order{Item: 2, Seller: 2, Buyer: 3, Price: 5}, nil)
		},
	},
	{
		name:  "bought, and listed still",
		items: 1,
		says:  "item 2 should lie in inventory:2 but lies in market: (seller 1, 30 coins)",
		do: func(w *world) {
			w.pay(2, 1, 30)
			w.ledger.Purchased(order(2, 2, 30), nil)
		},
	},
	{
		name:  "bought from who never listed it",
		items: 1,
		money: 0,
		says: "item 7 was bought by user 2 from market: (seller 1, 0 coins), " +
			"where it was not listed",
		do: func(w *world) {
			w.ledger.Purchased(order(7, 2, 0), nil)
		},
	},
	{name: "bought but never minted", items: 1,
		says: "item 6000 was traded by user 2 but never minted",
		do: func(w *world) {
			w.ledger.Purchased(order(6000, 2, 0), nil)
		}},
	{name: "junk in an inventory", items: 1, says: `inventory:3 holds "junk", which is not an item`,
		do: func(w *world) {
			w.do("sadd", w.keys.Inventory(3), "junk")
		}},
	{name: "junk on the market", items: 1, says: `market member "junk" is not of the form`,
		do: func(w *world) {
			w.do("zadd", w.keys.Market(), 1, "junk")
		}},
	{name: "many at once", items: 21, money: 1, says: "item 7 of user 1 is nowhere",
		do: func(w *world) {
			for item := range 21 {
				w.do("srem", w.keys.Inventory(1), 7+item)
			}
			w.do("hincrby", w.keys.User(3), "funds", 1)
		}},
}

func TestAuditFindsDamage(t *testing.T) {
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		for _, d := range damages {
			t.Run(d.name, func(t *testing.T) {
				w := newWorld(t, s)
				w.lists(1, 30, nil)
				w.lists(2, 30, nil)
				w.buys(1, 30, nil)
				d.do(w)

				v := w.audit()
				if v.ItemProblems != d.items || v.MoneyProblems != d.money || v.OK() != (d.items+d.money == 0) {
					t.Errorf("found %d items and %d accounts, want %d and %d: %q",
						v.ItemProblems, v.MoneyProblems, d.items, d.money, v.Problems)
				}

				if !strings.Contains(fmt.Sprint(v.Problems), d.says) {
					t.Errorf("it says %q and not %q", v.Problems, d.says)
				}

				// Of items and of accounts, ten each at most are described.
				if len(v.Problems) > 20 {
					t.Errorf("it describes %d problems", len(v.Problems))
				}
			})
		}
	})
}

func TestAuditCountsWhatIsWhereItShouldBe(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	w.lists(1, 30, nil)
	w.buys(1, 30, nil)
	if v := w.audit(); v.Items != 2*market.BatchSize || v.Funds != 300 || v.Applied+v.NotApplied != 0 {
		t.Errorf("%+v; want %d items and 300 coins", v, 2*market.BatchSize)
	}
}

func TestAuditOfAnUnreadableMarketIsAnError(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	w.do("set", w.keys.Market(), "not a sorted set")
	if v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, w.ledger); err == nil {
		t.Errorf("verdict %+v and no error", v)
	}
}

// breaksAfterFirst is a connection that breaks after the first reply of a pipeline, which says that
// nothing is there.
type breaksAfterFirst struct{ redis.Hook }

func (breaksAfterFirst) DialHook(next redis.DialHook) redis.DialHook { return next }

func (breaksAfterFirst) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (breaksAfterFirst) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, commands []redis.Cmder) error {
		commands[0].SetErr(redis.Nil)
		for _, c := range commands[1:] {
			c.SetErr(io.EOF)
		}
		return redis.Nil
	}
}

// Accounts that were not read are not damaged, even if one before them is gone.
func TestAuditOfAccountsThatWereNotRead(t *testing.T) {
	w := newWorld(t, testkit.Embedded(t))
	w.conn.AddHook(breaksAfterFirst{})
	if v, err := market.Audit(w.ctx, w.conn, w.keys, w.opening, w.ledger); !errors.Is(err, io.EOF) {
		t.Errorf("verdict %+v and error %v; want %v", v, err, io.EOF)
	}
}

const (
	manyItems   = 300_000
	auditTime   = time.Minute // it takes some seconds on a machine that does nothing else
	auditMemory = 128 << 20
)

func TestAuditOfManyItemsIsQuickAndSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes some seconds")
	}

	w := newWorld(t, testkit.Local(t))
	for minted := 2 * market.BatchSize; minted < manyItems; minted += market.BatchSize {
		w.mintAndListHalf()
	}

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	v := w.audit()
	took := time.Since(start)
	runtime.ReadMemStats(&after)

	t.Logf("audited %d items in %s, the heap grew by %d MiB to %d MiB",
		v.Items, took.Round(time.Millisecond),
		(int64(after.HeapSys)-int64(before.HeapSys))>>20, after.HeapSys>>20)

	if !v.OK() || v.Items != manyItems {
		t.Errorf("%d of %d items are sound: %q", v.Items, manyItems, v.Problems)
	}

	// The whole heap, because the audit may reuse what was grown before it.
	if took > auditTime || after.HeapSys > auditMemory {
		t.Errorf("it took %s and a heap of %d MiB; at most %s and %d MiB are allowed",
			took, after.HeapSys>>20, auditTime, auditMemory>>20)
	}
}

// mintAndListHalf mints a batch for user 1 and puts every other item on the market.
func (w *world) mintAndListHalf() {
	w.Helper()
	first, err := marketstore.Mint(w.ctx, w.conn, w.keys, 1)
	w.must(err)
	w.ledger.Minted(first, 1, nil)

	var listed []redis.Z
	var moved []any
	for item := first; item < first+market.BatchSize; item += 2 {
		listed = append(listed, redis.Z{Score: 30, Member: market.Member(item, 1)})
		moved = append(moved, int64(item))
		w.ledger.Listed(market.Listing{Item: item, Seller: 1, Price: 30}, nil)
	}

	w.must(w.conn.ZAdd(w.ctx, w.keys.Market(), listed...).Err())
	w.must(w.conn.SRem(w.ctx, w.keys.Inventory(1), moved...).Err())
}
