package strategies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// LockNames appends the locks that an operation on an item takes, in this
// order. The buyer is 0 for a listing and for a browser. An order is the n-th
// purchase of its worker.
type LockNames func(names []string, item market.ItemID, buyer market.UserID, n int) []string

// all calls add with each lock that a market may have, with some twice, so that it
// can be removed without a SCAN.
func (l LockNames) all(m market.RunNote, add func(name string) bool) {
	last := ""
	most := max(int(m.Items), m.Accounts, 1)
	if slices.Equal(l(nil, 1, 1, 0), l(nil, 2, 2, 0)) { // one lock for all
		most = 1
	}

	// Round n names item n and account n. When there are no more items it names the last one
	// again, and without a buyer when there are no more accounts.
	for n := 1; n <= most; n++ {
		item := min(market.ItemID(n), max(m.Items, 1))
		buyer := market.UserID(n)
		if n > m.Accounts {
			buyer = 0
		}
		for _, name := range l(nil, item, buyer, 0) {
			if name != last && !add(name) {
				return
			}
			last = name
		}
	}
}

const writePipeline = "pipeline"

// writeParam chooses how a holder without fencing sends its writes: as one MULTI/EXEC, as
// the book prints them, in a plain pipeline, or with the release of the lock (see fused).
// The lock keeps others out in each.
//
// What breaks a pipeline: a crash, a cut connection or a refused command midway leaves
// some of its writes (scenario cut). A library that sends it again after a lost reply,
// unlike a MULTI/EXEC, pays the seller twice (resent). Source: renderings of the book's
// code in Java, whose purchase under the lock sends a pipeline without MULTI.
var writeParam = param.OneOf("write",
	"without fencing: the writes as one MULTI/EXEC (multi), in a pipeline, of which a cut applies a part, or, with "+
		"set-px, fused with its release after a first round trip that takes the lock and reads",
	"multi", writePipeline, writeFused)

const readOneByOne = "one-by-one"

// readParam chooses how a holder without fencing reads what a purchase decides on: price
// and funds in one MULTI/EXEC, or each with a request of its own, ZSCORE, then HGET. Under
// its lock it may read in either way. One by one costs a round trip more, and holds the
// lock for as much longer.
//
// What breaks it: nothing of its own; as with any read under a lock, a lease that ends
// between the two (scenario pause-before-read). Source: renderings of the book's code in
// Java, as of writeParam.
var readParam = param.OneOf("read",
	"without fencing: price and funds are read in one MULTI/EXEC (together), or ZSCORE is sent, then HGET (one-by-one)",
	"together", readOneByOne)

// entriesParam has an operation enter each of its locks twice, as where the function
// that reads and decides takes the lock of the one that calls it, and gives it back when
// it returns: before the write.
//
// What breaks it: an entry or a release that is counted twice because its reply was lost
// and the client sent it again (scenarios resent-acquire and lost-leave), and an entry
// that drops the expiry (crash-holding). Source:
// java.util.concurrent.locks.ReentrantLock, for whose users such locks are made.
var entriesParam = param.OneOf("entries", "how often a holder enters its locks: twice around what it reads", "1", "2")

// underLocks completes a strategy whose operations run under locks. These differ only
// in the names of their locks.
func underLocks(s Strategy, names LockNames) Strategy {
	s.Params = []param.Param{
		fencingParam, writeParam, readParam, unknownParam, idempotentParam, entriesParam, replicasParam, resendParam,
	}
	s.Check = checkFencing
	s.Lock = "setnx"
	s.Locks = names
	s.New = func(env Env) (market.Purchaser, io.Closer, error) {
		k := newLocked(env, names)
		return lockedPurchaser{purchaser{env.Keys, withReplicas(env, k)}, k}, nil, nil
	}
	return s
}

// lockedPurchaser can also browse under its locks.
type lockedPurchaser struct {
	purchaser
	*locked
}

var _ market.Browser = lockedPurchaser{}

// locked is the executor of operations under locks: take them, read and decide, write,
// give them back.
type locked struct {
	Env
	names     LockNames
	access    access
	compared  bool // the market compares a write with the lock
	twice     bool // locks are entered twice
	purchases int
	wanted    []string // the names of the operation's locks; reused
	held      []held
	since     time.Time // when the last of them was acquired
}

