package strategies

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// The values of the parameter fencing.
const (
	fencingNone  = "none"
	fencingOff   = "off"
	fencingOn    = "on"
	fencingToken = "token"
)

// fencingParam chooses whether the market refuses the writes of a lock's former holders. A lock alone cannot refuse
// them: its holder may be paused between its last check of the lease and the arrival of its write, for longer than the
// lease lasts.
//
//   - none: the market refuses none. The write is one MULTI/EXEC, as the book prints it.
//   - on: in the same script as its first read, the holder registers the fence of each of its locks (see lock.Fencer)
//     at the market. If a larger fence is registered there, the holder is refused as stale; otherwise its own is
//     stored. A second script writes if exactly its own fences are still registered. If not, it writes nothing:
//     market.ErrStale.
//   - off: the same two scripts, which register nothing and compare nothing. Compare on with off to see the cost of
//     fencing, and none with off to see the cost of scripts in place of MULTI/EXEC.
//   - token: as on, with a random token in place of a fence, so that it works with any lock. The token replaces
//     whatever is registered.
//
// It is not enough that the market remembers the largest fence that has written. A former holder that writes after the
// present holder has read, and before it has written, would be accepted, and the present holder would act on what is no
// longer true. Therefore a holder registers with its first read. A former holder that writes before that read does no
// harm: it is as if the lock had changed hands after the write.
//
// A random token is as safe. It is optimistic locking by another name: a write is refused if anybody has registered
// since the writer's first read, and the lock only makes that rare. The order of fences decides no more than who wins
// when a former holder comes late: with fences its registration is refused at once; with tokens it replaces the
// present holder's, whose write is then refused.
//
// What breaks it: fences are compared for as long as the market lives. A lock that starts to count again (its servers
// lost their data, the market did not) has all its holders refused until they have counted past the last registered
// fence. Each lock keeps one key at the market for the market's lifetime, because a former holder may come very late.
//
// Source: M. Kleppmann, "How to do distributed locking", 2016, on fencing tokens; S. Sanfilippo, "Is Redlock safe?",
// 2016, on random tokens that are compared and set.
var fencingParam = param.Choice("fencing",
	"refuse writes of former holders: on compares the lock's fence, token a random one, which is as safe; "+
		"off runs the same scripts without comparing, none a MULTI/EXEC",
	fencingNone, fencingOff, fencingOn, fencingToken)

// idempotentParam chooses whether a script that writes keeps the outcome of its worker's last operation, in one hash at
// the market. A library that sends a script again after a lost reply executes it twice: the buyer pays twice, or is told
// that the item which they have just bought is gone (scenario resent). With the outcome kept by the script that writes,
// the second execution answers what the first did. One record a worker is enough, and is overwritten: nothing is sent
// again after the next operation has begun.
//
// What breaks it: a script that fails midway keeps no outcome. And the record lives where the market does: a server
// that comes back without it knows neither.
//
// Source: idempotency keys, as in the IETF draft httpapi-idempotency-key-header; P. Helland, "Idempotence Is Not a
// Medical Condition", 2012.
var idempotentParam = param.Choice("idempotent",
	"where a script writes: it keeps each worker's last outcome, so that it may be sent twice", "off", "on")

// idempotent reports whether outcomes are kept at the market.
func idempotent(v param.Values) bool { return v.Text(idempotentParam) == "on" }

// registers reports whether holders register at the market, which leaves a key there.
func registers(v param.Values) bool {
	fencing := v.Text(fencingParam)
	return fencing == fencingOn || fencing == fencingToken
}

// FencedLocks names the locks that number their holders.
func (c Catalogue) FencedLocks() []string {
	var fenced []string
	for _, k := range c.Locks {
		if k.Promises.Fenced {
			fenced = append(fenced, k.Name)
		}
	}
	return fenced
}

// fencingVariants are the locks that number their holders, where the market compares the numbers and where it does
// not, and one lock whose random tokens the market compares.
func fencingVariants(c Catalogue) []string {
	var variants []string
	for _, name := range c.FencedLocks() {
		variants = append(variants, name+":fencing="+fencingOff, name+":fencing="+fencingOn)
	}
	return append(variants, "set-px:fencing="+fencingToken, "fenced:fencing="+fencingOn+":idempotent=on",
		"setnx:write="+writePipeline, "set-px:write="+writeFused)
}

// checkFencing refuses fencing=on under a lock that does not number its holders, and what goes with scripts only or
// without them only.
func checkFencing(s Spec, c Catalogue) error {
	kind, fencing := s.lock, s.params.Text(fencingParam)
	switch {
	case fencing == fencingNone && idempotent(s.params):
		return fmt.Errorf("idempotent=on is kept by the script that writes: add fencing=%s, %s or %s",
			fencingOff, fencingOn, fencingToken)
	case fencing != fencingNone && s.params.Text(writeParam) != writeParam.Default:
		return fmt.Errorf("write=%s is for fencing=%s: with fencing=%s a script writes", s.params.Text(writeParam),
			fencingNone, fencing)
	}
	if err := errors.Join(checkFused(s), checkTogether(s)); err != nil {
		return err
	}
	if s.params.Text(fencingParam) != fencingOn || kind.Promises.Fenced {
		return nil
	}
	return fmt.Errorf("the lock %s gives its holders no fence to compare: take one that does (%s), or fencing=%s, which"+
		" works with any lock", kind.Name, strings.Join(c.FencedLocks(), ", "), fencingToken)
}

