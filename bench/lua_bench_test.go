package bench

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"strconv"
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
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// BenchmarkScript shows how near strategies of one script come to what sends the same script without them: purchases a
// second of the driver, with buyers only, as a share.
//
//   - against=bare: of loops of go-redis calls, each over a connection of its own, which browse as the driver does and
//     send the strategy's script. For lua it should be 0.9 or more.
//   - against=redis-benchmark: of redis-benchmark -c 50 -P 1 with a script that makes the purchase and puts the item
//     back. For lua it should be 0.65 or more. It is skipped where there is no redis-benchmark.
//
// An iteration is a pair of short rows, one of each, so that both meet the same machine; the metric is the median of the
// pairs:
//
//	go test ./bench -run '^$' -bench Script -benchtime 30x
func BenchmarkScript(b *testing.B) {
	server := StartServer(b)
	for _, name := range []string{"lua", "lua-shared"} {
		for _, buyers := range []int{5, 50} {
			b.Run(fmt.Sprintf("strategy=%s/against=bare/buyers=%d", name, buyers), func(b *testing.B) {
				s := newStocked(b, server, name, buyers)
				pairs(b, s.driver, s.bare)
			})
		}
		b.Run(fmt.Sprintf("strategy=%s/against=redis-benchmark/buyers=50", name), func(b *testing.B) {
			if _, err := exec.LookPath("redis-benchmark"); err != nil {
				testkit.Require(b, "redis-benchmark", err.Error())
			}
			s := newStocked(b, server, name, 50)
			puts := s.puttingBack(b)
			pairs(b, s.driver, func(b *testing.B) float64 { return s.redisBenchmark(b, puts) })
		})
	}
}

// pairs lets two take turns, and reports how much of the second's throughput the first reaches.
func pairs(b *testing.B, driver, other func(*testing.B) float64) {
	var ratios, driven, others []float64
	for b.Loop() {
		var d, o float64
		if len(ratios)%2 == 0 { // whoever comes second finds the other's garbage
			d = driver(b)
			o = other(b)
		} else {
			o = other(b)
			d = driver(b)
		}
		ratios, driven, others = append(ratios, d/o), append(driven, d), append(others, o)
	}
	b.ReportMetric(0, "ns/op") // an iteration is as long as its slices
	b.ReportMetric(median(ratios), "driver/other")
	b.ReportMetric(median(driven), "purchases/s")
	b.ReportMetric(median(others), "other/s")
}

// stocked is a market in which one account offers all there is, and the connections of those who buy it.
type stocked struct {
	Config
	server     *backend.Server
	conns      []*backend.Conn
	purchasers []market.Purchaser
	script     string // the hash of the script of a purchase
}

// inStock is how many items are listed when a row begins. A buyer then seldom comes too late.
const inStock = 50_000

func newStocked(b *testing.B, server *backend.Server, strategy string, buyers int) *stocked {
	s := &stocked{server: server, Config: Config{
		Mix: result.Mix{Sellers: 1, Buyers: buyers}, Duration: 2 * slice, Keys: testkit.Keys(b), Funds: DefaultFunds,
		Dial: server.Dial, Subject: spec(b, strategy),
	}}
	for range buyers {
		s.conns = append(s.conns, testkit.Dial(b, server))
	}
	rdb := s.conns[0].Client
	if err := market.Seed(b.Context(), rdb, s.Keys, s.opening()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // before the connections are closed
		made, err := market.ReadMade(context.Background(), rdb, s.Keys)
		if err == nil {
			_, err = market.Remove(context.Background(), rdb, s.Keys, made, s.Subject.LockKeys(s.Keys, made))
		}
		if err != nil {
			b.Error(err)
		}
	})
	process, seen := new(lock.Process), new(lastScript)
	b.Cleanup(func() { _ = process.Close() })
	for _, conn := range s.conns {
		s.purchasers = append(s.purchasers, s.open(b, s.Subject, conn, process))
	}
	s.restock(b)
	hooked := testkit.Dial(b, server) // whose hook would be in the way of the others
	hooked.AddHook(seen)
	order := market.Order{Item: 1, Seller: 1, Buyer: 2, Price: 1}
	if _, err := s.open(b, spec(b, "lua"), hooked, nil).Purchase(b.Context(), order); err != nil {
		b.Fatal(err)
	}
	s.script = seen.hash
	return s
}