func newLocked(env Env, names LockNames) *locked {
	k := &locked{
		Env:      env,
		names:    names,
		compared: compared(env.Params),
		twice:    env.Params.Text(entriesParam) != entriesParam.Default,
	}

	// How the critical section reaches the market: a fused write also takes and releases the
	// lock, the others leave that to the Locker. At most one of these cases applies: checkFencing
	// refuses a spec of two.
	locker := byLocker{env.Locker}
	apart := env.Params.Text(readParam) == readOneByOne

	write := env.Params.Text(writeParam)
	switch {
	case write == writeFused:
		k.access = newFused(env, k)
	case env.Params.Text(fencingParam) != fencingNone:
		k.access = &fenced{byLocker: locker, holder: k, scripter: newScripter(env)}
	case write == writePipeline:
		k.access = transactions{
			byLocker: locker, rdb: env.Redis, apart: apart, send: env.Redis.Pipelined, alone: true,
		}
	case env.Params.Text(unknownParam) == unknownKill:
		k.access = &killing{byLocker: locker, Env: env}
	default:
		k.access = transactions{
			byLocker: locker, rdb: env.Redis, apart: apart, send: env.Redis.TxPipelined,
		}
	}
	return k
}

// held is a lock that is held, and what is to be told of it.
type held struct {
	*lock.Lease
	lock.Holding
	inner *lock.Lease // of the second entry; nil: there was none, or it was left
}

// An acquirer takes the locks of an operation.
type acquirer interface {
	acquire(ctx context.Context, op *operation, name string) (*lock.Lease, error)
	polls() int64 // how many attempts have found a lock held so far
}

// access is how an operation takes its locks, reads and decides, and then writes.
type access interface {
	acquirer
	read(context.Context, *operation) error
	write(context.Context, *operation) error
}

// byLocker acquires from a Locker, before anything is read.
type byLocker struct{ lock.Locker }

func (b byLocker) acquire(ctx context.Context, _ *operation, name string) (*lock.Lease, error) {
	return b.Acquire(ctx, name)
}

func (b byLocker) polls() int64 { return pollsOf(b.Locker) }

// byReader acquires for a reader.
type byReader struct{ lock.SharedLocker }

func (b byReader) acquire(ctx context.Context, _ *operation, name string) (*lock.Lease, error) {
	return b.AcquireShared(ctx, name)
}

func (b byReader) polls() int64 { return pollsOf(b.SharedLocker) }

// pollsOf is 0 of a Locker that does not count them.
func pollsOf(l lock.Locker) int64 {
	if counts, ok := l.(interface{ Polls() int64 }); ok {
		return counts.Polls()
	}
	return 0
}

// transactions is access as the book prints it: the write is one MULTI/EXEC, or a pipeline.
type transactions struct {
	byLocker
	rdb   *redis.Client
	apart bool      // a purchase reads with two requests, not in one MULTI/EXEC
	send  pipelined // the writes
	alone bool      // each write is a command of its own, not part of one MULTI/EXEC
}

func (t transactions) read(ctx context.Context, op *operation) error {
	if op.lists || t.apart {
		op.read(ctx, t.rdb)
		return op.judge()
	}
	// The error is that of the first failed command: they are judged one by one.
	_, _ = t.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		op.read(ctx, p)
		return nil
	})
	return op.judge()
}

func (t transactions) write(ctx context.Context, op *operation) error {
	return exec(ctx, t.send, t.alone, func(p redis.Pipeliner) { op.write(ctx, p) })
}

// execute holds the operation's locks from acquire to release. A lock that the write has
// released, or that findOut has left to its lease, is no longer in k.held.
func (k *locked) execute(ctx context.Context, op *operation) (r market.Receipt, err error) {
	if !op.lists {
		k.purchases++
	}
	k.wanted = k.names(k.wanted[:0], op.Item, op.Buyer, k.purchases)
	if err := k.acquire(ctx, k.access, op, &r); err != nil {
		return r, err
	}

	err = k.guarded(ctx, op)
	if len(k.held) > 0 { // the write did not release them
		k.Steps.At(ctx, step.BeforeRelease)
	}
	found := k.findOut(ctx, op, err)

	lost, failed := k.release(ctx)
	// What was found out about the write holds only if the locks were held until now.
	if found.known && lost == 0 && failed == 0 {
		err = found.outcome
	}
	r.ReleasesFailed += failed
	r.LeaseLost = lost > 0 && err == nil
	r.LockHold = time.Since(k.since)
	return r, err
}

// guarded reads, decides and writes. It does not write if a lease is known to be lost.
func (k *locked) guarded(ctx context.Context, op *operation) error {
	if err := beforeWrite(k.access.read(ctx, op)); err != nil {
		return err
	}
	if err := k.leaveOnce(ctx); err != nil {
		return beforeWrite(err)
	}

	k.Steps.At(ctx, step.Read)
	for _, h := range k.held {
		if h.Context().Err() != nil {
			return fmt.Errorf("%w: %w", market.ErrLockLost, context.Cause(h.Context()))
		}
	}

	// A worker may be paused here, after the last check of its leases.
	k.Steps.At(ctx, step.BeforeWrite)
	if err := k.access.write(ctx, op); err != nil {
		return err
	}
	k.Steps.At(ctx, step.Written)
	return nil
}

