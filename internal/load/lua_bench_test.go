package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// BenchmarkScript shows how near strategies of one script come to what sends the same
// script without them: purchases a second of the driver, with buyers only, as a share
// of those of loops of go-redis calls, each over a connection of its own, which
// browse as the driver does and send the strategy's script. For lua it should be 0.9
// or more. See [turns] for how.
//
//	go test ./internal/load -run '^$' -bench Script -benchtime 30x
func BenchmarkScript(b *testing.B) {
	server := subjects.StartServer(b)
	script := scriptOf(b, server)

	for _, name := range []string{"lua", "lua-shared"} {
		for _, buyers := range []int{5, 50} {
			b.Run(fmt.Sprintf("strategy=%s/buyers=%d", name, buyers), func(b *testing.B) {
				c := config(b, server, spec(b, name))
				c.Mix, c.Stock = result.Mix{Sellers: 1, Buyers: buyers}, inStock
				c.timed(2 * slice)
				turns(b, func(b *testing.B) float64 { return stocked(b, c, driven) },
					func(b *testing.B) float64 { return stocked(b, c, scriptLoops(script)) })
			})
		}
	}
}

// slice is how long the driver and the bare loop take turns.
const slice = 200 * time.Millisecond

// inStock is how many items are listed when a row begins. A buyer then seldom
// comes too late.
const inStock = 50_000

// stocked returns the purchases a second that are made in a market of its own, in which
// one account offers all there is.
func stocked(b *testing.B, c plan, buy func(*testing.B, *measurement) float64) float64 {
	m := connected(b, c)
	m.Duration, m.Warmup = c.Duration, c.Warmup
	perSecond := buy(b, m)
	testkit.Succeeds(b, errors.Join(m.close(), m.remove(context.Background())))
	return perSecond
}

// driven lets the driver's buyers buy, while nobody sells.
func driven(b *testing.B, m *measurement) float64 {
	sellers := m.sellers
	m.sellers = nil
	m.work(b.Context())
	if m.window.failure != nil {
		b.Fatal(m.window.failure)
	}
	row := m.row()
	m.sellers = sellers // to be closed, and their ledgers read
	return row.PerSecond()
}

// scriptLoops lets loops of nothing but go-redis calls buy.
func scriptLoops(script string) func(*testing.B, *measurement) float64 {
	return func(b *testing.B, m *measurement) float64 {
		var stop atomic.Bool
		var bought atomic.Int64
		var group sync.WaitGroup

		start := time.Now()
		defer time.AfterFunc(m.Duration, func() { stop.Store(true) }).Stop()
		for _, w := range m.buyers {
			group.Go(func() {
				n, err := buyByScript(b.Context(), w, script, &stop)
				if err != nil {
					b.Error(err)
				}
				bought.Add(n)
			})
		}

		group.Wait()
		return float64(bought.Load()) / time.Since(start).Seconds()
	}
}

// turns lets the driver and bare loops take turns, and reports how much of the others'
// throughput it reaches: the median of pairs, so that both meet the same machine.
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

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[len(values)/2] + values[(len(values)-1)/2]) / 2
}

func buyByScript(
	ctx context.Context, w *worker, script string, stop *atomic.Bool,
) (bought int64, err error) {
	rdb, of := w.opened.Conn.Client, w.market.Keys
	// User 1 offers all there is: see stocked.
	keys := []string{of.User(1), of.User(w.account), of.Inventory(w.account), of.Market()}

	for !stop.Load() {
		listings, err := rdb.ZRandMemberWithScores(ctx, of.Market(), glanceSize).Result()
		if err != nil {
			return bought, err
		}

		for _, l := range listings {
			if stop.Load() {
				break
			}
			member := l.Member.(string)
			item, _, _ := strings.Cut(member, ".")
			answer, err := rdb.EvalSha(ctx, script, keys, int64(l.Score), item, member).Result()
			switch {
			case err != nil:
				return bought, err
			case answer == int64(1):
				bought++
			case answer != "not_listed": // or somebody else was first
				return bought, fmt.Errorf(
					"the script of a purchase answers %v to its keys and arguments", answer)
			}
		}
	}
	return bought, nil
}

// scriptOf is the hash of lua's script of a purchase.
func scriptOf(b *testing.B, server *backend.Server) string {
	seen, conn := new(lastScript), testkit.Dial(b, server)
	conn.AddHook(seen)
	p, closer, err := spec(b, "lua").Open(strategies.Env{Redis: conn.Client, Keys: testkit.Keys(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer closer.Close()
	if _, err := p.Purchase(
		b.Context(), market.Order{Item: 1, Seller: 1, Buyer: 2, Price: 1},
	); !market.Refused(err) {
		b.Fatal(err)
	}
	return seen.hash
}

// lastScript is a hook that notes the hash of the last script that was run.
type lastScript struct{ hash string }

func (l *lastScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lastScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			l.hash, _ = cmd.Args()[1].(string)
		}
		return next(ctx, cmd)
	}
}

func (l *lastScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
