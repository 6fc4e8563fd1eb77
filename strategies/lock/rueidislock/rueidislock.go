// Package rueidislock puts the library github.com/redis/rueidis/rueidislock under the market, over the market's one
// Redis.
package rueidislock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// Kind is the lock of github.com/redis/rueidis/rueidislock on one key: a script sets a random token with SET NX and an
// expiry, by default at a time of the client's clock (PXAT), and reads the key, so that the server tells the client
// when the key changes (CLIENT TRACKING). Such a message makes a waiter try again and a holder look whether the lock is
// still its own. The holder renews the lock when half of the TTL has passed, again by its clock (PEXPIREAT); a
// compare-and-delete script releases it. It promises that only its holder releases it, that a crashed holder does not
// hold it for good, and that a holder notices its loss.
//
// What breaks it: the clock. A client whose clock is behind by more than the TTL takes the lock until a time that has
// passed: it is told that it has a key that is not there, and others get in at once (clock-behind). After a crash a
// clock that is ahead keeps the lock for so much longer. With expiry=px the lock is taken for a duration, and the first
// renewal of a clock that is behind then deletes the key that it renews. A holder that is paused for longer than the
// TTL writes too late, as with set-px. A waiter tries again only when a message comes: one that is lost costs it all of
// its time-out. With noloop=off, the library's default, the server tells a holder of its own renewal, and the holder
// answers that with another renewal, without end and as fast as the server can.
//
// In two ways it follows the library's example for one server and not its defaults: it takes one key (KeyMajority 1; 2
// takes two of three keys, on one server too), and noloop is on. TryNextAfter is a second, not 20 ms, because there is
// no next server. Acquire is the library's TryWithContext, again after each message, and an attempt that fails ends it.
// The library's WithContext waits for a message then, too, and with one key it may forget that it waits: the goroutine
// of a failed attempt may run before the failure is counted (9 of 4,163 attempts with the race detector, none of
// 264,543 without). A message wakes all waiters: of ten on one lock, one may not get it for seconds.
//
// valkeylock (github.com/valkey-io/valkey-go v1.0.79) is the same code under other names, so it has no lock of its own
// here.
//
// Source: github.com/redis/rueidis v1.0.79, package rueidislock.
func Kind() lock.Kind {
	return lock.Kind{
		Name:     "rueidislock",
		Summary:  "library: a script of SET NX PXAT by the client's clock; renewed, and waiters woken, by client tracking",
		Source:   "github.com/redis/rueidis/rueidislock",
		Wakes:    "client tracking",
		Promises: promises,
		Params:   []param.Param{lock.TTLParam, expiryParam, noLoopParam, tryNextParam, lock.TimeoutParam},
		Keys:     func(key string) []string { return []string{redisKey(key)} },
		New:      open,
	}
}

// redisKey is the key of a lock as the library spells the first of several.
func redisKey(key string) string {
	name := strings.LastIndex(key, "lock:") + len("lock:")
	return key[:name] + "0:" + key[name:]
}

var (
	promises = lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, NoticesLoss: true}

	expiryParam = param.Choice("expiry",
		"how the lock is taken: until a time of the client's clock, or for a duration (FallbackSETPX)", "pxat", "px")
	noLoopParam = param.Choice("noloop",
		"whether the server keeps a client's own changes from it (NoLoopTracking): needs Redis 7.0.5", "on", "off")
	tryNextParam = param.Duration("try-next", time.Second, time.Millisecond,
		"how long the server may take to answer an attempt to take the lock (TryNextAfter)")
)

// bufferSize is that of the market's connections. The library's default is 512 KiB, each way.
const bufferSize = 8 << 10

// locker is a client of one worker, with one connection beside the worker's own.
type locker struct {
	env     lock.Env
	library rueidislock.Locker
	polls   int64
	changed chan struct{} // the key that is waited for has changed

	mu      sync.Mutex
	waits   string            // the key that is waited for
	holders map[string]*lease // by token
}

