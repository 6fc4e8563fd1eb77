package strategies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/backoff"
	"github.com/marketsim/marketsim/strategies/lock"
)

// writeFused is the value of the parameter write that chooses fused.
const writeFused = "fused"

// fused does an operation under one lock of the kind set-px in two round trips. The first is a pipeline: SET NX PX with a
// token, WATCH of the lock, GET of the lock, which must be the token, and the reads. The second is a MULTI/EXEC of the
// writes and of the DEL that releases the lock. EXEC fails if the lock has changed hands or has expired since the WATCH:
// a former holder writes nothing. That is fencing by the lock itself. A client that finds the lock held polls by SET
// alone, and watches and reads once it has it: its own SET after the WATCH would abort its EXEC.
//
// What breaks it: whoever writes without taking the lock, as with every lock. The lock must lie on the market's server,
// in its slot. An account that several buyers spend from is no better protected than by the lock alone.
//
// Source: redis.io/docs/latest/develop/using-commands/transactions, "Optimistic locking using check-and-set", with the
// lock of redis.io/commands/set.
type fused struct {
	rdb     *redis.Client
	keys    market.Keys
	names   LockNames
	steps   step.Observer
	holds   holds
	ttl     time.Duration
	retries *lock.Retries
	wanted  []string // the name of the operation's lock; reused
}

func newFused(env Env, names LockNames) (market.Purchaser, io.Closer, error) {
	return &fused{
		rdb: env.Redis, keys: env.Keys, names: names, steps: env.Steps, holds: holds{report: env.Holds},
		ttl: env.Params.Duration(lock.TTLParam), retries: lock.NewRetries(lock.Env{Params: env.Params, Steps: env.Steps}),
	}, nil, nil
}

// fusedParams are the names of the lock's parameters that fused has.
var fusedParams = []string{
	lock.TTLParam.Name, lock.PollParam.Name, backoff.KindParam.Name, backoff.CapParam.Name, backoff.JitterParam.Name,
	backoff.TriesParam.Name, lock.TimeoutParam.Name,
}

// checkFused refuses what fused cannot do.
func checkFused(s Spec) error {
	if s.params.Text(writeParam) != writeFused {
		return nil
	}
	for _, p := range s.lock.Params {
		_, given := s.params[p.Name]
		if given && !slices.Contains(fusedParams, p.Name) {
			return fmt.Errorf("write=%s takes no %s: it sets and releases the lock itself", writeFused, p.Name)
		}
	}
	if s.lock.Name != "set-px" || s.strategy.Locks.several {
		return fmt.Errorf("write=%s is for one lock an operation, of the kind set-px: coarse:set-px:write=%[1]s or "+
			"fine:set-px:write=%[1]s", writeFused)
	}
	return nil
}

// List implements market.Purchaser.
func (f *fused) List(ctx context.Context, l market.Listing) (market.Receipt, error) {
	var owned *redis.BoolCmd
	return f.do(ctx, l.Item, 0, &fusedLease{
		read: func(p redis.Pipeliner) { owned = p.SIsMember(ctx, f.keys.Inventory(l.Seller), int64(l.Item)) },
		judge: func() error {
			if owned.Err() == nil && !owned.Val() {
				return market.ErrNotOwned
			}
			return owned.Err()
		},
		write: func(p redis.Pipeliner) { queueListing(ctx, p, f.keys, l) },
	})
}

// Purchase implements market.Purchaser.
func (f *fused) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	var price *redis.FloatCmd
	var funds *redis.StringCmd
	return f.do(ctx, o.Item, o.Buyer, &fusedLease{
		read: func(p redis.Pipeliner) {
			price = p.ZScore(ctx, f.keys.Market(), market.Member(o.Item, o.Seller))
			funds = p.HGet(ctx, f.keys.User(o.Buyer), "funds")
		},
		judge: func() error {
			coins, err := funds.Int64()
			return judge(o, price.Val(), price.Err(), coins, err)
		},
		write: func(p redis.Pipeliner) { queuePurchase(ctx, p, f.keys, o) },
	})
}

// do does one operation. The connection is the client's only one, and goes back to it: the WATCH holds on no other.
func (f *fused) do(ctx context.Context, item market.ItemID, buyer market.UserID, l *fusedLease,
) (r market.Receipt, err error) {
	f.wanted = f.names.operation(f.wanted[:0], item, buyer)
	l.fused, l.conn, l.key, l.token = f, f.rdb.Conn(), f.keys.Lock(f.wanted[0]), rand.Text()
	defer func() { err = errors.Join(err, l.giveConnBack()) }()

	start := time.Now()
	f.holds.call(f.wanted[0], false)
	err = l.acquire(ctx, &r)
	since := time.Now()
	r.LockWait = since.Sub(start)
	if err != nil {
		return r, err
	}
	f.holds.acquired(l)
	f.steps.At(ctx, step.Acquired)
	refusal := beforeWrite(l.judge())
	if refusal == nil {
		f.steps.At(ctx, step.Read)
		f.steps.At(ctx, step.BeforeWrite)
		f.steps.At(ctx, step.BeforeRelease)
		err = f.holds.release(ctx, l) // writes as well
	} else {
		l.write = func(redis.Pipeliner) {}
		err = f.holds.release(context.WithoutCancel(ctx), l)
	}
	r.LockHold = time.Since(since)
	switch {
	case refusal != nil && err != nil && !errors.Is(err, lock.ErrLost):
		r.ReleasesFailed++
		return r, refusal
	case refusal != nil:
		return r, refusal
	case errors.Is(err, lock.ErrLost):
		return r, fmt.Errorf("%w: %w", market.ErrLockLost, err)
	case err == nil:
		f.steps.At(ctx, step.Written)
	}
	return r, err
}

