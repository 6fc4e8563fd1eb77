package suite

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

func TestMain(m *testing.M) {
	// The property fails here on purpose: its counterexamples are not worth keeping.
	err := errors.Join(flag.Set("rapid.nofailfile", "true"), flag.Set("rapid.shrinktime", "0s"))
	if err != nil {
		panic(err)
	}
	testkit.VerifyNoLeaks(m)
}

// The sound Purchaser passes, so that what the broken ones fail is their own fault.
func TestSoundPurchaserPasses(t *testing.T) {
	t.Parallel()
	testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
		TestPurchaser(t, s, opened(t, "watch", nil))
	})
}

// A lock that is left after a write of unknown outcome, until its lease ends, is no flaw.
func TestLeftToItsLease(t *testing.T) {
	t.Parallel()
	factory := opened(t, "watch", func(w spoiler, p market.Purchaser) market.Purchaser {
		leaves := afterCancellation(100 * time.Millisecond)
		leaves.Purchaser, leaves.spoiler = p, w
		return &leaves
	})
	c := named(t, "cancellation at any step keeps the market whole")
	newSuite(testkit.Local(t), factory).RunOne(t, c, func(Result) {})
}

func TestBrokenPurchaserIsCaught(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for _, b := range broken {
		for _, name := range b.by {
			t.Run(b.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				factory := opened(t, b.spec, func(w spoiler, p market.Purchaser) market.Purchaser {
					spoiled := b.spoiled
					spoiled.Purchaser = p
					spoiled.spoiler = w
					return &spoiled
				})

				impatient := newSuite(s, factory)
				impatient.Open = func(f *Fixture, _ check) *fixture {
					fixture := newFixture(f, s, factory)
					fixture.prompt = 500 * time.Millisecond
					return fixture
				}

				c := named(t, name)
				messages := testkit.Try(t, func(t testing.TB) {
					impatient.RunOne(t, c, func(Result) {})
				})
				if messages == "" || !strings.Contains(messages, b.says) {
					t.Errorf("it should have failed and said %q; it said:\n%s", b.says, messages)
				}
			})
		}
	}
}

func named(t *testing.T, name string) check {
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q", name)
	return check{}
}

// The checks that catch most of what goes wrong with one purchase.
var (
	purchases = []string{
		"purchase moves the item and the coins", "any sequence ends as in the reference",
	}
	property = purchases[1:]
)

// liar says that it did what it was asked for, and does nothing.
var liar = spoiled{
	list: func(*spoiled, context.Context, market.Listing) error {
		return nil
	},
	purchase: func(*spoiled, context.Context, market.Order) error {
		return nil
	},
}

