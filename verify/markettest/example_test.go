package markettest_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/verify/explore"
	"github.com/marketsim/marketsim/verify/markettest"
)

var buy = redis.NewScript(`
	local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
	if not price then return 'gone' end
	if price ~= ARGV[3] then return 'price' end
	if tonumber(redis.call('HGET', KEYS[2], 'funds')) < tonumber(price) then return 'funds' end
	redis.call('HINCRBY', KEYS[2], 'funds', -price)
	redis.call('HINCRBY', KEYS[3], 'funds', price)
	redis.call('SADD', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[1], ARGV[1])
	return 'sold'`)

// scripted purchases by a script, and lists as the Purchaser that it embeds does.
type scripted struct {
	market.Purchaser
	markettest.Worker
}

func (s scripted) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	answer, err := buy.Run(ctx, s.Conn,
		[]string{s.Keys.Market(), s.Keys.User(o.Buyer), s.Keys.User(o.Seller), s.Keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price).Text()
	if err != nil {
		return market.Receipt{}, err // the outcome is unknown
	}
	refusals := map[string]error{
		"gone": market.ErrNotListed, "price": market.ErrPriceChanged, "funds": market.ErrInsufficientFunds,
	}
	return market.Receipt{}, refusals[answer]
}

// The author of a purchase says how a worker makes one.
func Example() {
	_ = TestScripted // run by go test
}

func TestScripted(t *testing.T) {
	listing, err := strategies.Builtin().Parse("watch")
	if err != nil {
		t.Fatal(err)
	}
	open := func(t testing.TB, w markettest.Worker) market.Purchaser {
		lists, _, err := listing.Open(strategies.Env{Redis: w.Conn.Client, Dial: w.Dial, Keys: w.Keys, Steps: w.Steps})
		if err != nil {
			t.Fatal(err)
		}
		return scripted{lists, w}
	}
	markettest.Check(t, open)
	markettest.Explore(t, open, explore.Bounds{Preemptions: 1, Faults: 1})
}
