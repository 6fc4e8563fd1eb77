package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// loop is one worker on a supply in memory with a Purchaser that does nothing: what is left is the driver.
type loop struct {
	*measurement
	worker *Worker
	run    func(context.Context, *Worker)
	left   int // listings, for a seller
}

func buyerLoop(testing.TB) *loop {
	m := fakeMeasurement(Config{Mix: mix1x1}, nothing, nothing)
	m.collector.keepCourse(time.Minute)
	return &loop{measurement: m, worker: m.buyers[0], run: m.buy}
}

func sellerLoop(testing.TB) *loop {
	l := &loop{}
	lister := func(m *measurement) market.Purchaser {
		return fake{onList: func(context.Context, market.Listing) (market.Receipt, error) {
			if l.left--; l.left == 0 {
				m.stop.asked.Store(true)
			}
			return market.Receipt{}, nil
		}}
	}
	m := fakeMeasurement(Config{Mix: mix1x1}, lister, nothing)
	m.collector.keepCourse(time.Minute)
	l.measurement, l.worker, l.run = m, m.sellers[0], m.sell
	return l
}

func nothing(*measurement) market.Purchaser { return fake{} }

// operations makes the worker do n of them.
func (l *loop) operations(n int) {
	l.stop.asked.Store(false)
	l.quota, l.left = newQuota(int64(n)), n
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
		if l.worker.recorder.history, err = w.Worker("worker"); err != nil {
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
			l := c.make(t)
			l.operations(long) // what grows once has grown
			few := testing.AllocsPerRun(5, func() { l.operations(short) })
			many := testing.AllocsPerRun(5, func() { l.operations(long) })
			if batches := float64(long / market.BatchSize); many-few > batches {
				t.Errorf("%d operations allocate %v times, %d allocate %v times", short, few, long, many)
			}
			if n := l.worker.recorder.count; n[listed]+n[bought] < long {
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
//     same commands, "driver/bare". It should be 0.9 or more. An iteration is a pair of short rows, one of each, so
//     that both meet the same machine; the metric is the median of the pairs. A few dozen pairs give a steady number:
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
			b.Run("mix="+mix.String(), func(b *testing.B) { driverAndBare(b, server, mix) })
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
	Config
	conns []*backend.Conn // sellers first
}

func (h hands) fixed(i int) fixed { return newFixed(h.conns[i].Client, h.Keys, market.UserID(i+1)) }

// driver returns the operations a second that the driver makes.
func (h hands) driver(b *testing.B) float64 {
	m := fakeMeasurement(h.Config, nothing, nothing)
	for i, w := range m.All() {
		w.conn.Store(h.conns[i])
		w.purchaser, w.supply = h.fixed(i), redisSupply{h.conns[i].Client, h.Keys, browseSize}
	}
	defer m.collector.run()()
	m.work(b.Context())
	if m.stop.cause != nil {
		b.Fatal(m.stop.cause)
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
			if _, err = market.Mint(ctx, rdb, h.Keys, h.account(Seller, i)); err != nil {
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
func driverAndBare(b *testing.B, server *backend.Server, mix result.Mix) {
	h := hands{Config: Config{Mix: mix, Duration: slice, Keys: testkit.Keys(b)}}
	for range mix.Sellers + mix.Buyers {
		h.conns = append(h.conns, testkit.Dial(b, server))
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
