package suite

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// purchaseOver opens a client as an application has it, with any options, and
// buys over it as buy does.
func purchaseOver(
	t *testing.T, o redis.Options,
	buy func(context.Context, *redis.Client, spoiled, market.Order) error,
) market.Open {
	listing := testkit.Must(strategies.Builtin().Parse("watch"))(t)
	return func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
		lists, closer, err := listing.OpenFor(ctx, w)
		if err != nil {
			return nil, nil, err
		}

		o.Dialer = w.Dial
		rdb := redis.NewClient(&o)
		p := spoiled{Purchaser: lists, spoiler: spoiler{rdb, w.Keys}}
		p.purchase = func(s *spoiled, ctx context.Context, o market.Order) error {
			return buy(ctx, rdb, *s, o)
		}
		return &p, both{closer, rdb}, nil
	}
}

// watchApart watches on one connection of the pool, and reads and writes over
// another one, as issues of aio-libs-abandoned/aioredis-py (995) and
// pagopa/io-backend (577) have it.
func watchApart(ctx context.Context, rdb *redis.Client, s spoiled, o market.Order) error {
	err := rdb.Watch(ctx, func(*redis.Tx) error {
		price, err := rdb.ZScore(ctx, s.Keys.Market(), market.Member(o.Item, o.Seller)).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return market.ErrNotListed
		case err != nil:
			return errors.Join(market.ErrNotSent, err)
		case int64(price) != o.Price:
			return market.ErrPriceChanged
		}
		return s.transfer(ctx, o)
	}, s.Keys.Market())

	if errors.Is(err, redis.TxFailedErr) {
		return market.ErrContended
	}
	return err
}

// scripted buys by a script. When its reply was lost, a client with go-redis's
// defaults sends it again, as in an issue of LerianStudio/midaz (2485): the caller
// sees one answer, the second.
func scripted(ctx context.Context, rdb *redis.Client, s spoiled, o market.Order) error {
	answer, err := redis.NewScript(`
		if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 'gone' end
		redis.call('HINCRBY', KEYS[2], 'funds', -ARGV[3])
		redis.call('HINCRBY', KEYS[3], 'funds', ARGV[3])
		redis.call('SADD', KEYS[4], ARGV[2])
		redis.call('ZREM', KEYS[1], ARGV[1])
		return 'sold'`).Run(ctx, rdb,
		[]string{s.Keys.Market(), s.Keys.User(o.Buyer), s.Keys.User(o.Seller), s.Keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price).Text()
	if err == nil && answer == "gone" {
		return market.ErrNotListed
	}
	return err
}

// What strangers' purchases do wrong is found with the clients that they have.
func TestExploreFindsWhatAClientDoes(t *testing.T) {
	for _, c := range []struct {
		name                string
		options             redis.Options
		buy                 func(context.Context, *redis.Client, spoiled, market.Order) error
		preemptions, faults int
		harm                verify.Harm // empty: none within these bounds
		says                string      // the schedule, or the error
	}{
		{
			"WATCH on another connection of a pool",
			redis.Options{}, watchApart, 1, 0, verify.SoldTwice, "",
		},
		{
			"the same in version 2 of the protocol",
			redis.Options{Protocol: 2}, watchApart, 1, 0, verify.SoldTwice, "",
		},
		{
			"a pool of one, which waits for itself",
			redis.Options{PoolSize: 1}, watchApart, 0, 0, "", "nothing was traded",
		},
		{"a client that sends again", redis.Options{}, scripted, 0, 1, verify.ToldNo, "the reply is lost"},
		{"a client that does not", redis.Options{MaxRetries: -1}, scripted, 1, 1, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := Markets()[0].Program(t.Name(), purchaseOver(t, c.options, c.buy))
			SearchesAlone(t)
			bounds := explore.Bounds{Preemptions: 1, Faults: 1, Kinds: []explore.Fault{explore.Lose}}
			r, err := explore.Search(t.Context(), program, bounds)

			switch {
			case err != nil:
				if c.says == "" || !strings.Contains(err.Error(), c.says) {
					t.Error(err)
				}
				return
			case c.harm == "" && len(r.Found) == 0:
				return
			case c.harm == "" || len(r.Found) == 0:
				t.Fatalf("it should find %q:\n%s", c.harm, r)
			}

			f := r.Found[0]
			if f.Harm != c.harm || f.Preemptions != c.preemptions || f.Faults != c.faults ||
				!strings.Contains(r.String(), c.says) {
				t.Errorf("it should find %s with %d preemptions and %d faults:\n%s",
					c.harm, c.preemptions, c.faults, r)
			}
		})
	}
}

// What a purchaser does in the background ends with its worker's context, in
// each schedule and in each check.
func TestBackgroundWorkEndsWithTheWorker(t *testing.T) {
	opens := purchaseOver(t, redis.Options{MaxRetries: -1}, scripted)
	open := func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
		p, closer, err := opens(ctx, w)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			<-ctx.Done()
		}()
		return p, both{waits(ended), closer}, err
	}

	bounds := explore.Bounds{Faults: 1, Kinds: []explore.Fault{explore.Die, explore.Drop}}
	Markets()[0].Explore(t, t.Name(), open, bounds)
	c := named(t, "purchase moves the item and the coins")
	newSuite(testkit.Embedded(t), PurchaserFactory{Open: open}).RunOne(t, c, func(Result) {})
}

// waits is a closer that waits until a goroutine has ended.
type waits chan struct{}

func (w waits) Close() error {
	<-w
	return nil
}

// A client that connects when it has to, and then over several connections, is held
// before each of its requests.
func TestCheckHoldsAPool(t *testing.T) {
	t.Parallel()
	factory := PurchaserFactory{Open: purchaseOver(t, redis.Options{}, watchApart)}
	c := named(t, "one of many orders of an item is applied")
	server := testkit.Local(t)
	messages := testkit.Try(t, func(t testing.TB) {
		newSuite(server, factory).RunOne(t, c, func(Result) {})
	})
	if !strings.Contains(messages, "held between its request") {
		t.Errorf("it should fail with two orders that were applied; it said:\n%s", messages)
	}
}

// A search in a parallel test would be a race for what the whole process shares.
func TestSearchesAloneEndsAParallelTest(t *testing.T) {
	t.Run("parallel", func(t *testing.T) {
		t.Parallel()
		said := testkit.Try(t, func(t testing.TB) {
			SearchesAlone(t)
		})
		if !strings.Contains(said, "take t.Parallel out") {
			t.Errorf("it should say what to do; it said %q", said)
		}
	})
	t.Run("alone", func(t *testing.T) { SearchesAlone(t) })
}