// acquire takes the wanted locks in order, or none of them. op is nil for Browse, whose byReader
// does not look at it.
func (k *locked) acquire(
	ctx context.Context, from acquirer, op *operation, r *market.Receipt) error {

	start := time.Now()
	polls := from.polls()
	err := k.takeAll(ctx, from, op)
	k.since = time.Now()
	r.LockWait = k.since.Sub(start)
	r.Polls = int(from.polls() - polls)
	if err == nil {
		k.Steps.At(ctx, step.Acquired)
		return nil
	}

	_, failed := k.release(ctx)
	r.ReleasesFailed += failed
	if errors.Is(err, lock.ErrTimeout) {
		r.Retries++
		return fmt.Errorf("%w: %w", market.ErrContended, err)
	}
	return beforeWrite(err)
}

// takeAll takes the wanted locks in order, by which fine-wallet avoids deadlocks, and withFences
// finds the name of each held lock. After an error those before it are held.
func (k *locked) takeAll(ctx context.Context, from acquirer, op *operation) error {
	k.held = k.held[:0]
	for i, name := range k.wanted {
		if i > 0 {
			k.Steps.At(ctx, step.Between)
		}

		called := time.Now()
		lease, err := from.acquire(ctx, op, name)
		if err != nil {
			return err
		}

		// Noted at once: whatever fails from here on, this lock is released with the others.
		k.held = append(k.held, held{
			Lease:   lease,
			Holding: lock.Holding{Name: name, Called: called, Acquired: time.Now(), Fence: lease.Fence},
		})

		if k.twice {
			k.held[i].inner, err = from.acquire(ctx, op, name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// leaveOnce leaves the locks once that were entered twice.
func (k *locked) leaveOnce(ctx context.Context) error {
	for i := range k.held {
		inner := k.held[i].inner
		if inner == nil {
			continue
		}
		k.Steps.At(ctx, step.BeforeLeave)
		k.held[i].inner = nil
		if err := inner.Release(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("%w: %w", market.ErrLockLost, err)
		}
	}
	return nil
}

// release gives the held locks back, last first, even if ctx has ended. It counts those
// that had been lost, and the releases that failed for another reason.
func (k *locked) release(ctx context.Context) (lost, failed int) {
	ctx = context.WithoutCancel(ctx) // the connection's own time-outs bound it
	for len(k.held) > 0 {
		err := k.releaseLast(ctx)
		switch {
		case errors.Is(err, lock.ErrLost):
			lost++
		case err != nil:
			failed++
		}
	}
	return lost, failed
}

// releaseLast gives one lock back, and tells who wants to know how it was held. The lock is no
// longer in k.held then, whatever came of that: fused.write calls this, too, and execute releases
// only what is left there.
func (k *locked) releaseLast(ctx context.Context) error {
	h := k.held[len(k.held)-1]
	k.held = k.held[:len(k.held)-1]
	h.Releasing = time.Now()
	// Not earlier: a lock that is lost before Releasing was not held until then. Not after
	// Release either, which itself ends the context of a lease that is renewed.
	h.Holding.Noticed = h.Context().Err() != nil

	var err error
	if h.inner != nil { // the function that was to leave it has failed
		err = h.inner.Release(ctx)
	}
	err = errors.Join(err, h.Release(ctx))

	h.Released = time.Now()
	h.Lost = h.Holding.Noticed || errors.Is(err, lock.ErrLost)
	if k.Holds != nil {
		k.Holds(h.Holding)
	}
	return err
}

// Browse reads under the locks that a listing takes, held shared.
func (k *locked) Browse(ctx context.Context, l market.Listing) (r market.Receipt, err error) {
	shared, ok := k.Locker.(lock.SharedLocker)
	if !ok {
		return r, errors.New("lock is exclusive: a browser needs one that can be shared")
	}
	k.wanted = k.names(k.wanted[:0], l.Item, 0, k.purchases)
	if err := k.acquire(ctx, byReader{shared}, nil, &r); err != nil {
		return r, err
	}

	err = k.Redis.ZScore(ctx, k.Keys.Market(), market.Member(l.Item, l.Seller)).Err()
	if errors.Is(err, redis.Nil) { // it is not listed
		err = nil
	}

	lost, failed := k.release(ctx)
	r.ReleasesFailed += failed
	r.LeaseLost = lost > 0
	r.LockHold = time.Since(k.since)
	return r, beforeWrite(err)
}
