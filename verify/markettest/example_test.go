package markettest_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/markettest"
)

// The author of a purchase says how a worker makes one. It is then measured,
// checked and explored.
func Example() {
	_ = TestShop // run by go test
}

func TestShop(t *testing.T) {
	open := func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
		// A script that is sent again buys twice.
		rdb := redis.NewClient(&redis.Options{Dialer: w.Dial, MaxRetries: -1})
		return shop{rdb, w.Keys}, rdb, nil
	}
	markettest.Check(t, open)
	markettest.Explore(t, open, explore.Bounds{Preemptions: explore.Unbounded, Faults: 1})
	row, err := bench.Measure(t.Context(), open, result.Mix{Sellers: 5, Buyers: 5}, bench.Options{Duration: time.Second})
	if err != nil || !row.Audit.OK {
		t.Fatal(err, row.Audit.Problems)
	}
	t.Logf("%d purchases in %.0f s, of %d round trips", row.Bought, row.Seconds, row.Market.RoundTrips)
}

// A shop lists and purchases by a script each.
type shop struct {
	rdb  *redis.Client
	keys market.Keys
}

var refusals = map[string]error{
	"not owned": market.ErrNotOwned, "not listed": market.ErrNotListed, "price": market.ErrPriceChanged,
	"funds": market.ErrInsufficientFunds,
}

// answer is what a script said. After an error nobody knows whether the script ran.
func answer(said *redis.Cmd) (market.Receipt, error) {
	text, err := said.Text()
	if err == nil {
		err = refusals[text]
	}
	return market.Receipt{}, err
}

var list = redis.NewScript(`
	if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then return 'not owned' end
	redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
	return 'listed'`)

func (s shop) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	return answer(list.Run(ctx, s.rdb, []string{s.keys.Inventory(l.Seller), s.keys.Market()},
		int64(l.Item), market.Member(l.Item, l.Seller), l.Price))
}

var buy = redis.NewScript(`
	local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
	if not price then return 'not listed' end
	if price ~= ARGV[3] then return 'price' end
	if tonumber(redis.call('HGET', KEYS[2], 'funds')) < tonumber(price) then return 'funds' end
	redis.call('HINCRBY', KEYS[2], 'funds', -price)
	redis.call('HINCRBY', KEYS[3], 'funds', price)
	redis.call('SADD', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[1], ARGV[1])
	return 'sold'`)

func (s shop) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return answer(buy.Run(ctx, s.rdb,
		[]string{s.keys.Market(), s.keys.User(o.Buyer), s.keys.User(o.Seller), s.keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price))
}
