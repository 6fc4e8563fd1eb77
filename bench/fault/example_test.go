package fault_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// TestMain lets this program be the clients of scenarios, each of which is a process of its own. A repository of yours
// needs no catalogue, and ends with os.Exit(m.Run()).
func TestMain(m *testing.M) {
	fault.ServeChild(func(name string) (fault.Purchasing, error) {
		if name == (oneScript{}).String() {
			return oneScript{}, nil
		}
		spec, quiet := strings.CutPrefix(name, "quiet ") // of a test
		parsed, err := catalogue.Full().Parse(spec)
		if quiet {
			return fault.Quiet{Purchasing: parsed}, err
		}
		return parsed, err
	})
	backend.QuietLogs()
	testkit.VerifyNoLeaks(m)
}

// oneScript is a Purchaser from elsewhere: each operation is one script.
type oneScript struct{}

func (oneScript) String() string { return "one-script" }

// Open implements bench.Subject and fault.Purchasing.
func (oneScript) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	return scripted{env.Redis, env.Keys}, io.NopCloser(nil), nil
}

// LockKeys implements bench.Subject: there are none.
func (oneScript) LockKeys(market.Keys, market.Made) iter.Seq[string] {
	return func(func(string) bool) {}
}

var list = redis.NewScript(`
	if redis.call('SREM', KEYS[1], ARGV[1]) == 0 then return 'not owned' end
	redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
	return 'done'`)

var purchase = redis.NewScript(`
	local price = redis.call('ZSCORE', KEYS[1], ARGV[1])
	if not price then return 'gone' end
	if price ~= ARGV[3] then return 'price' end
	if tonumber(redis.call('HGET', KEYS[2], 'funds')) < tonumber(price) then return 'funds' end
	redis.call('HINCRBY', KEYS[2], 'funds', -price)
	redis.call('HINCRBY', KEYS[3], 'funds', price)
	redis.call('SADD', KEYS[4], ARGV[2])
	redis.call('ZREM', KEYS[1], ARGV[1])
	return 'done'`)

// refusals are what the scripts answer when they have written nothing.
var refusals = map[string]error{
	"not owned": market.ErrNotOwned, "gone": market.ErrNotListed,
	"price": market.ErrPriceChanged, "funds": market.ErrInsufficientFunds,
}

type scripted struct {
	rdb  *redis.Client
	keys market.Keys
}

// List implements market.Purchaser.
func (s scripted) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	answer, err := list.Run(ctx, s.rdb, []string{s.keys.Inventory(l.Seller), s.keys.Market()},
		int64(l.Item), l.Price, market.Member(l.Item, l.Seller)).Text()
	if err != nil {
		return market.Receipt{}, err // the outcome is unknown
	}
	return market.Receipt{}, refusals[answer]
}

// Purchase implements market.Purchaser.
func (s scripted) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	answer, err := purchase.Run(ctx, s.rdb,
		[]string{s.keys.Market(), s.keys.User(o.Buyer), s.keys.User(o.Seller), s.keys.Inventory(o.Buyer)},
		market.Member(o.Item, o.Seller), int64(o.Item), o.Price).Text()
	if err != nil {
		return market.Receipt{}, err // the outcome is unknown
	}
	return market.Receipt{}, refusals[answer]
}

// A Purchaser from elsewhere is loaded, its history recorded and judged and its market audited; then every scenario
// is run with it. It calls no steps, so that a client is held before each of its commands in turn.
func Example_outside() {
	ctx := context.Background()
	if err := load(ctx); err != nil {
		fmt.Println(err)
	}
	if err := runScenarios(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// audit ok: true
	// history: linearizable
	// crash-holding: none, others kept out: at once
	// pause: none, others kept out: at once
	// stuck-goroutine: none, others kept out: at once
	// lost-reply: none, others kept out: not asked
	// resent: wrongly told no, others kept out: not asked
	// cut: none, others kept out: not asked
	// partition: none, others kept out: at once
	// overdraft: none, others kept out: not asked
}

// load measures a row with its history, and judges both.
func load(ctx context.Context) error {
	server, err := embedded.Starter{}.Start(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	folder, err := os.MkdirTemp("", "history-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	keys, err := market.NewKeys("example:")
	if err != nil {
		return err
	}
	row, err := bench.Run(ctx, bench.Config{
		Subject: oneScript{}, Mix: result.Mix{Sellers: 3, Buyers: 3}, Duration: 200 * time.Millisecond, Seed: 1,
		Funds: bench.DefaultFunds, Keys: keys, Dial: server.Dial, History: folder + "/history",
	})
	if err != nil {
		return err
	}
	recorded, err := history.Read(folder + "/history")
	if err != nil {
		return err
	}
	fmt.Println("audit ok:", row.Audit.OK)
	fmt.Println("history:", history.Check(ctx, recorded).Answer)
	return nil
}

// runScenarios runs every scenario that can happen to it.
func runScenarios(ctx context.Context) error {
	runner, err := fault.StartRunner(ctx)
	if err != nil {
		return err
	}
	defer runner.Close()
	findings, err := runner.Run(ctx, fault.All(), []fault.Scheme{fault.Outside(oneScript{})}, nil)
	for _, f := range findings {
		if f.Verdict != result.NotApplicable {
			fmt.Printf("%s: %s, others kept out: %s\n", f.Scenario, f.Harm, f.KeptOut)
		}
	}
	return err
}