func open(env lock.Env) (lock.Locker, error) {
	l := &locker{env: env, changed: make(chan struct{}, 1), holders: map[string]*lease{}}
	server := env.Redis.Options()
	client := rueidis.ClientOption{
		InitAddress: []string{server.Addr}, Password: server.Password, SelectDB: server.DB,
		DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return backend.DialBeside(ctx, env.Redis)
		},
		ForceSingleClient:  true,
		DisableRetry:       server.MaxRetries <= 0, // or a script is sent again, and finds the lock held by itself
		ReadBufferEachConn: bufferSize, WriteBufferEachConn: bufferSize,
		ClientSetInfo: rueidis.DisableClientSetInfo,
		Dialer:        net.Dialer{KeepAlive: -1}, // no PINGs: a connection carries what the lock needs
	}
	if server.Password != "" { // or the library logs in without one
		client.Username = server.Username
	}
	var err error
	l.library, err = rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: client,
		ClientBuilder: func(option rueidis.ClientOption) (rueidis.Client, error) {
			theirs := option.OnInvalidations
			option.OnInvalidations = func(keys []rueidis.RedisMessage) { theirs(keys); l.told(keys) }
			c, err := rueidis.NewClient(option)
			return &scripts{c, l}, err
		},
		KeyPrefix:      strings.TrimSuffix(env.Key(""), ":"),
		KeyMajority:    1,
		KeyValidity:    env.Params.Duration(lock.TTLParam),
		TryNextAfter:   env.Params.Duration(tryNextParam),
		NoLoopTracking: env.Params.Text(noLoopParam) == "on",
		FallbackSETPX:  env.Params.Text(expiryParam) == "px",
	})
	if errors.Is(err, rueidis.ErrNoCache) {
		err = fmt.Errorf("%w: rueidislock needs a Redis with RESP3 and CLIENT TRACKING (6.0 or newer, not the embedded "+
			"one), and a user who may use them: %w", lock.ErrServers, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open rueidislock: %w", err)
	}
	return l, nil
}

// Promises implements lock.Locker.
func (*locker) Promises() lock.Promises { return promises }

// Polls implements lock.Poller.
func (l *locker) Polls() int64 { return l.polls }

// Close implements io.Closer. Locks that are still held expire.
func (l *locker) Close() error {
	l.library.Close()
	return nil
}

// Acquire implements lock.Locker. As the library's WithContext does, it tries again after each message of the key.
func (l *locker) Acquire(ctx context.Context, name string) (lock.Lease, error) {
	deadline := time.Now().Add(l.env.Params.Duration(lock.TimeoutParam))
	for {
		l.await(name)
		s, err := l.take(ctx, name)
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, errLate) && time.Now().Before(deadline):
			continue // no message would come
		case errors.Is(err, lock.ErrHeld):
			l.polls++
			l.env.Steps.At(ctx, step.Waiting)
			err = l.wait(ctx, deadline)
		}
		if err != nil {
			return nil, fmt.Errorf("acquire lock %s: %w", name, err)
		}
	}
}

// Try implements lock.Locker.
func (l *locker) Try(ctx context.Context, name string) (lock.Lease, error) {
	s, err := l.take(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("try lock %s: %w", name, err)
	}
	return s, nil
}

// await says that from now on changes of a lock's key count.
func (l *locker) await(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits = redisKey(l.env.Key(name))
	select {
	case <-l.changed:
	default:
	}
}

// told is called with the keys that have changed; nil: any may have, because the connection was lost.
func (l *locker) told(keys []rueidis.RedisMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if keys != nil && !slices.ContainsFunc(keys, func(m rueidis.RedisMessage) bool {
		key, err := m.ToString()
		return err == nil && key == l.waits
	}) {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// wait returns when the key that is waited for has changed.
func (l *locker) wait(ctx context.Context, deadline time.Time) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-l.changed:
		return nil
	case <-timer.C:
		return lock.ErrTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errLate says that an attempt took longer than the lease would have lasted. The library has given back what it took.
var errLate = fmt.Errorf("the attempt to take the lock took longer than its TTL: %w", context.DeadlineExceeded)

// take makes one attempt. The library ends a lease with the context that it was acquired under, so it gets one of its
// own, which ctx ends only as long as the attempt lasts.
func (l *locker) take(ctx context.Context, name string) (*lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &lease{locker: l, key: redisKey(l.env.Key(name))}
	own, end := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), leaseKey{}, s))
	unlink := context.AfterFunc(ctx, end)
	start := time.Now()
	held, release, err := l.library.TryWithContext(own, name)
	if !unlink() && err == nil {
		release()
		err = ctx.Err()
	}
	if err != nil {
		end()
		s.forget()
		var refused *rueidis.RedisError
		notLocked := errors.Is(err, rueidislock.ErrNotLocked)
		switch {
		case ctx.Err() == nil && (notLocked || errors.Is(err, context.Canceled)) &&
			time.Since(start) >= l.env.Params.Duration(lock.TTLParam):
			return nil, errLate
		case notLocked:
			return nil, lock.ErrHeld
		case errors.As(err, &refused):
			err = refusal{err}
		}
		return nil, backend.OfContext(ctx, err)
	}
	s.held, s.release = held, func() { release(); end() }
	s.context, s.lost = context.WithCancelCause(context.Background())
	s.unwatch = context.AfterFunc(held, func() { s.lost(lock.ErrLost) })
	return s, nil
}

