package strategies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// LockNames says which locks a strategy takes, in the order in which it takes them.
type LockNames struct {
	// operation appends the locks of an operation on an item. The buyer is 0 for a listing and for a browser.
	operation func(names []string, item market.ItemID, buyer market.UserID) []string
	// all enumerates the locks that a market may have, so that it can be removed without a SCAN.
	all func(accounts int, items market.ItemID) iter.Seq[string]
	// several says that some operations take more than one.
	several bool
}

func itemLock(id market.ItemID) string { return strconv.FormatInt(int64(id), 10) }

func accountLock(id market.UserID) string { return "users:" + strconv.FormatInt(int64(id), 10) }

// itemLocks enumerates the locks of items 1 to last.
func itemLocks(last market.ItemID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := market.ItemID(1); id <= last; id++ {
			if !yield(itemLock(id)) {
				return
			}
		}
	}
}

// underLocks completes a strategy whose operations run under locks. Such strategies differ only in the
// names of their locks.
func underLocks(s Strategy, names LockNames) Strategy {
	s.Params, s.Check = []param.Param{fencingParam, writeParam, idempotentParam}, checkFencing
	s.Lock, s.Locks = "setnx", names
	s.New = func(env Env) (market.Purchaser, io.Closer, error) {
		if env.Params.Text(writeParam) == writeFused {
			return newFused(env, names)
		}
		k := &locked{
			rdb: env.Redis, keys: env.Keys, locker: env.Locker, names: names, steps: env.Steps,
			holds: holds{report: env.Holds},
		}
		switch fencing := env.Params.Text(fencingParam); {
		case fencing != fencingNone && idempotent(env.Params):
			k.access = &scripts{locked: k, fencing: fencing, worker: rand.Text()}
		case fencing != fencingNone:
			k.access = &scripts{locked: k, fencing: fencing}
		case env.Params.Text(writeParam) == writePipeline:
			k.access = &transactions{k, env.Redis.Pipelined}
		default:
			k.access = &transactions{k, env.Redis.TxPipelined}
		}
		return k, nil, nil
	}
	return s
}

const writePipeline = "pipeline"

// writeParam chooses how a holder without fencing sends its writes: as one MULTI/EXEC, as the book prints them, or in a
// plain pipeline, or together with the release of the lock (see fused). The lock keeps others out in each.
//
// What breaks a pipeline: it is not one write. A crash, a cut connection or a refused command in the middle leaves some
// of them (scenario cut), and a library that sends a pipeline again after a lost reply, which it does not do with a
// MULTI/EXEC, pays the seller twice (resent).
//
// Source: renderings of the book's code in Java, whose purchase under the lock sends a pipeline without MULTI.
var writeParam = param.Choice("write",
	"without fencing: the writes as one MULTI/EXEC (multi), in a pipeline, of which a cut applies a part, or, with set-px, "+
		"fused with its release after a first round trip that takes the lock and reads",
	"multi", writePipeline, writeFused)

// locked does each operation under locks: take them, read and decide, write, give them back.
type locked struct {
	rdb    *redis.Client
	keys   market.Keys
	locker lock.Locker
	names  LockNames
	steps  step.Observer
	access access
	wanted []string // the names of the operation's locks; reused
	held   []lock.Lease
	since  time.Time // when the last of them was acquired
	holds  holds
}

// access is how the holder of locks reads and writes the market. read decides whether the operation can be made; write
// makes it.
type access interface {
	listing(ctx context.Context, l market.Listing) (read, write func() error)
	purchase(ctx context.Context, o market.Order) (read, write func() error)
}

// List implements market.Purchaser.
func (k *locked) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	k.wanted = k.names.operation(k.wanted[:0], l.Item, 0)
	read, write := k.access.listing(ctx, l)
	return k.under(ctx, read, write)
}

// Purchase implements market.Purchaser.
func (k *locked) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	k.wanted = k.names.operation(k.wanted[:0], o.Item, o.Buyer)
	read, write := k.access.purchase(ctx, o)
	return k.under(ctx, read, write)
}

// transactions is access as the book prints it: the write is one MULTI/EXEC, or a pipeline. See scripts for access with
// fences.
type transactions struct {
	*locked
	send pipelined // the writes
}

func (t *transactions) listing(ctx context.Context, l market.Listing) (read, write func() error) {
	read = func() error { return readListing(ctx, t.rdb, t.keys, l) }
	write = func() error {
		return exec(ctx, t.send, func(p redis.Pipeliner) { queueListing(ctx, p, t.keys, l) })
	}
	return read, write
}

func (t *transactions) purchase(ctx context.Context, o market.Order) (read, write func() error) {
	read = func() error {
		var price *redis.FloatCmd
		var funds *redis.StringCmd
		// The pipeline's error is that of its first failed command: both are judged one by one.
		_, _ = t.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			price = p.ZScore(ctx, t.keys.Market(), market.Member(o.Item, o.Seller))
			funds = p.HGet(ctx, t.keys.User(o.Buyer), "funds")
			return nil
		})
		coins, err := funds.Int64()
		return judge(o, price.Val(), price.Err(), coins, err)
	}
	write = func() error {
		return exec(ctx, t.send, func(p redis.Pipeliner) { queuePurchase(ctx, p, t.keys, o) })
	}
	return read, write
}

