package strategies

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/param"
)

const (
	fencingNone  = "none"
	fencingOff   = "off"
	fencingOn    = "on"
	fencingToken = "token"
)

// fencingParam chooses whether the market refuses the writes of a lock's former holders.
// A lock alone cannot refuse them: its holder may be paused after its last check of the
// lease for longer than the lease lasts.
//
//   - none: the market refuses none. The write is one MULTI/EXEC, as the book prints it.
//   - on: in the same script as its first read, the holder registers the fence of each of
//     its locks (see lock.Lease) at the market. If a larger fence is registered there,
//     the holder is refused as stale. A second script writes if exactly its own fences
//     are still registered, or else nothing: market.ErrStale.
//   - off: the same two scripts, which register nothing and compare nothing:
//     the cost of scripts alone.
//   - token: as on, with a random token in place of a fence, which replaces whatever is
//     registered: it needs no fences.
//
// To remember the largest fence that has written is not enough. A former holder that
// writes between the present holder's read and write would be accepted, and the present
// holder would act on what is no longer true. Therefore a holder registers with its first
// read. A former holder that writes before that does no harm.
//
// A random token is as safe. It is optimistic locking by another name: a write is refused
// if anybody has registered since the writer's first read. A former holder's late token
// has the present holder refused.
//
// What breaks it: fences are compared for as long as the market lives. A lock that
// starts to count again (its servers lost their data, the market did not) has all its
// holders refused until they have counted past the last registered fence. Each lock
// keeps one key at the market for the market's lifetime: a former holder may come very
// late. Source: M. Kleppmann, "How to do distributed locking", 2016; S. Sanfilippo, "Is
// Redlock safe?", 2016, on random tokens.
var fencingParam = param.OneOf("fencing",
	"refuse writes of former holders: on compares the lock's fence, token a random one, which is as safe; "+
		"off runs the same scripts without comparing, none a MULTI/EXEC",
	fencingNone, fencingOff, fencingOn, fencingToken)

// idempotentParam chooses whether a script that writes keeps the outcome of its worker's
// last operation, in one hash at the market. If a library sends a script again after a
// lost reply, the buyer pays twice, or is told that the item which they have just bought
// is gone (scenario resent). Here the second execution answers what the first did.
//
// What breaks it: a copy that arrives after the worker's next operation runs again
// (scenario resent-late); only records that are kept for as long as a copy may be
// late prevent that. A script that fails midway keeps no outcome. A server that
// comes back empty has lost it too.
var idempotentParam = param.OneOf("idempotent",
	"where a script writes: it keeps each worker's last outcome, so that it may be sent twice, but not again after "+
		"the worker's next operation", "off", "on")

func idempotent(v param.Values) bool { return v.Text(idempotentParam) == "on" }

// registers reports whether holders register at the market, which leaves a key there.
func registers(v param.Values) bool {
	fencing := v.Text(fencingParam)
	return fencing == fencingOn || fencing == fencingToken
}

// fencingVariants are the locks that number their holders, with and without fencing, and
// one lock for each other value of a parameter that matters in a failure.
func fencingVariants(c Catalogue) []string {
	var variants []string
	for _, name := range c.FencedLocks() {
		variants = append(variants, name+":fencing="+fencingOff, name+":fencing="+fencingOn)
	}
	return append(variants, "set-px:fencing="+fencingToken, "fenced:fencing="+fencingOn+":idempotent=on",
		"setnx:write="+writePipeline, "set-px:write="+writeFused,
		"set-px:after-unknown="+unknownRelease, "set-px:after-unknown="+unknownKill,
		"reentrant:entries=2", "reentrant-local:reenter=set:entries=2", "reentrant-local:reenter=keepttl:entries=2",
		"redisson:entries=2", "set-px:resend=on")
}

