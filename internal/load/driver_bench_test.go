package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// loop is one worker on a supply in memory with a Purchaser that does nothing:
// what is left is the driver.
type loop struct {
	*measurement
	worker *worker
	run    func(context.Context, *worker)
	left   int
}

func buyerLoop(testing.TB) *loop {
	l := &loop{}
	l.measurement = fakeMeasurement(on1x1(Options{Duration: time.Hour}), nothing, l.stopping)
	l.worker, l.run = l.buyers[0], l.buy
	l.window.begin(0, time.Hour)
	return l
}

func sellerLoop(testing.TB) *loop {
	l := &loop{}
	l.measurement = fakeMeasurement(on1x1(Options{Duration: time.Hour}), l.stopping, nothing)
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
		w := testkit.Must(history.Create(t.TempDir(), history.Header{}))(t)
		l := make(t)
		l.worker.history = testkit.Must(w.Worker())(t)
		t.Cleanup(func() {
			if err := w.Finish(market.Snapshot{}); err != nil {
				t.Error(err)
			}
		})
		return l
	}
}

// TestDriverAllocatesNothing compares a long row with a short one: what both allocate is
// for the row, and the rest, of which there must be none, is for the operations. A batch
// of items may cost what a ledger needs to note it.
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

// BenchmarkDriver shows what the driver itself costs: nanoseconds and allocations an
// operation, with a Purchaser and a supply that do nothing. How near it comes to bare
// loops of go-redis calls, BenchmarkScript shows.
func BenchmarkDriver(b *testing.B) {
	for _, c := range loops {
		b.Run("worker="+c.name, func(b *testing.B) {
			l := c.make(b)
			b.ReportAllocs()
			b.ResetTimer()
			l.operations(b.N)
		})
	}
}
