package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/strategies/param"
)

// An acquisition is one acquisition of a lock in Redis, by Acquire or by Try: how the lock
// is taken and given back. Each lock has a type of its own for it, around a hold, which
// it may share with others by embedding: [deleted], [deletedUnderWatch] and [compared] are
// releases, [entry] makes a lock reentrant.
type acquisition interface {
	common() *hold

	// take makes one attempt: true means held, false means that someone else holds the
	// lock. It may be called again after false. True with an error means that the lock is
	// held, but a later command of taking it failed.
	take(context.Context) (bool, error)

	// undo gives back what a failed attempt may have taken, unless lost-reply=kept. That
	// of hold does nothing, for keys that do not say whose they are.
	undo(context.Context) error

	// release is Release of the lease.
	release(context.Context) error
}

// A renewer is an acquisition whose lease has Renew.
type renewer interface {
	renew(context.Context) error
}

// An abandoner is an acquisition whose lease has Abandon.
type abandoner interface{ abandon() }

// A hold is what an acquisition works with.
type hold struct {
	lease  Lease // what the holder gets; take may set its Noticed and Fence
	locker *locker
	env    Env
	rdb    *redis.Client // the worker's own connection
	key    string
	keys   []string // Kind.Keys of that
	token  string   // 128 random bits or more: no two holders have the same
	mode   mode
	waits  bool // it is Acquire, and not Try

	// asked is when the request that took the lock was about to be sent: its TTL counts
	// from then, however late the reply.
	asked time.Time

	queues  bool          // who waits has a place, which undo gives up
	channel string        // where a waiter is notified
	retryIn time.Duration // how long a waiter waits for a notification; set by take
}

func (h *hold) common() *hold { return h }

func (h *hold) undo(context.Context) error { return nil }

// mode is how a read-write lock is taken; it is an argument of the scripts.
type mode string

const (
	shared    mode = "shared"
	exclusive mode = "exclusive"
)

func (h *hold) ttl() time.Duration { return h.env.Params.Duration(TTLParam) }

// expiry is the TTL as SET and EXPIRE take it: in seconds, as in books, or, so that
// tests can be short, milliseconds.
func (h *hold) expiry() (unit string, n int64) {
	unit = "px"
	if wholeSeconds(h.ttl()) {
		unit = "ex"
	}
	return unit, h.when(unit)
}

func wholeSeconds(ttl time.Duration) bool { return ttl%time.Second == 0 }

// releases returns what Release returns, given how many keys or entries the
// release found to be its own.
func (h *hold) releases(found int64, err error) error {
	if err := lost(found, err); err != nil {
		return fmt.Errorf("release %s: %w", h.key, err)
	}
	return nil
}

// releaseBy is a release by a script. It answers how many keys or entries were the holder's.
func (h *hold) releaseBy(
	ctx context.Context, script *redis.Script, keys []string, args ...any) error {

	return h.releases(script.Run(ctx, h.rdb, keys, args...).Int64())
}

// renewBy renews by a script, which answers 0 if the lock was lost. As all renewals it
// has a connection beside the worker's own.
func (h *hold) renewBy(
	ctx context.Context, script *redis.Script, keys []string, args ...any) error {

	rdb, err := h.locker.background.connection(ctx)
	if err != nil {
		return err
	}
	return lost(script.Run(ctx, rdb, keys, args...).Int64())
}

// mine is ErrLost if the key does not hold the token.
func (h *hold) mine(ctx context.Context, rdb redis.Cmdable) error {
	token, err := rdb.Get(ctx, h.key).Result()
	if errors.Is(err, redis.Nil) || err == nil && token != h.token {
		return ErrLost
	}
	return err
}

