package strategies

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

const writeFused = "fused"

// fused does an operation under one lock of the kind set-px in two round trips. The
// first is a pipeline: SET NX PX with a token, WATCH of the lock, GET of the lock,
// which must be the token, and the reads. The second is a MULTI/EXEC of the writes and
// of the DEL that releases the lock. EXEC fails if the lock has changed hands or has
// expired since the WATCH: that is fencing by the lock itself. A client that finds the
// lock held polls by SET alone, and watches and reads once it has it: its own SET after
// the WATCH would abort its EXEC.
//
// What breaks it: whoever writes without taking the lock. The lock must lie on
// the market's server, in its slot. Source:
// redis.io/docs/latest/develop/using-commands/transactions, "Optimistic locking
// using check-and-set".
type fused struct {
	Env
	*locking.Retries
	holder *locked // through which write gives the lock back
	ttl    time.Duration

	// Of the operation under way.
	op         *operation
	conn       *redis.Conn // the client's only one: the WATCH holds on no other; nil: the client has it back
	key, token string
	watched    bool // a WATCH is in force
	writes     bool // the release carries the writes
}

func newFused(env Env, holder *locked) *fused {
	return &fused{
		Env:     env,
		Retries: locking.NewRetries(env.Params, lock.PollParam, lock.TimeoutParam, env.Steps),
		holder:  holder,
		ttl:     env.Params.Duration(lock.TTLParam),
	}
}

var fusedParams = []string{
	lock.TTLParam.Name, lock.PollParam.Name, locking.BackoffParam.Name, locking.LongestWaitParam.Name,
	locking.JitterParam.Name, locking.TriesParam.Name, lock.TimeoutParam.Name,
}

func checkFused(s Spec) error {
	for _, p := range s.lock.Params {
		_, given := s.params[p.Name]
		if given && !slices.Contains(fusedParams, p.Name) {
			return fmt.Errorf("write=%s takes no %s: it sets and releases the lock itself",
				writeFused, p.Name)
		}
	}
	if s.lock.Name != "set-px" || s.SeveralLocks() {
		return fmt.Errorf("write=%s is for one lock an operation, of the kind set-px: coarse:set-px:write=%[1]s or "+
			"fine:set-px:write=%[1]s", writeFused)
	}
	return nil
}

// acquire takes the lock, and reads. After an error the lock is free, as far as the server can be
// reached, and the client has its one connection back, for which its next command would wait.
func (f *fused) acquire(ctx context.Context, op *operation, name string) (*lock.Lease, error) {
	f.op = op
	f.conn = f.Redis.Conn()
	f.key = f.Keys.Lock(name)
	f.token = rand.Text()
	f.writes = false

	// Only the first attempt watches and reads before it is known to have the lock.
	f.Begin()
	taken, err := f.take(ctx, true)
	for err == nil && !taken {
		if err := f.wait(ctx); err != nil {
			return nil, errors.Join(err, f.endConnection(ctx))
		}
		taken, err = f.take(ctx, false)
	}
	if err != nil {
		err = locking.Undo(ctx, err, taken, f.free)
		return nil, errors.Join(err, f.endConnection(ctx))
	}
	return &lock.Lease{Release: f.release}, nil // only EXEC notices a loss
}

func (f *fused) polls() int64 { return f.Polls() }

// wait returns when the lock is to be tried again, or why it is not.
func (f *fused) wait(ctx context.Context) error {
	wait, err := f.Next(ctx)
	if err != nil {
		return err
	}
	return locking.Sleep(ctx, wait, nil)
}

// read decides: acquire has read.
func (f *fused) read(_ context.Context, op *operation) error { return op.judge() }

// write gives the lock back, and the writes with it: see release.
func (f *fused) write(ctx context.Context, _ *operation) error {
	f.writes = true
	f.Steps.At(ctx, step.BeforeRelease)
	err := f.holder.releaseLast(ctx)
	if errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("%w: %w", market.ErrLockLost, lock.ErrLost)
	}
	return err
}

// take tries to take the lock, and watches and reads: at once, or when it is taken. With
// true and an error it was taken.
func (f *fused) take(ctx context.Context, atOnce bool) (taken bool, err error) {
	p := f.conn.Pipeline()
	if f.watched { // by an earlier attempt: the SET below would abort EXEC
		p.Do(ctx, "unwatch")
	}
	set := redis.NewStatusCmd(ctx, "set", f.key, f.token, "nx", "px", f.ttl.Milliseconds())
	_ = p.Process(ctx, set) // it is queued
	var holder *redis.StringCmd
	if atOnce {
		holder = f.watchAndRead(ctx, p)
	}
	_, _ = p.Exec(ctx) // its error is that of its first failed command: they are judged one by one
	f.watched = atOnce

	err = set.Err()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, err
	}

	if !atOnce {
		holder = f.watchAndRead(ctx, p)
		_, _ = p.Exec(ctx)
		f.watched = true
	}
	err = holder.Err()
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		return true, err
	case holder.Val() != f.token:
		return true, fmt.Errorf("%w: it expired before it was watched", market.ErrLockLost)
	}
	return true, nil
}

// watchAndRead queues a WATCH, what says who holds the lock then, and the reads.
func (f *fused) watchAndRead(ctx context.Context, p redis.Pipeliner) (holder *redis.StringCmd) {
	p.Do(ctx, "watch", f.key)
	holder = p.Get(ctx, f.key)
	f.op.read(ctx, p)
	return holder
}

// release deletes the lock, and makes the writes in the same MULTI/EXEC if write has
// begun. It returns lock.ErrLost if neither was done. Other errors are those of exec. It is called
// once, unlike the Release of other leases: the connection goes back with it, and after an error
// of exec free has tried to give the lock back already.
func (f *fused) release(ctx context.Context) error {
	err := exec(ctx, f.conn.TxPipelined, false, func(p redis.Pipeliner) {
		if f.writes {
			f.op.write(ctx, p)
		}
		p.Del(ctx, f.key)
	})
	if errors.Is(err, redis.TxFailedErr) {
		err = lock.ErrLost
	} else if err != nil {
		return locking.Undo(ctx, err, true, f.free)
	}
	f.watched = false // EXEC ends it
	return errors.Join(err, f.endConnection(ctx))
}

// free gives back what may be held, on whatever connection there is.
func (f *fused) free(ctx context.Context) error {
	_ = f.endConnection(ctx) // a broken connection watches nothing
	if err := locking.CompareDelete.Run(ctx, f.Redis, []string{f.key}, f.token).Err(); err != nil {
		return fmt.Errorf("release %s: %w", f.key, err)
	}
	return nil
}

// endConnection gives the client its connection back, without a WATCH, whether or not ctx
// has ended.
func (f *fused) endConnection(ctx context.Context) (err error) {
	if f.conn == nil {
		return nil
	}
	if f.watched {
		err = f.conn.Process(context.WithoutCancel(ctx), redis.NewStatusCmd(ctx, "unwatch"))
	}
	err = errors.Join(err, f.conn.Close())
	f.conn = nil
	f.watched = false
	return err
}