var broken = []struct {
	name    string
	spec    string
	spoiled spoiled
	by      []string // the checks that catch it
	says    string
}{
	{
		name: "says nil without applying", spec: "watch", by: purchases,
		spoiled: spoiled{purchase: func(*spoiled, context.Context, market.Order) error {
			return nil
		}},
	},
	{
		name: "says nil and does nothing", spec: "watch",
		by:      append([]string{property[0], "many trade at the same time"}, purchases...),
		spoiled: liar,
	},
	{
		name: "counts the time of a lock twice", spec: "fine", by: purchases[:1],
		says: "no more than the whole",
		spoiled: spoiled{receipt: func(r *market.Receipt) {
			r.Thrown += r.LockHold + r.LockWait
		}},
	}, {
		name: "loses a coin", spec: "watch", by: purchases,
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, o market.Order) redis.Cmder {
			return w.Conn.HIncrBy(ctx, w.Keys.User(o.Seller), "funds", -1)
		}),
	},
	{
		name: "loses the item", spec: "watch", by: purchases,
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, o market.Order) redis.Cmder {
			return w.Conn.SRem(ctx, w.Keys.Inventory(o.Buyer), int64(o.Item))
		}),
	},
	{
		name: "forgets ZREM", spec: "watch", by: purchases,
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, o market.Order) redis.Cmder {
			return w.Conn.ZAdd(ctx, w.Keys.Market(),
				redis.Z{Score: float64(o.Price), Member: market.Member(o.Item, o.Seller)})
		}),
	},
	{
		name: "forgets SREM", spec: "watch", by: property,
		spoiled: spoiled{list: func(s *spoiled, ctx context.Context, l market.Listing) error {
			err := s.goodList(ctx, l)
			if err == nil {
				s.Conn.SAdd(ctx, s.Keys.Inventory(l.Seller), int64(l.Item))
			}
			return err
		}},
	},
	{
		name: "lists what nobody owns", spec: "watch", by: property,
		spoiled: spoiled{list: func(s *spoiled, ctx context.Context, l market.Listing) error {
			return s.Conn.ZAdd(ctx, s.Keys.Market(),
				redis.Z{Score: float64(l.Price), Member: market.Member(l.Item, l.Seller)}).Err()
		}},
	},
	{
		name: "applies and reports a refusal", spec: "watch", by: purchases,
		spoiled: spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
			return errors.Join(market.ErrNotListed, s.goodPurchase(ctx, o))
		}},
	},
	{
		name: "sells at the order's price", spec: "watch", by: property,
		spoiled: afterRefusal(market.ErrPriceChanged, (*spoiled).transfer),
	},
	{
		name: "sells on credit", spec: "watch", by: property,
		spoiled: afterRefusal(market.ErrInsufficientFunds, (*spoiled).transfer),
	},
	{
		name: "sells what is not listed", spec: "watch", by: property,
		spoiled: afterRefusal(market.ErrNotListed, (*spoiled).transfer),
	},
	{
		name: "gives another reason", spec: "watch", by: property,
		spoiled: afterRefusal(market.ErrNotListed, func(*spoiled, context.Context, market.Order) error {
			return market.ErrInsufficientFunds
		}),
	},
	{
		name: "refuses an own listing", spec: "watch", by: property,
		spoiled: spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
			if o.Buyer == o.Seller {
				return market.ErrNotListed
			}
			return s.goodPurchase(ctx, o)
		}},
	},
	{
		name: "leaves a lock", spec: "watch",
		by:   []string{"operations leave no lock and no WATCH behind", purchases[0]},
		says: "lock:left was left behind",
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, _ market.Order) redis.Cmder {
			return w.Conn.Set(ctx, w.Keys.Lock("left"), 1, 0)
		}),
	},
	{
		name: "leaves a lock after an unknown outcome", spec: "watch",
		by:      []string{"cancellation at any step keeps the market whole"},
		says:    "lock:left was left behind",
		spoiled: afterCancellation(0),
	},
	{
		name: "leaves a WATCH", spec: "watch",
		by:   []string{"operations leave no lock and no WATCH behind"},
		says: "left a WATCH behind",
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, _ market.Order) redis.Cmder {
			return w.Conn.Do(ctx, "watch", w.Keys.Market())
		}),
	},
	{
		name: "ignores its context", spec: "watch", by: []string{"context that has ended applies nothing"},
		spoiled: spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
			return s.goodPurchase(context.WithoutCancel(ctx), o)
		}},
	},
	{
		name: "ignores its context while it waits", spec: "coarse:timeout=10m",
		by:   []string{"cancellation ends a wait"},
		says: "did not end within",
		spoiled: spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
			return s.goodPurchase(context.WithoutCancel(ctx), o)
		}},
	},
	{
		name: "takes a cancelled write for none", spec: "watch",
		by:   []string{"cancellation at any step keeps the market whole"},
		says: "was refused",
		spoiled: spoiled{purchase: func(s *spoiled, ctx context.Context, o market.Order) error {
			return errors.Join(s.goodPurchase(ctx, o), cancelledMeansNotSent(ctx))
		}},
	},
	{
		name: "protects nothing", spec: "unsafe", says: "held between its request",
		by: []string{"one of many orders of an item is applied", "shared account is not overdrawn"},
	},
	{
		name: "protects items only", spec: "fine",
		by:   []string{"shared account is not overdrawn"},
		says: "overdrawn",
	},
	{
		name: "loses coins in a crowd", spec: "watch", by: []string{"many trade at the same time"},
		says: "audit: account of user",
		spoiled: afterPurchase(func(ctx context.Context, w spoiler, o market.Order) redis.Cmder {
			return w.Conn.HIncrBy(ctx, w.Keys.User(o.Seller), "funds", -1)
		}),
	},
}

func cancelledMeansNotSent(ctx context.Context) error {
	if ctx.Err() != nil {
		return market.ErrNotSent
	}
	return nil
}