// wasSet reads the answer to a SET under a condition: nil means that it was not met.
func wasSet(err error) (bool, error) {
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// lost is ErrLost if a release or renewal found nothing of its own.
func lost(found int64, err error) error {
	if err == nil && found == 0 {
		return ErrLost
	}
	return err
}

// A newAcquisition makes the acquisition of one kind of lock around a hold.
type newAcquisition func(*hold) acquisition

// polling completes the kind of a lock that waits by trying again.
func polling(k Kind, begin newAcquisition) Kind {
	return withOwnParts(polls(k), func(*locker) (newAcquisition, error) { return begin, nil })
}

// withOwnParts completes a kind whose Lockers have something of their own: open
// completes a Locker.
func withOwnParts(k Kind, open func(*locker) (newAcquisition, error)) Kind {
	k.own = true
	k.New = func(env Env) (Locker, error) {
		if env.Now == nil {
			env.Now = time.Now
		}
		l := &locker{
			Retries:    locking.NewRetries(env.Params, PollParam, TimeoutParam, env.Steps),
			env:        env,
			keys:       k.AllKeys,
			promises:   k.PromisesOf(env.Params),
			keepsTaken: k.keepsTaken(env.Params),
			background: &background{dial: env.NewClient},
			stays:      map[string]*stay{},
		}
		l.promises.NoticesLoss = l.promises.NoticesLoss || env.watched
		l.closers = redisconn.Closers{l.background}

		// Last: what a kind adds may ask for all that is set by now, and add to the closers.
		// These close the last one first, so that what renews ends before the background
		// connection is closed: a renewal after that would open it again.
		var err error
		l.begin, err = open(l)
		if err != nil {
			return nil, err // nothing is connected yet: connections open when they are first needed
		}

		if k.Shares {
			return sharedLocker{l}, nil
		}
		return l, nil
	}
	return k
}

// keepsTaken reports whether an acquisition that fails keeps what it may have taken.
func (k Kind) keepsTaken(v param.Values) bool {
	return slices.ContainsFunc(k.Params, func(p param.Param) bool {
		return p.Name == locking.LostReplyParam.Name && v.Text(p) == locking.LostReplyKept
	})
}

// locker is the Locker of every lock in Redis, whether its waiters try again by
// themselves or are notified.
type locker struct {
	*locking.Retries
	env        Env
	keys       func(key string) []string // of the Kind
	promises   Promises
	keepsTaken bool           // an acquisition that fails keeps what it may have taken
	begin      newAcquisition // of the Kind
	background *background
	hub        *hub              // notifies waiters; nil: they poll
	stays      map[string]*stay  // where this worker can enter again, by key
	closers    redisconn.Closers // of all that is opened beside the worker's own connection
}

func (l *locker) Promises() Promises { return l.promises }

func (l *locker) Close() error { return l.closers.Close() }

func (l *locker) Acquire(ctx context.Context, name string) (*Lease, error) {
	return l.acquire(ctx, name, exclusive)
}

func (l *locker) Try(ctx context.Context, name string) (*Lease, error) {
	a := l.acquisition(name, exclusive, false)
	taken, err := l.attempt(ctx, a)
	if err == nil && !taken {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return l.lease(a), nil
}

// sharedLocker is the Locker of a read-write lock. Acquire and Try take it for a writer.
type sharedLocker struct{ *locker }

func (l sharedLocker) AcquireShared(ctx context.Context, name string) (*Lease, error) {
	return l.acquire(ctx, name, shared)
}

func (l *locker) acquire(ctx context.Context, name string, mode mode) (*Lease, error) {
	a := l.acquisition(name, mode, true)
	if err := l.until(ctx, a); err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return l.lease(a), nil
}

func (l *locker) acquisition(name string, mode mode, waits bool) acquisition {
	key := l.env.Key(name)
	return l.begin(&hold{
		locker: l,
		env:    l.env,
		rdb:    l.env.Redis,
		key:    key,
		keys:   l.keys(key),
		token:  rand.Text(),
		mode:   mode,
		waits:  waits,
	})
}

// lease is what the holder gets of a lock that was taken.
func (l *locker) lease(a acquisition) *Lease {
	h := a.common()
	h.lease.Release = a.release
	if r, ok := a.(renewer); ok {
		h.lease.Renew = r.renew
	}
	if ab, ok := a.(abandoner); ok {
		h.lease.Abandon = ab.abandon
	}
	if l.env.watched {
		return l.watched(h)
	}
	return &h.lease
}

// attempt makes one attempt. After an error the lock is not held, as far as
// that could be made sure.
func (l *locker) attempt(ctx context.Context, a acquisition) (bool, error) {
	h := a.common()
	h.asked = time.Now()
	taken, err := a.take(ctx)
	if err == nil {
		return taken, nil
	}
	err = h.undone(ctx, err, taken, a.undo)
	return false, redisconn.OfContext(ctx, err)
}

// undone is locking.Undo, unless lost-reply=kept.
func (h *hold) undone(
	ctx context.Context, cause error, held bool, release func(context.Context) error) error {

	if h.locker.keepsTaken {
		return cause
	}
	return locking.Undo(ctx, cause, held, release)
}

// until makes attempts, at least one, until one takes the lock or fails,
// Retries give up, or ctx ends.
func (l *locker) until(ctx context.Context, a acquisition) (err error) {
	h := a.common()
	var w *waiter // nil: it polls
	if l.hub != nil {
		w = l.hub.join(h.channel, h.token)
		defer func() { w.leave(err == nil) }() // the named err, which each return sets
	}

	l.Begin()
	for {
		if taken, err := l.attempt(ctx, a); taken || err != nil {
			return err
		}

		// attempt deals with its own failures. A waiter that gives up may have a place in line,
		// which undo gives up.
		err := l.wait(ctx, h, w)
		if err != nil && h.queues {
			return locking.Undo(ctx, err, true, a.undo)
		}
		if err != nil {
			return err
		}
	}
}

// wait returns when the lock is to be tried again, or why it is not.
func (l *locker) wait(ctx context.Context, h *hold, w *waiter) error {
	pause, err := l.Next(ctx)
	switch {
	case err != nil:
		return err
	case w == nil:
		return locking.Sleep(ctx, pause, nil)
	}
	return l.notified(ctx, w, h.retryIn)
}