// under does one operation while the wanted locks are held.
func (k *locked) under(ctx context.Context, read, write func() error) (r market.Receipt, err error) {
	if err := k.acquire(ctx, &r, k.locker.Acquire, false); err != nil {
		return r, err
	}
	err = k.guarded(ctx, read, write)
	k.steps.At(ctx, step.BeforeRelease)
	lost := k.release(ctx, &r)
	r.LeaseLost = lost && err == nil
	r.LockHold = time.Since(k.since)
	return r, err
}

// guarded reads, decides and writes. It does not write if a lease is known to be lost.
func (k *locked) guarded(ctx context.Context, read, write func() error) error {
	if err := beforeWrite(read()); err != nil {
		return err
	}
	k.steps.At(ctx, step.Read)
	for _, lease := range k.held {
		if lease.Context().Err() != nil {
			return fmt.Errorf("%w: %w", market.ErrLockLost, context.Cause(lease.Context()))
		}
	}
	k.steps.At(ctx, step.BeforeWrite) // a worker may be paused here, after the last check of its leases
	if err := write(); err != nil {
		return err
	}
	k.steps.At(ctx, step.Written)
	return nil
}

// acquire takes the wanted locks in order, or all at once where the lock can, or none of them.
func (k *locked) acquire(ctx context.Context, r *market.Receipt,
	take func(context.Context, string) (lock.Lease, error), shared bool,
) error {
	start, polls := time.Now(), k.polls()
	k.held = k.held[:0]
	var err error
	if all, ok := k.locker.(lock.Together); ok && len(k.wanted) > 1 {
		err = k.takeTogether(ctx, all)
	} else {
		err = k.takeEach(ctx, take, shared)
	}
	k.since = time.Now()
	r.LockWait, r.Polls = k.since.Sub(start), int(k.polls()-polls)
	if err == nil {
		k.steps.At(ctx, step.Acquired)
		return nil
	}
	k.release(ctx, r)
	if errors.Is(err, lock.ErrTimeout) {
		r.Retries++
		return fmt.Errorf("%w: %w", market.ErrContended, err)
	}
	return beforeWrite(err)
}

// takeEach takes the wanted locks one after the other, until one cannot be taken.
func (k *locked) takeEach(ctx context.Context, take func(context.Context, string) (lock.Lease, error), shared bool,
) error {
	for _, name := range k.wanted {
		if len(k.held) > 0 {
			k.steps.At(ctx, step.Between)
		}
		k.holds.call(name, shared)
		lease, err := take(ctx, name)
		if err != nil {
			return err
		}
		k.holds.acquired(lease)
		k.held = append(k.held, lease)
	}
	return nil
}

// takeTogether takes all wanted locks by one command.
func (k *locked) takeTogether(ctx context.Context, all lock.Together) error {
	called := time.Now()
	leases, err := all.AcquireTogether(ctx, k.wanted)
	if err != nil {
		return err
	}
	for i, lease := range leases {
		k.holds.next = lock.Holding{Name: k.wanted[i], Called: called}
		k.holds.acquired(lease)
		k.held = append(k.held, lease)
	}
	return nil
}

// release gives the held locks back, last first, even if the operation's context has ended, and reports whether one
// of them had been lost. Other failures to release are only counted: they do not change the operation's outcome.
func (k *locked) release(ctx context.Context, r *market.Receipt) (lost bool) {
	ctx = context.WithoutCancel(ctx) // the connection's own time-outs bound it
	for i := len(k.held) - 1; i >= 0; i-- {
		if err := k.holds.release(ctx, k.held[i]); errors.Is(err, lock.ErrLost) {
			lost = true
		} else if err != nil {
			r.ReleasesFailed++
		}
	}
	k.held = k.held[:0]
	return lost
}

func (k *locked) polls() int64 {
	if p, ok := k.locker.(lock.Poller); ok {
		return p.Polls()
	}
	return 0
}

// holds calls report with each lock that was held, after its release. Without report that costs a nil check.
type holds struct {
	report func(lock.Holding) // may be nil
	next   lock.Holding       // the one being acquired
	held   []lock.Holding
}

// call notes that a lock is about to be acquired.
func (h *holds) call(name string, shared bool) {
	if h.report != nil {
		h.next = lock.Holding{Name: name, Shared: shared, Called: time.Now()}
	}
}

// acquired notes that the lock is now held.
func (h *holds) acquired(lease lock.Lease) {
	if h.report == nil {
		return
	}
	h.next.Acquired = time.Now()
	if f, ok := lease.(lock.Fencer); ok {
		h.next.Fence = f.Fence()
	}
	h.held = append(h.held, h.next)
}

// release releases the lock that was acquired last of those still held.
func (h *holds) release(ctx context.Context, lease lock.Lease) error {
	if h.report == nil {
		return lease.Release(ctx)
	}
	last := len(h.held) - 1
	hold := h.held[last]
	h.held = h.held[:last]
	hold.Releasing = time.Now()
	// Not earlier: a lock that is lost before Releasing was not held until then.
	hold.Noticed = lease.Context().Err() != nil
	err := lease.Release(ctx)
	hold.Released = time.Now()
	hold.Lost = hold.Noticed || errors.Is(err, lock.ErrLost)
	h.report(hold)
	return err
}
