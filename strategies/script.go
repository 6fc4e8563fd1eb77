package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

// OwnScript is a strategy of your own whose purchase is a Lua script: [ScriptToCopy] says
// what it is given and what it answers. Its listings are those of lua. That two purchases
// cannot come between each other's commands is the server's doing, so that it is expected
// to protect items and accounts.
func OwnScript(name, text string) Strategy {
	purchase := redis.NewScript(text)
	return Strategy{
		Name:     name,
		Summary:  "a script of your own for each purchase; listings are those of lua",
		Protects: Protection{Items: true, Accounts: true},
		Script:   text,
		New: func(env Env) (market.Purchaser, io.Closer, error) {
			return purchaser{env.Keys, &ownScripter{newScripter(env), name, purchase}}, nil, nil
		},
	}
}

// ScriptToCopy is the purchase of the strategy lua, as a file for [OwnScript]. Its comment
// is the contract of such scripts.
func ScriptToCopy() string {
	return luaText("script", "refused", "lua_purchase", "purchase_write")
}

// ownScripter lists by the script of lua, and buys by one of its user's.
type ownScripter struct {
	*scripter
	name     string // of the strategy
	purchase *redis.Script
}

func (s *ownScripter) execute(ctx context.Context, op *operation) (r market.Receipt, err error) {
	if op.lists {
		return s.scripter.execute(ctx, op)
	}

	s.Steps.At(ctx, step.BeforeWrite)
	if err := ctx.Err(); err != nil {
		return r, beforeWrite(err)
	}
	// script.lua promises users these keys and arguments, in this order, and no others.
	keys, args := op.writing()
	answer, err := s.purchase.Run(ctx, s.rdb, keys, args...).Result()
	err = s.judge(answer, err)
	if err == nil {
		s.Steps.At(ctx, step.Written)
	}
	return r, err
}

// judge is what an answer of the script says: nil, a refusal, or why it is not known what
// became of the order.
func (s *ownScripter) judge(answer any, err error) error {
	switch {
	case errors.Is(err, redis.Nil): // nil and false of Lua
		answer = nil
	case err != nil:
		return afterScript(err)
	}

	switch answer {
	case int64(1):
		return nil
	case "not_listed":
		return market.ErrNotListed
	case "price_changed":
		return market.ErrPriceChanged
	case "insufficient_funds":
		return market.ErrInsufficientFunds
	}
	said := fmt.Sprintf("%v", answer)
	if text, is := answer.(string); is {
		said = fmt.Sprintf("%q", text)
	}
	return fmt.Errorf("%s answers %s, not 1, not_listed, price_changed or insufficient_funds: "+
		"'marketsim list script' says what each means", s.name, said)
}
