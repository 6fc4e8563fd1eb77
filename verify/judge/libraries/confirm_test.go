package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	gozero "github.com/zeromicro/go-zero/core/stores/redis"
)

// These tests show on a plain redis-server, that of REDIS_HOST and REDIS_PORT, what
// docs/judged.md says of Go's libraries. One that fails says that a library no longer does
// so. .ci/libraries starts the server.

func serverAddress(t *testing.T) string {
	t.Helper()
	if os.Getenv("REDIS_PORT") == "" {
		t.Skip("no server: .ci/libraries starts one, and sets REDIS_HOST and REDIS_PORT")
	}
	return net.JoinHostPort(os.Getenv("REDIS_HOST"), os.Getenv("REDIS_PORT"))
}

// openServer is a client of that server for what a test looks at itself. The database is emptied.
func openServer(t *testing.T) *redis.Client {
	t.Helper()
	server := redis.NewClient(&redis.Options{Addr: serverAddress(t), MaxRetries: -1})
	t.Cleanup(func() { server.Close() })
	succeeds(t, server.FlushDB(t.Context()).Err())
	return server
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A losing is the loss of one reply: that to the first request with a word, whose connection ends.
type losing struct {
	word        string
	lost        func() // is told
	asked, done atomic.Bool
}

// A losingConn is a connection of a client that loses a reply.
type losingConn struct {
	net.Conn
	*losing
}

func (c losingConn) Write(request []byte) (int, error) {
	if bytes.Contains(request, []byte(c.word)) {
		c.asked.Store(true)
	}
	return c.Conn.Write(request)
}

func (c losingConn) Read(reply []byte) (int, error) {
	n, err := c.Conn.Read(reply)
	if c.asked.Load() && c.done.CompareAndSwap(false, true) {
		c.lost()
		return 0, errors.Join(io.EOF, c.Close())
	}
	return n, err
}

func (l *losing) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	return losingConn{Conn: conn, losing: l}, err
}

func openLocker(t *testing.T, o rueidis.ClientOption) rueidislock.Locker {
	t.Helper()
	o.InitAddress, o.ForceSingleClient = []string{serverAddress(t)}, true
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: o,
		KeyMajority:  1,
		TryNextAfter: time.Second,
	})
	succeeds(t, err)
	return locker
}

// rueidislock sends the end of a lease as a time of the client's clock. The clock of a bubble
// of synctest stands in the year 2000: a lock that is taken by it has expired before, and it
// is told that it is taken.
func TestRueidislockWithAClockThatIsBehind(t *testing.T) {
	server := openServer(t)
	var taken error
	synctest.Test(t, func(t *testing.T) {
		locker := openLocker(t, rueidis.ClientOption{})
		_, free, err := locker.TryWithContext(context.Background(), "a")
		taken = err
		if err == nil {
			defer free()
		}
		defer locker.Close()

		if n := server.Exists(context.Background(), "rueidislock:0:a").Val(); n != 0 {
			t.Errorf("there is a key of the lock")
		}
	})

	if taken != nil {
		t.Errorf("the lock is not taken: %v", taken)
	}
}

// A take of rueidislock whose reply is lost is sent again, finds its own key, and says that
// another has the lock. The key stays until its lease ends.
func TestRueidislockLeavesWhatItHasTaken(t *testing.T) {
	server := openServer(t)
	reply := &losing{word: "rueidislock:0:a", lost: func() {}}
	locker := openLocker(t, rueidis.ClientOption{
		DialCtxFn: func(
			ctx context.Context, address string, _ *net.Dialer, _ *tls.Config,
		) (net.Conn, error) {
			return reply.dial(ctx, address)
		},
	})
	defer locker.Close()

	_, free, err := locker.TryWithContext(t.Context(), "first") // so that the server knows its scripts
	succeeds(t, err)
	free()
	_, _, err = locker.TryWithContext(t.Context(), "a")
	if !errors.Is(err, rueidislock.ErrNotLocked) {
		t.Errorf("the take says %v", err)
	}
	if left := server.PTTL(t.Context(), "rueidislock:0:a").Val(); left <= 0 {
		t.Errorf("the key stays for %v", left)
	}
}

