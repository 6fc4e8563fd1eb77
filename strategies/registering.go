package strategies

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

var (
	//go:embed fence.lua
	fenceText string
	//go:embed list_read.lua
	listReadText string
	//go:embed list_write.lua
	listWriteText string
	//go:embed purchase_read.lua
	purchaseReadText string
	//go:embed purchase_write.lua
	purchaseWriteText string

	listRead      = redis.NewScript(fenceText + listReadText)
	listWrite     = redis.NewScript(fenceText + listWriteText)
	purchaseRead  = redis.NewScript(fenceText + purchaseReadText)
	purchaseWrite = redis.NewScript(fenceText + purchaseWriteText)
)

// nothingWritten ends the error of a script whose first write the server has refused.
const nothingWritten = "(nothing was written)"

// registering is locked with the market on guard: its first script reads and registers the holder, its second compares
// who is registered and writes. See fencingParam.
type registering struct {
	*locked
	fencing string
	fences  []string // those of the held locks; empty when nothing is registered; reused
	with    []string // the keys of a script; reused
	args    []any    // its arguments; reused
}

// List implements market.Purchaser.
func (g *registering) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	g.wanted = g.names.list(g.wanted[:0], l)
	inventory := g.keys.Inventory(l.Seller)
	return g.under(ctx, func() error {
		answer, err := g.read(ctx, listRead, 1, []string{inventory}, int64(l.Item))
		if err == nil && answer[0] == int64(0) {
			err = market.ErrNotOwned
		}
		return err
	}, func() error {
		return g.write(ctx, listWrite, []string{g.keys.Market(), inventory},
			l.Price, market.Member(l.Item, l.Seller), int64(l.Item))
	})
}

// Purchase implements market.Purchaser.
func (g *registering) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	g.wanted = g.names.purchase(g.wanted[:0], o)
	member := market.Member(o.Item, o.Seller)
	return g.under(ctx, func() error {
		answer, err := g.read(ctx, purchaseRead, 2, []string{g.keys.Market(), g.keys.User(o.Buyer)}, member)
		if err != nil {
			return err
		}
		price, priceErr := value(answer[0]).Float64()
		funds, fundsErr := value(answer[1]).Int64()
		return judge(o, price, priceErr, funds, fundsErr)
	}, func() error {
		return g.write(ctx, purchaseWrite,
			[]string{g.keys.User(o.Seller), g.keys.User(o.Buyer), g.keys.Inventory(o.Buyer), g.keys.Market()},
			o.Price, -o.Price, int64(o.Item), member)
	})
}

// read runs a script that reads and registers. Its answer is what was read, so many values.
func (g *registering) read(ctx context.Context, script *redis.Script, values int, keys []string, of any) ([]any, error) {
	if err := g.prepare(); err != nil {
		return nil, err
	}
	answer, err := g.run(ctx, script, keys, of, g.fencing).Slice()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read and register: %w", err)
	case len(answer) == 0:
		return nil, market.ErrStale
	case len(answer) != values:
		return nil, fmt.Errorf("read and register: %d values, want %d", len(answer), values)
	}
	return answer, nil
}

// write runs a script that compares and writes, and classifies what comes back: nil (applied), ErrStale, ErrRejected
// (the server refused the first write), ErrNotSent (no connection), or any other error, which leaves the outcome unknown:
// what a script has written before it fails stays.
func (g *registering) write(ctx context.Context, script *redis.Script, keys []string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
	applied, err := g.run(ctx, script, keys, args...).Bool()
	var server redis.Error
	var op *net.OpError
	switch {
	case err == nil && !applied:
		return market.ErrStale
	case err == nil:
		return nil
	case errors.As(err, &server) && strings.Contains(err.Error(), nothingWritten):
		return fmt.Errorf("%w: %w", market.ErrRejected, err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	default:
		return fmt.Errorf("outcome of the writing script is unknown: %w", err)
	}
}

// run runs a script with the fences of the held locks behind its own keys and arguments.
func (g *registering) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	g.with, g.args = append(g.with[:0], keys...), append(g.args[:0], args...)
	for i, fence := range g.fences {
		g.with, g.args = append(g.with, g.keys.Fence(g.wanted[i])), append(g.args, fence)
	}
	return script.Run(ctx, g.rdb, g.with, g.args...)
}

// prepare sets what the holder registers for each held lock.
func (g *registering) prepare() error {
	g.fences = g.fences[:0]
	switch g.fencing {
	case fencingToken:
		token := rand.Text()
		for range g.held {
			g.fences = append(g.fences, token)
		}
	case fencingOn:
		for i, lease := range g.held {
			fencer, ok := lease.(lock.Fencer)
			if !ok {
				return fmt.Errorf("lock %s promises fences, and its lease has none", g.wanted[i])
			}
			g.fences = append(g.fences, strconv.FormatInt(fencer.Fence(), 10))
		}
	}
	return nil
}

// value is one value in a script's answer, which may be missing there.
func value(answer any) *redis.StringCmd {
	text, ok := answer.(string)
	if !ok {
		return redis.NewStringResult("", redis.Nil)
	}
	return redis.NewStringResult(text, nil)
}