var (
	//go:embed fence.lua
	fenceText string
	//go:embed refused.lua
	refusedText string
	//go:embed list_read.lua
	listReadText string
	//go:embed list_write.lua
	listWriteText string
	//go:embed purchase_read.lua
	purchaseReadText string
	//go:embed purchase_write.lua
	purchaseWriteText string

	//go:embed once.lua
	onceText string

	listRead     = redis.NewScript(fenceText + listReadText)
	purchaseRead = redis.NewScript(fenceText + purchaseReadText)

	listWrite, listOnce         = writingScripts(fenceText, listWriteText)
	purchaseWrite, purchaseOnce = writingScripts(fenceText, purchaseWriteText)
)

// writingScripts makes a script that writes, with what is defined before it, and the same for idempotent=on.
func writingScripts(before, text string) (plain, once *redis.Script) {
	return redis.NewScript(before + refusedText + text),
		redis.NewScript(before + refusedText + "local function write()\n" + text + "end\n" + onceText)
}

// scripts is access with fences: the first script reads and registers the holder, the second compares who is registered
// and writes. See fencingParam.
type scripts struct {
	*locked
	fencing string
	worker  string   // in the hash of outcomes; empty: none are kept
	number  int64    // of its last operation
	fences  []string // those of the held locks; empty when nothing is registered; reused
	with    []string // the keys of a script; reused
	args    []any    // its arguments; reused
}

func (g *scripts) listing(ctx context.Context, l market.Listing) (read, write func() error) {
	inventory := g.keys.Inventory(l.Seller)
	read = func() error {
		answer, err := g.read(ctx, listRead, 1, []string{inventory}, int64(l.Item))
		if err == nil && answer[0] == int64(0) {
			err = market.ErrNotOwned
		}
		return err
	}
	write = func() error {
		return g.write(ctx, listWrite, listOnce, []string{g.keys.Market(), inventory},
			l.Price, market.Member(l.Item, l.Seller), int64(l.Item))
	}
	return read, write
}

func (g *scripts) purchase(ctx context.Context, o market.Order) (read, write func() error) {
	member := market.Member(o.Item, o.Seller)
	read = func() error {
		answer, err := g.read(ctx, purchaseRead, 2, []string{g.keys.Market(), g.keys.User(o.Buyer)}, member)
		if err != nil {
			return err
		}
		price, priceErr := value(answer[0]).Float64()
		funds, fundsErr := value(answer[1]).Int64()
		return judge(o, price, priceErr, funds, fundsErr)
	}
	write = func() error {
		return g.write(ctx, purchaseWrite, purchaseOnce,
			[]string{g.keys.User(o.Seller), g.keys.User(o.Buyer), g.keys.Inventory(o.Buyer), g.keys.Market()},
			o.Price, -o.Price, int64(o.Item), member)
	}
	return read, write
}

// read runs a script that reads and registers. It returns as many values as the caller expects.
func (g *scripts) read(ctx context.Context, script *redis.Script, values int, keys []string, of any) ([]any, error) {
	if err := g.prepare(); err != nil {
		return nil, err
	}
	g.prepareRun(keys, of, g.fencing)
	answer, err := script.Run(ctx, g.rdb, g.with, g.args...).Slice()
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

// write runs a script that compares and writes, and classifies its answer: nil (applied), ErrStale, or an error of
// afterScript.
func (g *scripts) write(ctx context.Context, script, once *redis.Script, keys []string, args ...any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", market.ErrNotSent, err)
	}
	g.prepareRun(keys, args...)
	if g.worker != "" {
		g.number++
		script, g.with, g.args = once, append(g.with, g.keys.Outcomes()), append(g.args, g.worker, g.number)
	}
	applied, err := script.Run(ctx, g.rdb, g.with, g.args...).Bool()
	if err == nil && !applied {
		return market.ErrStale
	}
	return afterScript(err)
}

// prepareRun sets the keys and arguments of a script. The fences of the held locks follow its own.
func (g *scripts) prepareRun(keys []string, args ...any) {
	g.with, g.args = append(g.with[:0], keys...), append(g.args[:0], args...)
	for i, fence := range g.fences {
		g.with, g.args = append(g.with, g.keys.Fence(g.wanted[i])), append(g.args, fence)
	}
}

// prepare sets the fence that the holder registers for each of its locks.
func (g *scripts) prepare() error {
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

// value is one value of a script's answer, redis.Nil if it is missing there.
func value(answer any) *redis.StringCmd {
	text, ok := answer.(string)
	if !ok {
		return redis.NewStringResult("", redis.Nil)
	}
	return redis.NewStringResult(text, nil)
}
