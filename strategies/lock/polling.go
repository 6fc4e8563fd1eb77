package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backoff"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/param"
)

// A hold is one acquisition of a lock in Redis, by Acquire or by Try. The function
// of a Kind sets how it is taken and what its Lease can do. Once it is taken, its
// Lease is what the holder gets.
type hold struct {
	Lease
	locker *locker
	env    Env
	rdb    *redis.Client // the worker's own connection
	key    string
	keys   []string // Kind.Keys of that
	token  string   // 128 random bits or more: no two holders have the same
	how    mode
	waits  bool // it is Acquire, and not Try

	// asked is when the request that took the lock was about to be sent: its TTL counts
	// from then, however late the reply.
	asked time.Time

	// take makes one attempt: true means held, false means that someone else holds the
	// lock. It may be called again after false. True with an error means that the lock is
	// held, but a later command of taking it failed.
	take func(context.Context) (bool, error)

	// undo gives back what a failed attempt may have taken, unless lost-reply=kept;
	// nil: the key has no owner.
	undo func(context.Context) error

	queues  bool          // who waits has a place, which undo gives up
	channel string        // where a waiter is notified
	again   time.Duration // how long a waiter that is not notified waits; set by take
}

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

// releasedBy completes a lock that a script releases, or undoes. It answers how many keys
// or entries were the holder's.
func (h *hold) releasedBy(script *redis.Script, keys []string, args ...any) {
	h.Release = func(ctx context.Context) error { return h.releases(script.Run(ctx, h.rdb, keys, args...).Int64()) }
	h.undo = h.Release
}

// renewedBy completes a lock that a script renews, which answers 0 if the lock was lost.
func (h *hold) renewedBy(script *redis.Script, keys []string, args ...any) {
	h.renewedOver(func(ctx context.Context, rdb *redis.Client) error {
		return lost(script.Run(ctx, rdb, keys, args...).Int64())
	})
}

// renewedOver completes a lock that is renewed over a connection beside the worker's own.
func (h *hold) renewedOver(renew func(context.Context, *redis.Client) error) {
	h.Renew = func(ctx context.Context) error {
		rdb, err := h.locker.background.connection(ctx)
		if err != nil {
			return err
		}
		return renew(ctx, rdb)
	}
}

// mine is ErrLost if the key does not hold the token.
func (h *hold) mine(ctx context.Context, rdb redis.Cmdable) error {
	token, err := rdb.Get(ctx, h.key).Result()
	if errors.Is(err, redis.Nil) || err == nil && token != h.token {
		return ErrLost
	}
	return err
}

