package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// slice is how long the driver and the bare loop take turns.
const slice = 200 * time.Millisecond

// fixed is a Purchaser that always sends the same commands, those of a purchase and a listing in two round trips each,
// to keys of its own: nobody waits for anybody, and nothing is traded.
type fixed struct {
	rdb                           *redis.Client
	offers, account, store, empty string
}

func newFixed(rdb *redis.Client, keys market.Keys, id market.UserID) fixed {
	own := keys.Lock(keys.User(id))
	return fixed{rdb, own + ":offers", own + ":account", own + ":store", own + ":empty"}
}

func (f fixed) List(ctx context.Context, _ market.Listing) (market.Receipt, error) {
	if err := f.rdb.SIsMember(ctx, f.store, 1).Err(); err != nil {
		return market.Receipt{}, err
	}
	_, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, f.offers, redis.Z{Score: 1, Member: "1.1"})
		p.SRem(ctx, f.empty, 1)
		return nil
	})
	return market.Receipt{}, err
}

func (f fixed) Purchase(ctx context.Context, _ market.Order) (market.Receipt, error) {
	_, err := f.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZCard(ctx, f.offers)
		p.HLen(ctx, f.account)
		return nil
	})
	if err != nil {
		return market.Receipt{}, err
	}
	_, err = f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HIncrBy(ctx, f.account, "funds", 1)
		p.HIncrBy(ctx, f.account, "funds", -1)
		p.SAdd(ctx, f.store, 1)
		p.ZRem(ctx, f.offers, "2.1")
		return nil
	})
	return market.Receipt{}, err
}

// hands are the connections that the driver and the bare loop use in turn.
type hands struct {
	Config
	conns []*backend.Conn // sellers first
}

func (h hands) fixed(i int) fixed { return newFixed(h.conns[i].Client, h.Keys, market.UserID(i+1)) }

// driver returns the operations a second that the driver makes.
func (h hands) driver(b *testing.B) float64 {
	next := 0
	deal := func(*brake) market.Purchaser { next++; return h.fixed(next - 1) }
	crew := fakeCrew(h.Config, deal, deal)
	for i, w := range crew.all() {
		w.conn, w.goods = h.conns[i], stall{h.conns[i].Client, h.Keys}
	}
	crew.work(b.Context(), 0, slice)
	if crew.brake.cause != nil {
		b.Fatal(crew.brake.cause)
	}
	row := crew.row(h.Config)
	return float64(row.Listed+row.Bought) / row.Seconds
}

// bare returns the operations a second that loops of nothing but go-redis calls make.
func (h hands) bare(b *testing.B) float64 {
	var stop atomic.Bool
	var done atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	defer time.AfterFunc(slice, func() { stop.Store(true) }).Stop()
	for i := range h.conns {
		loop := h.bareBuyer
		if i < h.Mix.Sellers {
			loop = h.bareSeller
		}
		group.Go(func() {
			n, err := loop(b.Context(), i, &stop)
			if err != nil {
				b.Error(err)
			}
			done.Add(n)
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

func (h hands) bareSeller(ctx context.Context, i int, stop *atomic.Bool) (n int64, err error) {
	f, rdb := h.fixed(i), h.conns[i].Client
	for ; !stop.Load() && err == nil; n++ {
		if n%market.BatchSize == 0 {
			if _, err = market.Mint(ctx, rdb, h.Keys, h.seller(i)); err != nil {
				return n, err
			}
		}
		_, err = f.List(ctx, market.Listing{})
	}
	return n, err
}

func (h hands) bareBuyer(ctx context.Context, i int, stop *atomic.Bool) (n int64, err error) {
	f, rdb := h.fixed(i), h.conns[i].Client
	for ; !stop.Load() && err == nil; n++ {
		if n%browseSize == 0 {
			if err = rdb.ZRandMemberWithScores(ctx, h.Keys.Market(), browseSize).Err(); err != nil {
				return n, err
			}
		}
		_, err = f.Purchase(ctx, market.Order{})
	}
	return n, err
}

// driverAndBare lets both take turns and reports how much of the bare loop's throughput the driver reaches.
func driverAndBare(b *testing.B, server *backend.Server, mix Mix) {
	h := hands{Config: Config{Subject: noSubject{}, Mix: mix, Keys: backendtest.Keys(b)}}
	for range mix.Sellers + mix.Buyers {
		h.conns = append(h.conns, backendtest.Dial(b, server))
	}
	seedFixed(b, h)
	var ratios, driven []float64
	for b.Loop() {
		first, second := h.bare, h.driver
		if len(ratios)%2 == 1 { // whoever comes second finds the other's garbage
			first, second = second, first
		}
		bare, driver := first(b), second(b)
		if len(ratios)%2 == 1 {
			bare, driver = driver, bare
		}
		ratios, driven = append(ratios, driver/bare), append(driven, driver)
	}
	b.ReportMetric(0, "ns/op") // an iteration is as long as its slices
	b.ReportMetric(median(ratios), "driver/bare")
	b.ReportMetric(median(driven), "ops/s")
}

// seedFixed fills a market with listings that nobody buys, and removes them in the end with all that is sent.
func seedFixed(b *testing.B, h hands) {
	rdb := h.conns[0].Client
	for i := range market.BatchSize {
		z := redis.Z{Score: 1, Member: market.Member(market.ItemID(i+1), 1)}
		if err := rdb.ZAdd(b.Context(), h.Keys.Market(), z).Err(); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() { // before the connections are closed
		keys := []string{h.Keys.Market(), h.Keys.Run()}
		for i := range h.conns {
			f := h.fixed(i)
			keys = append(keys, h.Keys.Inventory(market.UserID(i+1)), f.offers, f.account, f.store, f.empty)
		}
		if err := rdb.Unlink(context.Background(), keys...).Err(); err != nil {
			b.Error(err)
		}
	})
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}
