package bench_test

import (
	"context"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/strategies"
)

// buyScript checks and writes in one step, inside the server.
var buyScript = redis.NewScript(`
	local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
	if not price then return 'gone' end
	if price ~= ARGV[3] then return 'price' end
	if tonumber(redis.call('HGET', KEYS[2], 'funds')) < tonumber(price) then return 'funds' end
	redis.call('HINCRBY', KEYS[2], 'funds', -price)
	redis.call('HINCRBY', KEYS[3], 'funds', price)
	redis.call('SADD', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[1], ARGV[1])
	return 'sold'`)

// scripted purchases by a script. It lists as the strategy it embeds does.
type scripted struct {
	market.Purchaser
	rdb  *redis.Client
	keys market.Keys
}

// Purchase implements market.Purchaser.
func (s scripted) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	answer, err := buyScript.Run(ctx, s.rdb,
		[]string{s.keys.Market(), s.keys.User(o.Buyer), s.keys.User(o.Seller), s.keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price).Text()
	if err != nil {
		return market.Receipt{}, err // the outcome is unknown
	}
	refusals := map[string]error{
		"gone": market.ErrNotListed, "price": market.ErrPriceChanged, "funds": market.ErrInsufficientFunds,
	}
	return market.Receipt{}, refusals[answer]
}

// A strategy of one's own is a value beside those of the catalogue. It is named in specs, measured and audited like
// the others.
func Example_strategy() {
	mine := strategies.Strategy{
		Name:    "script",
		Summary: "one script a purchase",
		Source:  "EVALSHA, redis.io/commands/evalsha",
		New: func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			listing, err := strategies.Builtin().Parse("watch")
			if err != nil {
				return nil, nil, err
			}
			lister, closer, err := listing.Open(env)
			return scripted{lister, env.Redis, env.Keys}, closer, err
		},
	}
	catalogue := strategies.Builtin()
	catalogue.Strategies = append(catalogue.Strategies, mine)
	spec, err := catalogue.Parse("script")
	if err != nil {
		fmt.Println(err)
		return
	}

	server, err := embedded.Starter{}.Start(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	keys, _ := market.NewKeys("example:")
	p := result.Point{Strategy: spec.String(), Mix: result.Mix{Sellers: 5, Buyers: 5}}
	row, err := bench.Run(context.Background(), p, 1, bench.Options{
		Subject: spec, Purchases: 100, Seed: 1, Keys: keys, Dial: server.Dial,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(row.Strategy, "bought something:", row.Bought > 0)
	fmt.Println("audit ok:", row.Audit.OK)
	// Output:
	// script bought something: true
	// audit ok: true
}
