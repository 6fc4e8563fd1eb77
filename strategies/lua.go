package strategies

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// lua makes a listing or a purchase by one script: the server reads, decides and writes while it does nothing else.
// There is nothing to lock, nothing to try again, and one round trip. It protects items and accounts.
//
// What breaks it: a script is not a transaction that can be rolled back. What it has written before a command of it
// fails stays, and an access list that forbids one of its later commands leaves an item in two places. The rehearsal
// before a run tries every command, so such a user is refused before the load; permissions that are taken away during
// a run are not. A first write that is refused leaves nothing. A script that a library sends again after a lost reply
// is executed again, and tells the buyer that the item just bought is gone (scenario resent); idempotent=on answers what
// it did the first time. All keys must lie in one slot of a cluster, and while a script runs nobody else is served.
//
// Source: redis.io/docs/latest/develop/programmability/eval-intro, "Atomicity of scripts".
func lua() Strategy {
	return Strategy{
		Name:     "lua",
		Summary:  "one script an operation: the server reads, decides and writes in one go",
		Source:   "redis.io, scripting with Lua",
		Protects: Protection{Items: true, Accounts: true},
		Params:   []param.Param{idempotentParam},
		Variants: func(Catalogue) []string { return []string{"lua:idempotent=on"} },
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			s := &scripter{rdb: env.Redis, keys: env.Keys, steps: env.Steps}
			if idempotent(env.Params) {
				s.worker = rand.Text()
			}
			return s, nil, nil
		},
	}
}

var (
	//go:embed lua_list.lua
	luaListText string
	//go:embed lua_purchase.lua
	luaPurchaseText string

	luaList, luaListOnce         = writingScripts("", luaListText)
	luaPurchase, luaPurchaseOnce = writingScripts("", luaPurchaseText)
)

type scripter struct {
	rdb    redis.Scripter
	keys   market.Keys
	steps  step.Observer
	worker string // in the hash of outcomes; empty: none are kept
	number int64  // of its last operation
}

// List implements market.Purchaser.
func (s *scripter) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	return market.Receipt{}, s.run(ctx, luaList, luaListOnce, []string{s.keys.Market(), s.keys.Inventory(l.Seller)},
		l.Price, market.Member(l.Item, l.Seller), int64(l.Item))
}

// Purchase implements market.Purchaser.
func (s *scripter) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return market.Receipt{}, s.run(ctx, luaPurchase, luaPurchaseOnce,
		[]string{s.keys.User(o.Seller), s.keys.User(o.Buyer), s.keys.Inventory(o.Buyer), s.keys.Market()},
		o.Price, int64(o.Item), market.Member(o.Item, o.Seller))
}

// run runs a script, and returns its refusal as the error of that name.
func (s *scripter) run(ctx context.Context, script, once *redis.Script, keys []string, args ...any) error {
	if s.worker != "" {
		s.number++
		script, keys, args = once, append(keys, s.keys.Outcomes()), append(args, s.worker, s.number)
	}
	s.steps.At(ctx, step.BeforeWrite)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
	answer, err := script.Run(ctx, s.rdb, keys, args...).Result()
	if err != nil {
		return afterScript(err)
	}
	if reason, ok := answer.(string); ok {
		if refusal := market.Refusal(reason); refusal != nil {
			return refusal
		}
		return fmt.Errorf("the script answers %q, which is no refusal", reason)
	}
	s.steps.At(ctx, step.Written)
	return nil
}