// refusal is an error that the server answered, as the rest of the module knows one.
type refusal struct{ error }

// RedisError implements go-redis's Error.
func (refusal) RedisError() {}

type lease struct {
	locker   *locker
	key      string
	token    string          // of the library
	held     context.Context // of the library; it ends with the lock
	release  func()
	context  context.Context
	lost     context.CancelCauseFunc
	unwatch  func() bool
	released bool
	answer   error // to the last script with its token
}

// Context implements lock.Lease.
func (s *lease) Context() context.Context { return s.context }

// Release implements lock.Lease. It takes as long as the server, and no longer than the lease lasts.
func (s *lease) Release(context.Context) error {
	if s.released {
		return lock.ErrLost
	}
	s.released = true
	s.unwatch()
	gaveUp := s.held.Err() != nil
	s.release() // returns when the library has tried to delete the key
	s.forget()
	switch {
	case gaveUp:
		return fmt.Errorf("release %s: %w", s.key, lock.ErrLost)
	case s.answer != nil:
		return fmt.Errorf("release %s: %w", s.key, s.answer)
	}
	return nil
}

// forget is called when no more scripts come with its token.
func (s *lease) forget() {
	s.locker.mu.Lock()
	defer s.locker.mu.Unlock()
	delete(s.locker.holders, s.token)
}

// scripts is the client under the library's Locker, which does all by scripts of one key, a token and the end of the
// lease. It notes what a script found, which the library does not tell, and sets the clock: the end of a lease is all
// that the library reads from it.
type scripts struct {
	rueidis.Client
	locker *locker
}

// The words of EVALSHA and EVAL that follow the script, the number of keys and the key.
const (
	tokenWord = 4
	endWord   = 5
)

// Do implements rueidis.Client.
func (c *scripts) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	s := c.locker.holder(ctx, cmd.Commands()[tokenWord])
	answer := c.Client.Do(ctx, c.byClock(cmd))
	if s == nil { // of a Locker that was closed
		return answer
	}
	s.answer = answer.Error()
	if found, err := answer.AsInt64(); err == nil && found == 0 {
		s.answer = lock.ErrLost
	}
	return answer
}

// byClock is the command with the end of the lease by the client's clock, where that is not the process's.
func (c *scripts) byClock(cmd rueidis.Completed) rueidis.Completed {
	env, words := c.locker.env, cmd.Commands()
	end, err := strconv.ParseInt(words[endWord], 10, 64)
	if env.Now == nil || err != nil || end <= env.Params.Duration(lock.TTLParam).Milliseconds() { // a duration
		return cmd
	}
	end += env.Now().UnixMilli() - time.Now().UnixMilli()
	return c.B().Arbitrary(words[:endWord]...).Args(strconv.FormatInt(end, 10)).Build().ToRetryable()
}

// leaseKey is the key under which the library's contexts say whose they are.
type leaseKey struct{}

// holder is whose script has a token. The script that takes the lock comes first, and under the lease's own context;
// the one that releases it does not.
func (l *locker) holder(ctx context.Context, token string) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := ctx.Value(leaseKey{}).(*lease); ok {
		s.token = token
		l.holders[token] = s
	}
	return l.holders[token]
}
