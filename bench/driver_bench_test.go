package bench

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/verify/history"
)

// loop is one worker on a supply in memory with a Purchaser that does nothing: what is left is the driver.
type loop struct {
	*measurement
	worker *worker
	run    func(context.Context, *worker)
	left   int
}

func buyerLoop(testing.TB) *loop {
	l := &loop{}
	l.measurement = fakeMeasurement(plan{result.Point{Mix: mix1x1}, Options{Duration: time.Hour}}, nothing, l.stopping)
	l.worker, l.run = l.buyers[0], l.buy
	l.window.begin(0, time.Hour)
	return l
}

func sellerLoop(testing.TB) *loop {
	l := &loop{}
	l.measurement = fakeMeasurement(plan{result.Point{Mix: mix1x1}, Options{Duration: time.Hour}}, l.stopping, nothing)
	l.worker, l.run = l.sellers[0], l.sell
	l.window.begin(0, time.Hour)
	return l
}

// stopping makes the Purchaser of the worker, whose last operation stops it.
func (l *loop) stopping(m *measurement) market.Purchaser {
	operation := func() (market.Receipt, error) {
		l.left--
		if l.left == 0 {
			m.window.stopped.Store(true)
		}
		return market.Receipt{}, nil
	}
	return fake{
		onList:     func(context.Context, market.Listing) (market.Receipt, error) { return operation() },
		onPurchase: func(context.Context, market.Order) (market.Receipt, error) { return operation() },
	}
}

// operations makes the worker do n of them.
func (l *loop) operations(n int) {
	l.window.stopped.Store(false)
	l.left = n
	l.run(context.Background(), l.worker)
}

var loops = []struct {
	name string
	make func(testing.TB) *loop
}{
	{"seller", sellerLoop},
	{"buyer", buyerLoop},
	{"seller+history", withHistory(sellerLoop)},
	{"buyer+history", withHistory(buyerLoop)},
}

// withHistory makes loops whose operations go into a history.
func withHistory(make func(testing.TB) *loop) func(testing.TB) *loop {
	return func(t testing.TB) *loop {
		w, err := history.Create(t.TempDir(), history.Header{})
		if err != nil {
			t.Fatal(err)
		}
		l := make(t)
		l.worker.history, err = w.Worker()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Finish(market.Snapshot{}); err != nil {
				t.Error(err)
			}
		})
		return l
	}
}

// TestDriverAllocatesNothing compares a long row with a short one: what both allocate is for the row, and the
// rest, of which there must be none, is for the operations. A batch of items may cost what a ledger needs to note it.
func TestDriverAllocatesNothing(t *testing.T) {
	const short, long = market.BatchSize, 20 * market.BatchSize
	for _, c := range loops {
		t.Run(c.name, func(t *testing.T) {
			if testkit.Raced && strings.HasSuffix(c.name, "+history") {
				t.Skip("needs a build without the race detector, under which encoding/json's pool drops at random what it holds")
			}
			l := c.make(t)
			l.operations(long) // what grows once has grown
			few := testing.AllocsPerRun(5, func() { l.operations(short) })
			many := testing.AllocsPerRun(5, func() { l.operations(long) })
			if batches := float64(long / market.BatchSize); many-few > batches {
				t.Errorf("%d operations allocate %v times, %d allocate %v times", short, few, long, many)
			}
			if n := l.worker.tally.count; n[listed]+n[bought] < long {
				t.Errorf("recorded %d listings and %d purchases", n[listed], n[bought])
			}
		})
	}
}

// BenchmarkDriver shows what the driver itself costs.
//
//   - purchaser=none: nanoseconds and allocations an operation, with a Purchaser and a supply that do nothing.
//
//   - purchaser=fixed: the throughput of the driver as a share of that of a bare loop of go-redis calls which sends the
//     same commands, "driver/bare". It should be 0.95 or more. A few dozen pairs give a steady number:
//
//     go test ./bench -run '^$' -bench Driver -benchtime 30x
func BenchmarkDriver(b *testing.B) {
	b.Run("purchaser=none", func(b *testing.B) {
		for _, c := range loops {
			b.Run("worker="+c.name, func(b *testing.B) {
				l := c.make(b)
				b.ReportAllocs()
				b.ResetTimer()
				l.operations(b.N)
			})
		}
	})
	b.Run("purchaser=fixed", func(b *testing.B) {
		server := StartServer(b)
		for _, mix := range []result.Mix{mix1x1, mix5x5} {
			b.Run("mix="+mix.String(), func(b *testing.B) {
				h := hands{plan: plan{result.Point{Mix: mix}, Options{Duration: slice, Keys: testkit.Keys(b)}}}
				for range mix.Sellers + mix.Buyers {
					h.conns = append(h.conns, testkit.Dial(b, server))
				}
				seedFixed(b, h)
				turns(b, h.driver, h.bare)
			})
		}
	})
}

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
	plan
	conns []*backend.Conn // sellers first
}

func (h hands) fixed(i int) fixed { return newFixed(h.conns[i].Client, h.Keys, market.UserID(i+1)) }

// driver returns the operations a second that the driver makes.
func (h hands) driver(b *testing.B) float64 {
	m := fakeMeasurement(h.plan, nothing, nothing)
	for i, w := range m.all() {
		w.purchaser, w.supply = h.fixed(i), redisSupply{h.conns[i].Client, h.Keys, glanceSize}
	}
	m.work(b.Context())
	if m.window.failure != nil {
		b.Fatal(m.window.failure)
	}
	row := m.row()
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
			_, err = market.Mint(ctx, rdb, h.Keys, account(h.Point, seller, i))
			if err != nil {
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
		if n%glanceSize == 0 {
			err = rdb.ZRandMemberWithScores(ctx, h.Keys.Market(), glanceSize).Err()
			if err != nil {
				return n, err
			}
		}
		_, err = f.Purchase(ctx, market.Order{})
	}
	return n, err
}

// turns lets the driver and bare loops take turns, and reports how much of the others' throughput it reaches: the
// median of pairs, so that both meet the same machine.
func turns(b *testing.B, driver, bare func(*testing.B) float64) {
	var ratios, driven, others []float64
	for b.Loop() {
		var d, o float64
		if len(ratios)%2 == 0 { // whoever comes second finds the other's garbage
			d = driver(b)
			o = bare(b)
		} else {
			o = bare(b)
			d = driver(b)
		}
		ratios, driven, others = append(ratios, d/o), append(driven, d), append(others, o)
	}
	b.ReportMetric(0, "ns/op") // an iteration is as long as its slices
	b.ReportMetric(median(ratios), "driver/bare")
	b.ReportMetric(median(driven), "driver/s")
	b.ReportMetric(median(others), "bare/s")
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