// fusedLease is one operation's time with its lock, and what it reads and writes meanwhile.
type fusedLease struct {
	*fused
	conn       *redis.Conn
	key, token string
	watched    bool // a WATCH is in force

	read  func(redis.Pipeliner)
	judge func() error // of what was read
	write func(redis.Pipeliner)
}

// Context implements lock.Lease: a loss is noticed by EXEC only.
func (*fusedLease) Context() context.Context { return context.Background() }

// acquire takes the lock and reads. After an error the lock is free, as far as the server can be reached.
func (l *fusedLease) acquire(ctx context.Context, r *market.Receipt) error {
	l.retries.Begin()
	taken, err := l.takeAndRead(ctx)
	for err == nil && !taken {
		r.Polls++
		wait, gaveUp := l.retries.Next(ctx)
		if gaveUp != nil {
			r.Retries++
			return errors.Join(fmt.Errorf("%w: %w", market.ErrContended, gaveUp), l.unwatch(ctx))
		}
		select {
		case <-time.After(wait):
			taken, err = l.take(ctx)
		case <-ctx.Done():
			return errors.Join(beforeWrite(ctx.Err()), l.unwatch(ctx))
		}
	}
	switch {
	case err == nil:
		return nil
	case taken:
		return beforeWrite(lock.GiveBack(ctx, err, l.free))
	}
	return beforeWrite(lock.Abandon(ctx, err, l.free))
}

// takeAndRead is the first round trip. After true and an error the lock was taken, and is perhaps lost again.
func (l *fusedLease) takeAndRead(ctx context.Context) (taken bool, err error) {
	p := l.conn.Pipeline()
	set := l.set(ctx, p)
	held := l.watchAndRead(ctx, p)
	_, _ = p.Exec(ctx) // its error is that of its first failed command: they are judged one by one
	l.watched = true
	switch err := set.Err(); {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, l.mine(held)
}

// take tries again to take the lock, and if it is taken watches and reads.
func (l *fusedLease) take(ctx context.Context) (bool, error) {
	p := l.conn.Pipeline()
	if l.watched {
		p.Do(ctx, "unwatch")
	}
	set := l.set(ctx, p)
	_, _ = p.Exec(ctx)
	l.watched = false
	switch err := set.Err(); {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, err
	}
	p = l.conn.Pipeline()
	held := l.watchAndRead(ctx, p)
	_, _ = p.Exec(ctx)
	l.watched = true
	return true, l.mine(held)
}

func (l *fusedLease) set(ctx context.Context, p redis.Pipeliner) *redis.StatusCmd {
	set := redis.NewStatusCmd(ctx, "set", l.key, l.token, "nx", "px", l.ttl.Milliseconds())
	_ = p.Process(ctx, set) // it is queued
	return set
}

// watchAndRead queues the WATCH and what is read under it. It returns who holds the lock.
func (l *fusedLease) watchAndRead(ctx context.Context, p redis.Pipeliner) (held *redis.StringCmd) {
	p.Do(ctx, "watch", l.key)
	held = p.Get(ctx, l.key)
	l.read(p)
	return held
}

// mine is an error unless the lock holds the token: it may have expired since it was set.
func (l *fusedLease) mine(held *redis.StringCmd) error {
	if err := held.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if held.Val() != l.token {
		return fmt.Errorf("%w: it expired before it was watched", market.ErrLockLost)
	}
	return nil
}

// Release implements lock.Lease. It writes, and deletes the lock, if the lock has not changed hands; else it is
// lock.ErrLost. Other errors are those of exec.
func (l *fusedLease) Release(ctx context.Context) error {
	err := exec(ctx, l.conn.TxPipelined, func(p redis.Pipeliner) {
		l.write(p)
		p.Del(ctx, l.key)
	})
	switch {
	case err == nil:
		l.watched = false
		return nil
	case errors.Is(err, redis.TxFailedErr):
		l.watched = false
		return lock.ErrLost
	}
	return lock.GiveBack(ctx, err, l.free)
}

// free gives back what may be held, on whatever connection there is.
func (l *fusedLease) free(ctx context.Context) error {
	_ = l.unwatch(ctx) // a broken connection watches nothing
	_ = l.giveConnBack()
	return lock.CompareAndDelete(ctx, l.rdb, l.key, l.token)
}

// unwatch ends the WATCH, so that the connection can be used for something else, whether or not ctx has ended.
func (l *fusedLease) unwatch(ctx context.Context) error {
	if !l.watched {
		return nil
	}
	l.watched = false
	return l.conn.Process(context.WithoutCancel(ctx), redis.NewStatusCmd(ctx, "unwatch"))
}

// giveConnBack gives the client its connection back.
func (l *fusedLease) giveConnBack() error {
	if l.conn == nil {
		return nil
	}
	err := l.conn.Close()
	l.conn = nil
	return err
}