// Without SetExpire a RedisLock of go-zero lasts for half a second, and Acquire of a lock
// that is held by the same object says yes.
func TestGoZeroLastsForHalfASecond(t *testing.T) {
	server := openServer(t)
	store, err := gozero.NewRedis(gozero.RedisConf{Host: serverAddress(t), Type: gozero.NodeType})
	succeeds(t, err)
	lock := gozero.NewRedisLock(store, "a")

	taken, err := lock.Acquire()
	left := server.PTTL(t.Context(), "a").Val()
	again, againErr := lock.Acquire()
	if !taken || !again || err != nil || againErr != nil {
		t.Errorf("acquired: %t, %v; while it is held: %t, %v", taken, err, again, againErr)
	}
	if left <= 0 || left > 500*time.Millisecond {
		t.Errorf("it lasts for %v", left)
	}
}

// With WithSetNXOnExtend redsync's Extend takes a lock again that another has had and
// released, and does not tell; without it the loss is told.
func TestRedsyncExtendsWhatAnotherHasHad(t *testing.T) {
	server := openServer(t)
	mutexes := redsync.New(goredis.NewPool(server))
	for _, extends := range []bool{true, false} {
		var options []redsync.Option
		if extends {
			options = append(options, redsync.WithSetNXOnExtend())
		}
		alice := mutexes.NewMutex("a", options...)
		succeeds(t, alice.Lock())
		succeeds(t, server.PExpireAt(t.Context(), "a", time.Unix(1, 0)).Err()) // her lease ends

		bob := mutexes.NewMutex("a", options...)
		succeeds(t, bob.Lock())
		_, err := bob.Unlock()
		succeeds(t, err)

		if extended, err := alice.Extend(); extended != extends {
			t.Errorf("with SETNX %t: extended: %t, %v", extends, extended, err)
		}
		if released, err := alice.Unlock(); released != extends {
			t.Errorf("with SETNX %t: released: %t, %v", extends, released, err)
		}
	}
}

// If the context of a take of redsync ends before its reply has come, what it has taken is
// given back under the context that has ended, which is to say not at all: the key stays
// until its lease ends.
func TestRedsyncLeavesWhatItHasTaken(t *testing.T) {
	server := openServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	reply := &losing{word: "nx", lost: cancel}
	client := redis.NewClient(&redis.Options{
		Addr: serverAddress(t),
		Dialer: func(ctx context.Context, _, address string) (net.Conn, error) {
			return reply.dial(ctx, address)
		},
	})
	defer client.Close()

	err := redsync.New(goredis.NewPool(client)).NewMutex("a").LockContext(ctx)
	if err == nil {
		t.Error("the lock is taken")
	}
	if left := server.PTTL(t.Context(), "a").Val(); left <= 0 {
		t.Errorf("the key stays for %v", left)
	}
}

// A take of rueidislock is given up if it is not answered within TryNextAfter, 20 ms by
// default, or before its lease has ended. What it may have taken is given back. Then
// WithContext waits for word that the key has changed, and what its own client does to it is
// none: it waits for a lock that is free, and that another client takes.
func TestRueidislockWaitsForALockThatIsFree(t *testing.T) {
	for name, option := range map[string]rueidislock.LockerOption{
		"an answer later than TryNextAfter": {},
		"an answer later than the lease": {
			TryNextAfter: time.Minute, KeyValidity: 100 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := openServer(t)
			option.ClientOption = rueidis.ClientOption{InitAddress: []string{serverAddress(t)}}
			option.KeyMajority, option.NoLoopTracking = 1, true // as its README tells
			locker, err := rueidislock.NewLocker(option)
			succeeds(t, err)
			defer locker.Close()

			succeeds(t, server.Do(t.Context(), "CLIENT", "PAUSE", 500, "ALL").Err())
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			_, free, err := locker.WithContext(ctx, "a")
			if err == nil {
				free()
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the lock is told to be taken: %v", err)
			}
			if !server.SetNX(t.Context(), "rueidislock:0:a", "another", time.Minute).Val() {
				t.Error("the lock is not free")
			}
		})
	}
}