// checkFencing refuses what goes with certain locks, with scripts only or
// without them only.
func checkFencing(s Spec, c Catalogue) error {
	if err := checkUnknown(s); err != nil {
		return err
	}

	// What one case has refused, those below need not think of: a fused write, for example, has
	// no fencing any more. newLocked relies on it that at most one of fencing=, write= and
	// after-unknown=kill is set: a second one would have no effect, and nobody would be told.
	fencing := s.params.Text(fencingParam)
	write := s.params.Text(writeParam)
	switch {
	case fencing == fencingNone && idempotent(s.params):
		return fmt.Errorf("idempotent=on is kept by the script that writes: add fencing=%s, %s or %s",
			fencingOff, fencingOn, fencingToken)
	case fencing != fencingNone && write != writeParam.Default:
		return fmt.Errorf("write=%s is for fencing=%s: with fencing=%s a script writes",
			write, fencingNone, fencing)
	case s.params.Text(readParam) != readParam.Default && s.readsItsWay():
		return fmt.Errorf("read=%s is for a purchase that a MULTI/EXEC or a pipeline writes: "+
			"without fencing=, write=%s and after-unknown=%s", readOneByOne, writeFused, unknownKill)
	case s.params.Text(entriesParam) != entriesParam.Default && !s.Promises().Reentrant:
		return fmt.Errorf("entries=2 is for a lock that its holder can enter again: %s waits for itself",
			s.lock.Name)
	case write == writeFused:
		return checkFused(s)
	case fencing == fencingOn && !s.lock.Promises.Fenced:
		return fmt.Errorf("the lock %s gives its holders no fence to compare: "+
			"take one that does (%s), or fencing=%s, which works with any lock",
			s.lock.Name, strings.Join(c.FencedLocks(), ", "), fencingToken)
	}
	return nil
}

// readsItsWay reports whether the spec's reads are a part of something else: of a script,
// of what takes the lock, or of what asks for the connection's name.
func (s Spec) readsItsWay() bool {
	return s.params.Text(fencingParam) != fencingNone || s.FusesLock() || s.params.Text(unknownParam) == unknownKill
}

var (
	listRead      = redis.NewScript(luaText("fence", "list_read"))
	purchaseRead  = redis.NewScript(luaText("fence", "purchase_read"))
	listWrite     = newWriting(luaText("fence"), "if not registered(2, 3) then return 0 end\n"+luaText("list_write"))
	purchaseWrite = newWriting(luaText("fence"), "if not registered(4, 3) then return 0 end\n"+luaText("purchase_write"))
)

// fenced is access with fences by two scripts: see fencingParam.
type fenced struct {
	byLocker
	holder   *locked
	scripter *scripter
	fences   []string // those of the held locks; empty when nothing is registered; reused
}

func (f *fenced) read(ctx context.Context, op *operation) error {
	if err := f.setFences(); err != nil {
		return err
	}

	script := purchaseRead
	subject := any(op.member())
	if op.lists {
		script = listRead
		subject = int64(op.Item)
	}

	// Reading registers the fence at the market: no former holder can write from now on.
	keys, args := f.withFences(op.reads(), []any{subject, f.holder.Params.Text(fencingParam)})
	answer, err := script.Run(ctx, f.holder.Redis, keys, args...).Slice()

	switch {
	case err != nil:
		return fmt.Errorf("read and register: %w", err)
	case len(answer) == 0:
		return market.ErrStale
	case op.lists:
		op.owned = redis.NewBoolResult(answer[0] != int64(0), nil)
	default:
		op.price = redis.NewFloatResult(value(answer[0]).Float64())
		op.funds = value(answer[1])
	}
	return op.judge()
}

// value is one value of a script's answer, redis.Nil if it is missing there.
func value(answer any) *redis.StringCmd {
	if text, ok := answer.(string); ok {
		return redis.NewStringResult(text, nil)
	}
	return redis.NewStringResult("", redis.Nil)
}

func (f *fenced) write(ctx context.Context, op *operation) error {
	script := purchaseWrite
	if op.lists {
		script = listWrite
	}
	keys, args := f.withFences(op.writing())
	return f.scripter.run(ctx, script, keys, args)
}

// withFences adds those of the held locks to the keys and arguments of a script. Fence i
// is of wanted[i], because takeAll takes all wanted locks in order.
func (f *fenced) withFences(keys []string, args []any) ([]string, []any) {
	for i, fence := range f.fences {
		keys = append(keys, f.holder.Keys.Fence(f.holder.wanted[i]))
		args = append(args, fence)
	}
	return keys, args
}

// setFences sets the fence that the holder registers for each of its locks, in their order; none
// with fencing=off. Only read calls it: write shows the fences that read has registered, and a
// token that is drawn anew would be refused.
func (f *fenced) setFences() error {
	f.fences = f.fences[:0]
	fencing := f.holder.Params.Text(fencingParam)
	token := rand.Text()

	for i, h := range f.holder.held {
		switch {
		case fencing == fencingToken:
			f.fences = append(f.fences, token)
		case fencing == fencingOn && h.Lease.Fence == 0:
			return fmt.Errorf("lock %s promises fences, and its lease has none", f.holder.wanted[i])
		case fencing == fencingOn:
			f.fences = append(f.fences, strconv.FormatInt(h.Lease.Fence, 10))
		}
	}
	return nil
}
