package fault

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

var buyScript = redis.NewScript(`
	local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
	if not price then return 'gone' end
	redis.call('HINCRBY', KEYS[2], 'funds', -price)
	redis.call('HINCRBY', KEYS[3], 'funds', price)
	redis.call('SADD', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[1], ARGV[1])
	return 'sold'`)

type outsider struct{}

func (outsider) String() string { return "outsider" }
func (outsider) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	s := scripted{nil, env.Redis, env.Keys}
	return s, s, nil
}

type scripted struct {
	market.Purchaser
	rdb  *redis.Client
	keys market.Keys
}

func (s scripted) Close() error { return nil }
func (s scripted) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	answer, err := buyScript.Run(ctx, s.rdb,
		[]string{s.keys.Market(), s.keys.User(o.Buyer), s.keys.User(o.Seller), s.keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price).Text()
	if err != nil {
		return market.Receipt{}, fmt.Errorf("unknown: %w", err)
	}
	if answer == "gone" {
		return market.Receipt{}, market.ErrNotListed
	}
	return market.Receipt{}, nil
}

func TestOut(t *testing.T) {
	lab, _ := OpenLab(t.Context())
	defer lab.Close()
	found, err := lab.Run(t.Context(), All(), []Subject{Outside(outsider{})}, nil)
	for _, f := range found {
		t.Logf("%-18s %-24s %-15s %s", f.Scenario, f.Subject, f.Verdict, f.Why)
	}
	t.Log(err)
}