func (s *stocked) open(b *testing.B, subject Subject, conn *backend.Conn, process *lock.Process) market.Purchaser {
	p, closer, err := subject.Open(strategies.Env{
		Redis: conn.Client, Keys: s.Keys, Process: process,
		Dial: func(ctx context.Context) (*redis.Client, error) {
			more, err := s.server.Dial(ctx)
			if err != nil {
				return nil, err
			}
			return more.Client, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = closer.Close() })
	return p
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

// restock lists new items for one coin each, in place of those that were bought.
func (s *stocked) restock(b *testing.B) {
	ctx, rdb := b.Context(), s.conns[0].Client
	listed, err := rdb.ZCard(ctx, s.Keys.Market()).Result()
	for ; err == nil && listed < inStock; listed += market.BatchSize {
		var first market.ItemID
		if first, err = market.Mint(ctx, rdb, s.Keys, 1); err != nil {
			break
		}
		_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for item := first; item < first+market.BatchSize; item++ {
				p.ZAdd(ctx, s.Keys.Market(), redis.Z{Score: 1, Member: market.Member(item, 1)})
			}
			return p.Del(ctx, s.Keys.Inventory(1)).Err()
		})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// driver returns the purchases a second that the driver makes.
func (s *stocked) driver(b *testing.B) float64 {
	s.restock(b)
	m := fakeMeasurement(s.Config, nothing, nothing)
	m.sellers = nil
	for i, w := range m.buyers {
		w.conn.Store(s.conns[i])
		w.purchaser, w.supply = s.purchasers[i], redisSupply{rdb: s.conns[i].Client, keys: s.Keys, some: browseSize}
	}
	defer m.collector.run()()
	m.work(b.Context())
	if m.stop.cause != nil {
		b.Fatal(m.stop.cause)
	}
	return m.row().PurchasesPerSecond
}

// bare returns the purchases a second that loops of nothing but go-redis calls make.
func (s *stocked) bare(b *testing.B) float64 {
	s.restock(b)
	var stop atomic.Bool
	var bought atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	defer time.AfterFunc(s.Duration, func() { stop.Store(true) }).Stop()
	for i, conn := range s.conns {
		group.Go(func() {
			n, err := s.buyer(b.Context(), conn.Client, market.UserID(2+i), &stop)
			if err != nil {
				b.Error(err)
			}
			bought.Add(n)
		})
	}
	group.Wait()
	return float64(bought.Load()) / time.Since(start).Seconds()
}

func (s *stocked) buyer(ctx context.Context, rdb *redis.Client, id market.UserID, stop *atomic.Bool) (bought int64, err error) {
	keys := []string{s.Keys.User(1), s.Keys.User(id), s.Keys.Inventory(id), s.Keys.Market()}
	for !stop.Load() {
		listings, err := rdb.ZRandMemberWithScores(ctx, s.Keys.Market(), browseSize).Result()
		if err != nil {
			return bought, err
		}
		for _, l := range listings {
			if stop.Load() {
				break
			}
			member := l.Member.(string)
			item, _, _ := strings.Cut(member, ".")
			answer, err := rdb.EvalSha(ctx, s.script, keys, int64(l.Score), item, member).Result()
			switch {
			case err != nil:
				return bought, err
			case answer == int64(1):
				bought++
			case answer != "not_listed": // or somebody else was first
				return bought, fmt.Errorf("the script of a purchase answers %v to its keys and arguments", answer)
			}
		}
	}
	return bought, nil
}

// puttingBack lists items whose numbers are written as redis-benchmark writes them, and returns the hash of a script
// that makes a purchase of one, and undoes it.
func (s *stocked) puttingBack(b *testing.B) string {
	var text strings.Builder
	for _, part := range []string{"../strategies/refused.lua", "local function buy()\n", "../strategies/lua_purchase.lua"} {
		if strings.HasSuffix(part, ".lua") {
			content, err := os.ReadFile(part)
			if err != nil {
				b.Fatal(err)
			}
			part = string(content)
		}
		text.WriteString(part)
	}
	text.WriteString(`
end
local answer = buy()
if answer == 1 then
	redis.call('HINCRBY', KEYS[1], 'funds', -tonumber(ARGV[1]))
	redis.call('HINCRBY', KEYS[2], 'funds', ARGV[1])
	redis.call('SREM', KEYS[3], ARGV[2])
	redis.call('ZADD', KEYS[4], ARGV[1], ARGV[3])
end
return answer`)
	ctx, rdb := b.Context(), s.conns[0].Client
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range inStock {
			p.ZAdd(ctx, s.putBack(), redis.Z{Score: 1, Member: fmt.Sprintf("%012d.1", n)})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rdb.Unlink(context.Background(), s.putBack()).Err(); err != nil {
			b.Error(err)
		}
	})
	hash, err := rdb.ScriptLoad(ctx, text.String()).Result()
	if err != nil {
		b.Fatal(err)
	}
	return hash
}

// putBack is the key of a market from which nothing is taken for good.
func (s *stocked) putBack() string { return s.Keys.Lock("put-back") }

// redisBenchmark returns the purchases a second that redis-benchmark makes.
func (s *stocked) redisBenchmark(b *testing.B, script string) float64 {
	b.Helper()
	if s.server.Target.Network != "tcp" || s.server.Target.TLS != nil || s.server.Target.Password != "" {
		b.Skip("redis-benchmark is run here without TLS and without a password")
	}
	host, port, _ := strings.Cut(s.server.Target.Addr, ":")
	out, err := exec.CommandContext(b.Context(), "redis-benchmark", "-h", host, "-p", port, "-c", "50", "-P", "1", "--csv",
		"-n", "20000", "-r", strconv.Itoa(inStock), "EVALSHA", script, "4", s.Keys.User(1), s.Keys.User(2),
		s.Keys.Inventory(2), s.putBack(), "1", "__rand_int__", "__rand_int__.1").Output()
	if err != nil {
		b.Fatalf("redis-benchmark: %v: %s", err, out)
	}
	lines, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(lines) != 2 || len(lines[1]) < 2 {
		b.Fatalf("redis-benchmark says %q: %v", out, err)
	}
	perSecond, err := strconv.ParseFloat(lines[1][1], 64)
	if err != nil {
		b.Fatalf("redis-benchmark says %q: %v", out, err)
	}
	return perSecond
}
