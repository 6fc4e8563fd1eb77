package rueidislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/lock/rueidislock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(8)
	testkit.VerifyNoLeaks(m)
}

// factory makes the workers of tests. Their server may take long to answer: the machine is busy.
func factory(t *testing.T, s *backend.Server, params param.Values) locktest.Factory {
	given := param.Values{"try-next": "1m"}
	for name, value := range params {
		given[name] = value
	}
	f := locktest.Redis{
		Server: s, Kind: rueidislock.Kind(), Params: given, Renewing: true, Parallel: true, TTL: 500 * time.Millisecond,
	}.Factory(t)
	crash := f.Crash
	f.Crash = func(t testing.TB, l lock.Locker) {
		rueidislock.Crash(l)
		crash(t, l)
	}
	return f
}

func TestConforms(t *testing.T) {
	for name, params := range map[string]param.Values{
		"by the clock": nil, "for a duration": {"expiry": "px"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if unchecked := locktest.Run(t, factory(t, testkit.Local(t), params)).Unchecked(); len(unchecked) > 0 {
				t.Errorf("unchecked: %q", unchecked)
			}
		})
	}
}

// open opens a worker of a factory.
func open(t *testing.T, f locktest.Factory, w locktest.Worker) lock.Locker {
	t.Helper()
	w.Timeout = time.Hour
	l := f.Open(t, w)
	t.Cleanup(func() { _ = l.(interface{ Close() error }).Close() })
	return l
}

func try(t *testing.T, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.Try(t.Context(), "item")
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func behind() time.Time { return time.Now().Add(-2 * time.Hour) }

// A client whose clock is behind by more than the TTL is told that it has the lock, and others can take it.
func TestClockBehind(t *testing.T) {
	f := factory(t, testkit.Local(t), nil)
	try(t, open(t, f, locktest.Worker{TTL: time.Hour, Now: behind}))
	try(t, open(t, f, locktest.Worker{TTL: time.Hour}))
}

// With expiry=px such a client keeps others out, until it renews the lock.
func TestClockBehindForADuration(t *testing.T) {
	f := factory(t, testkit.Local(t), param.Values{"expiry": "px"})
	other := open(t, f, locktest.Worker{TTL: time.Hour})
	lease := try(t, open(t, f, locktest.Worker{TTL: time.Hour, Now: behind}))
	if _, err := other.Try(t.Context(), "item"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("before a renewal: %v, want ErrHeld", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease = try(t, open(t, f, locktest.Worker{TTL: 200 * time.Millisecond, Now: behind}))
	select {
	case <-lease.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("a renewal that ends the lease was not noticed")
	}
	try(t, other)
}

// A holder is told of every change of its key, and renews it then. With noloop=off its renewal is such a change.
func TestRenewalOfARenewal(t *testing.T) {
	for noLoop, endless := range map[string]bool{"on": false, "off": true} {
		s := testkit.Local(t)
		proxy, admin := testkit.StartProxy(t, s), testkit.Dial(t, s)
		lease := try(t, open(t, factory(t, proxy.Server(), param.Values{"noloop": noLoop}), locktest.Worker{TTL: time.Hour}))
		keys, err := admin.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("keys %q, %v", keys, err)
		}
		proxy.Record()
		renewals := func() (n int) {
			for _, name := range proxy.Commands() {
				if name == "evalsha" {
					n++
				}
			}
			return n
		}
		await := func(what string, seen func() bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := backend.Await(ctx, time.Millisecond, func() error {
				if seen() {
					return nil
				}
				return errors.New(what)
			}); err != nil {
				t.Fatalf("noloop=%s: %v", noLoop, err)
			}
		}
		for touched := 1; touched <= 3; touched++ {
			if err := admin.PExpire(t.Context(), keys[0], time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			await("no renewal", func() bool { return admin.PTTL(t.Context(), keys[0]).Val() > time.Minute })
			if n := renewals(); !endless && n != touched {
				t.Errorf("%d renewals after %d changes", n, touched)
			}
		}
		if endless {
			await("it does not go on", func() bool { return renewals() > 100 })
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A lock is free again after the reply that gave it to somebody was lost.
func TestLostReply(t *testing.T) {
	proxy := testkit.StartProxy(t, testkit.Local(t))
	l := open(t, factory(t, proxy.Server(), nil), locktest.Worker{TTL: time.Hour})
	again := func() {
		if err := try(t, l).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	again() // from here on the server knows the scripts
	proxy.LoseReply("evalsha")
	if _, err := l.Acquire(t.Context(), "item"); err == nil || errors.Is(err, lock.ErrTimeout) {
		t.Errorf("an acquisition whose reply is lost: %v, want another error", err)
	}
	again()
}

// It logs in as the worker does, uses the same database, is counted with it, and says what it may not do.
func TestConnection(t *testing.T) {
	s := testkit.Local(t)
	admin := testkit.Dial(t, s)
	newLock := func(forbidden string) (*backend.Conn, lock.Locker, error) {
		t.Helper()
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "trader", "reset", "on", ">s3cret", "~test:*", "+@all", forbidden).
			Err(); err != nil {
			t.Fatal(err)
		}
		target := s.Target
		target.Username, target.Password, target.DB = "trader", "s3cret", 3
		conn, err := backend.Dial(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		l, err := rueidislock.Kind().New(lock.Env{
			Redis: conn.Client, Key: testkit.Keys(t).Lock, Params: param.Values{"try-next": "1m"},
		})
		if err == nil {
			t.Cleanup(func() { _ = l.(interface{ Close() error }).Close() })
		}
		return conn, l, err
	}
	refused := func(err error, command string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), command) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("without %s: %v, want an error that names it, and no password", command, err)
		}
	}

	conn, l, err := newLock("-flushall")
	if err != nil {
		t.Fatal(err)
	}
	before := conn.Stats.Snapshot()
	lease := try(t, l)
	if n := conn.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("%d keys in the worker's database, want 1", n)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := conn.Stats.Snapshot().Sub(before).Commands; n < 3 {
		t.Errorf("%d commands counted, want the lock's and DBSIZE", n)
	}

	_, l, err = newLock("-evalsha")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Acquire(t.Context(), "item")
	refused(err, "evalsha")
	var answered redis.Error
	if !errors.As(err, &answered) {
		t.Errorf("%v is not known as the server's refusal", err)
	}

	_, _, err = newLock("-client|tracking")
	if refused(err, "CLIENT TRACKING"); !errors.Is(err, lock.ErrServers) {
		t.Errorf("without CLIENT TRACKING: %v, want ErrServers", err)
	}
}

// The embedded server has no CLIENT TRACKING.
func TestEmbedded(t *testing.T) {
	conn := testkit.Dial(t, testkit.Embedded(t))
	_, err := rueidislock.Kind().New(lock.Env{Redis: conn.Client, Key: testkit.Keys(t).Lock})
	if !errors.Is(err, lock.ErrServers) {
		t.Errorf("%v, want ErrServers", err)
	}
}
