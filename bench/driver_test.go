package bench

import (
	"context"
	"testing"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/market"
)

// loop is one worker on in-memory goods with a Purchaser that does nothing: what is left is the driver.
type loop struct {
	*worker
	run  func(context.Context)
	left int // listings, for a seller
}

func buyerLoop(testing.TB) *loop {
	w := fakeCrew(Config{Subject: noSubject{}, Mix: mix1x1}, nothing, nothing).buyers[0]
	return &loop{worker: w, run: w.buy}
}

func sellerLoop(testing.TB) *loop {
	l := &loop{}
	lister := func(b *brake) market.Purchaser {
		return fake{onList: func(context.Context, market.Listing) (market.Receipt, error) {
			if l.left--; l.left == 0 {
				b.pulled.Store(true)
			}
			return market.Receipt{}, nil
		}}
	}
	l.worker = fakeCrew(Config{Subject: noSubject{}, Mix: mix1x1}, lister, nothing).sellers[0]
	l.run = l.sell
	return l
}

func nothing(*brake) market.Purchaser { return fake{} }

// operations makes the worker do n of them.
func (l *loop) operations(n int) {
	l.brake.pulled.Store(false)
	l.tickets, l.left = newTickets(int64(n)), n
	l.run(context.Background())
}

var loops = []struct {
	name string
	make func(testing.TB) *loop
}{
	{"seller", sellerLoop},
	{"buyer", buyerLoop},
	{"seller+history", recorded(sellerLoop)},
	{"buyer+history", recorded(buyerLoop)},
}

// recorded makes loops whose operations go into a history.
func recorded(make func(testing.TB) *loop) func(testing.TB) *loop {
	return func(t testing.TB) *loop {
		w, err := history.Create(t.TempDir(), history.Header{})
		if err != nil {
			t.Fatal(err)
		}
		l := make(t)
		if l.history, err = w.Worker("worker"); err != nil {
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
			if l.recorder.listed+l.recorder.bought < long {
				t.Errorf("recorded %d listings and %d purchases", l.recorder.listed, l.recorder.bought)
			}
		})
	}
}

// BenchmarkDriver shows what the driver itself costs.
//
//   - purchaser=none: nanoseconds and allocations an operation, with a Purchaser and goods that do nothing.
//
//   - purchaser=fixed: the throughput of the driver as a share of that of a bare loop of go-redis calls which sends the
//     same commands, "driver/bare". It should be 0.9 or more. An iteration is a pair of short rows, one of each, so that
//     both meet the same machine; the metric is the median of the pairs. A few dozen pairs give a steady number:
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
		for _, mix := range []Mix{mix1x1, mix5x5} {
			b.Run("mix="+mix.String(), func(b *testing.B) { driverAndBare(b, server, mix) })
		}
	})
}