// given reads the answer to SET NX: nil means that the key was there.
func given(err error) (bool, error) {
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

// polling completes the kind of a lock that waits by trying again. fill
// completes one acquisition.
func polling(k Kind, fill func(*hold)) Kind {
	return opening(Polls(k), func(l *locker) error {
		l.fill = fill
		return nil
	})
}

// opening completes a kind whose Lockers have something of their own: open
// completes a Locker.
func opening(k Kind, open func(*locker) error) Kind {
	k.own = true
	k.New = func(env Env) (Locker, error) {
		if env.Now == nil {
			env.Now = time.Now
		}
		is := k
		is.Promises.NoticesLoss = is.Promises.NoticesLoss || env.watched
		beside := &background{dial: env.NewClient}
		l := &locker{
			env: env, keys: k.AllKeys, made: is.PromisesOf(env.Params), keeps: k.keeps(env.Params), Retries: NewRetries(env),
			background: beside, closers: redisconn.Closers{beside}, in: map[string]*stay{},
		}
		if err := open(l); err != nil {
			return nil, err
		}
		if k.Shares {
			return sharedLocker{l}, nil
		}
		return l, nil
	}
	return k
}

const (
	lostReplyKept     = "kept"
	lostReplyReleased = "released"
	lostReplySummary  = "a lock that may be held although its reply was lost is kept or released"
)

// LostReplyParam has what was published as its default, and releasedParam what mends it.
var (
	LostReplyParam = param.Choice("lost-reply", lostReplySummary, lostReplyKept, lostReplyReleased)
	releasedParam  = param.Choice("lost-reply", lostReplySummary, lostReplyReleased, lostReplyKept)
)

// keeps reports whether an acquisition that fails keeps what it may have taken.
func (k Kind) keeps(v param.Values) bool {
	return slices.ContainsFunc(k.Params, func(p param.Param) bool {
		return p.Name == LostReplyParam.Name && v.Text(p) == lostReplyKept
	})
}

// locker is the Locker of every lock in Redis, whether its waiters try again by
// themselves or are notified.
type locker struct {
	*Retries
	env        Env
	keys       func(key string) []string // of the Kind
	made       Promises
	keeps      bool // after a failed acquisition, what it may have taken
	fill       func(*hold)
	background *background
	hub        *hub              // notifies waiters; nil: they poll
	in         map[string]*stay  // where this worker can enter again, by key
	closers    redisconn.Closers // of all that is opened beside the worker's own connection
}

func (l *locker) Promises() Promises { return l.made }

func (l *locker) Close() error { return l.closers.Close() }

func (l *locker) Acquire(ctx context.Context, name string) (*Lease, error) {
	return l.acquire(ctx, name, exclusive)
}

func (l *locker) Try(ctx context.Context, name string) (*Lease, error) {
	h := l.hold(name, exclusive, false)
	taken, err := l.attempt(ctx, h)
	if err == nil && !taken {
		err = ErrHeld
	}
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return l.lease(h), nil
}

// sharedLocker is the Locker of a read-write lock. Acquire and Try take it for a writer.
type sharedLocker struct{ *locker }

func (l sharedLocker) AcquireShared(ctx context.Context, name string) (*Lease, error) {
	return l.acquire(ctx, name, shared)
}

func (l *locker) acquire(ctx context.Context, name string, how mode) (*Lease, error) {
	h := l.hold(name, how, true)
	if err := l.until(ctx, h); err != nil {
		return nil, fmt.Errorf("acquire lock %s: %w", name, err)
	}
	return l.lease(h), nil
}

func (l *locker) hold(name string, how mode, waits bool) *hold {
	h := &hold{
		locker: l, env: l.env, rdb: l.env.Redis, key: l.env.Key(name), token: rand.Text(), how: how, waits: waits,
	}
	h.keys = l.keys(h.key)
	l.fill(h)
	return h
}

// attempt makes one attempt. After an error the lock is not held, as far as
// that could be made sure.
func (l *locker) attempt(ctx context.Context, h *hold) (bool, error) {
	h.asked = time.Now()
	taken, err := h.take(ctx)
	if err == nil {
		return taken, nil
	}
	if h.undo != nil {
		err = h.undone(ctx, err, taken, h.undo)
	}
	return false, redisconn.OfContext(ctx, err)
}

// undone is Undo, unless lost-reply=kept.
func (h *hold) undone(ctx context.Context, cause error, held bool, release func(context.Context) error) error {
	if h.locker.keeps {
		return cause
	}
	return Undo(ctx, cause, held, release)
}

// until makes attempts, at least one, until one takes the lock or fails,
// Retries give up, or ctx ends.
func (l *locker) until(ctx context.Context, h *hold) (err error) {
	var w *waiter
	if l.hub != nil {
		w = l.hub.join(h.channel, h.token)
		defer func() { w.leave(err == nil) }()
	}
	for l.Begin(); ; {
		if taken, err := l.attempt(ctx, h); taken || err != nil {
			return err
		}
		wait, err := l.Next(ctx)
		switch {
		case err == nil && w == nil:
			err = backoff.Sleep(ctx, wait, nil)
		case err == nil:
			err = l.notified(ctx, w, h.again)
		}
		if err != nil && h.queues {
			return Undo(ctx, err, true, h.undo)
		}
		if err != nil {
			return err
		}
	}
}

// undoTimeout bounds the attempt to give back a lock that may have been taken.
const undoTimeout = 2 * time.Second

// Undo gives back the lock after an acquisition that failed with cause, and returns the
// cause. If it is not known that the lock is held, it may be, because only the reply was
// lost: unless the cause is the server's answer.
func Undo(ctx context.Context, cause error, held bool, release func(context.Context) error) error {
	if _, answered := errors.AsType[redis.Error](cause); answered && !held {
		return cause
	}
	cause = redisconn.OfContext(ctx, cause)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if err := release(ctx); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("%w (and the lock may still be held: %w)", cause, err)
	}
	return cause
}

// Retries says when the acquisitions of one Locker try again, and when they give up. It
// is not safe for concurrent use.
type Retries struct {
	steps         step.Observer
	waits         *backoff.Waits
	poll, timeout time.Duration
	deadline      time.Time
	polls         int64
}

// NewRetries returns what the parameters that Polls adds ask for.
func NewRetries(env Env) *Retries {
	poll := env.Params.Duration(PollParam)
	return &Retries{
		steps: env.Steps, waits: backoff.New(env.Params, poll), poll: poll, timeout: env.Params.Duration(TimeoutParam),
	}
}

// Begin begins an acquisition, before its first attempt.
func (r *Retries) Begin() {
	r.deadline = time.Now().Add(r.timeout)
	r.waits.Reset()
}

// Next reports step.Waiting after an attempt that found the lock held, and returns how
// long to wait, or ErrTimeout.
func (r *Retries) Next(ctx context.Context) (time.Duration, error) {
	r.polls++
	r.steps.At(ctx, step.Waiting)
	left := time.Until(r.deadline)
	if left <= 0 {
		return 0, ErrTimeout
	}
	wait, more := r.waits.Next()
	if !more {
		return 0, triesError(r.waits.Tries())
	}
	// A wait that has grown does not outlast the time-out.
	return max(1, min(wait, max(left, r.poll))), nil
}

// Polls is how many attempts have found a lock held: see PollsOf.
func (r *Retries) Polls() int64 { return r.polls }

// triesError is ErrTimeout where a number of tries ended the acquisition, and
// not the time-out.
type triesError int

func (n triesError) Error() string {
	return fmt.Sprintf("lock was held at each of as many tries as there may be, %d", int(n))
}

// Is makes errors.Is find ErrTimeout.
func (triesError) Is(target error) bool { return target == ErrTimeout }
