package library_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/library"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/verify/locktest"
)

// libraries are the locks of other people's libraries for Redis.
var libraries = []struct {
	lock.Kind
	takes string        // the command that takes the lock
	ttl   time.Duration // of the leases in the suite; 0: the suite's own
}{
	{library.Redislock(), "evalsha", 0},
	{library.Redsync(), "set", 2 * time.Second}, // it gives a server 5% of the TTL to answer
}

func TestLibrariesConform(t *testing.T) {
	t.Parallel()
	for _, library := range libraries {
		t.Run(library.Name, func(t *testing.T) {
			t.Parallel()
			r := subjects.OnRedis{Kind: library.Kind, TTL: library.ttl}
			testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
				t.Parallel()
				r := r
				r.Server = s
				conforms(t, r)
			})

			t.Run("watchdog", func(t *testing.T) {
				t.Parallel()
				k := testkit.Must(lock.WithWatchdog(library.Kind))(t)
				r := r
				r.Server = testkit.Local(t)
				r.Kind = k
				r.Renewing = true
				conforms(t, r)
			})
		})
	}
}

// conforms runs the suite. A library reads its clock itself: see TestLibrariesTrustNoClock.
func conforms(t *testing.T, r subjects.OnRedis) {
	t.Helper()
	r.Parallel = true
	unchecked := locktest.Run(t, r.Factory(t)).Unchecked()
	if !slices.Equal(unchecked, []string{"clock-independent"}) {
		t.Errorf("unchecked: %q", unchecked)
	}
}

// A client whose clock is decades slow, because it runs in a bubble of package synctest,
// is kept out, keeps others out, and does not keep them out for good when it has died. In
// a bubble time stands still while a client waits for Redis.
func TestLibrariesTrustNoClock(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	for _, library := range libraries {
		t.Run(library.Name, func(t *testing.T) {
			t.Parallel()
			factory := subjects.OnRedis{Server: testkit.Local(t), Kind: library.Kind}.Factory(t)
			right := factory.Open(t, locktest.Worker{TTL: ttl, Timeout: time.Minute})
			slow := func(want error) {
				t.Helper()
				synctest.Test(t, func(t *testing.T) {
					wrong := factory.Open(t, locktest.Worker{TTL: ttl, Timeout: time.Minute})
					if _, err := wrong.Try(t.Context(), "item"); !errors.Is(err, want) {
						t.Errorf("Try with a slow clock: %v, want %v", err, want)
					}
				})
			}

			held := testkit.Must(right.Acquire(t.Context(), "item"))(t)
			slow(lock.ErrHeld)
			testkit.Succeeds(t, held.Release(t.Context()))
			slow(nil)

			if _, err := right.Try(t.Context(), "item"); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("held by a client whose clock is slow: Try: %v, want ErrHeld", err)
			}
			_, err := right.Acquire(t.Context(), "item")
			if err != nil {
				t.Errorf("a client whose clock is slow has died: Acquire: %v", err)
			}
		})
	}
}

// A library polls as often as the locks of package lock do, and counts its polls.
func TestLibrariesCountPolls(t *testing.T) {
	t.Parallel()
	for _, library := range libraries {
		factory := subjects.OnRedis{Server: testkit.Embedded(t), Kind: library.Kind}.Factory(t)
		holder := factory.Open(t, locktest.Worker{TTL: time.Hour, Timeout: time.Minute})
		if _, err := holder.Try(t.Context(), "item"); err != nil {
			t.Fatal(err)
		}

		polls := int64(0)
		for ms := int64(20); polls < 2; ms *= 10 { // a busy machine may be too slow for a second poll
			timeout := time.Duration(ms) * time.Millisecond
			waiter := factory.Open(t, locktest.Worker{TTL: time.Hour, Timeout: timeout})
			if _, err := waiter.Acquire(t.Context(), "item"); !errors.Is(err, lock.ErrTimeout) {
				t.Fatalf("%s: acquiring a held lock: %v, want ErrTimeout", library.Name, err)
			}
			polls = waiter.(interface{ Polls() int64 }).Polls()
			if polls > ms+1 || polls < 2 && ms >= 20_000 {
				t.Fatalf("%s: %d polls in %s, want one each ms at most", library.Name, polls, timeout)
			}
		}
	}
}

// A library gives up after as many tries as there may be, as the locks of package lock do.
func TestLibrariesCountTries(t *testing.T) {
	t.Parallel()
	for _, library := range libraries {
		r := subjects.OnRedis{
			Server: testkit.Embedded(t), Kind: library.Kind, Params: param.Values{"tries": "2"},
		}
		factory := r.Factory(t)
		w := locktest.Worker{TTL: time.Hour, Timeout: time.Hour}
		if _, err := factory.Open(t, w).Try(t.Context(), "item"); err != nil {
			t.Fatal(err)
		}

		waiter := factory.Open(t, w)
		_, err := waiter.Acquire(t.Context(), "item")
		polls := waiter.(interface{ Polls() int64 }).Polls()
		if !errors.Is(err, lock.ErrTimeout) || polls != 2 {
			t.Errorf("%s: acquiring a held lock: %v after %d polls, want ErrTimeout after 2",
				library.Name, err, polls)
		}
	}
}

// A lock is free again after the reply that gave it to somebody was lost, if the library
// gives it back or is told to.
func TestLibrariesGiveBackAfterALostReply(t *testing.T) {
	t.Parallel()
	for _, library := range libraries {
		t.Run(library.Name, func(t *testing.T) {
			testkit.OnBest(t, func(t *testing.T, s *backend.Server) {
				proxy := testkit.StartProxy(t, s)
				params := param.Values{}
				if library.Name == "redislock" {
					params["lost-reply"] = "released"
				}
				factory := subjects.OnRedis{
					Server: proxy.Server(), Kind: library.Kind, Params: params,
				}.Factory(t)
				l := factory.Open(t,
					locktest.Worker{TTL: time.Minute, Timeout: time.Minute})

				again := func() {
					lease, err := l.Try(t.Context(), "item")
					if err != nil {
						t.Fatalf("Try of a free lock: %v", err)
					}
					testkit.Succeeds(t, lease.Release(t.Context()))
				}

				again() // from here on the server knows the scripts
				proxy.LoseReply(library.takes)
				if _, err := l.Try(t.Context(), "item"); err == nil || errors.Is(err, lock.ErrHeld) {
					t.Errorf("Try whose reply is lost: %v, want another error", err)
				}

				again()
			})
		})
	}
}

func TestMain(m *testing.M) {
	testkit.MaxParallel(16) // they mostly wait
	testkit.VerifyNoLeaks(m)
}
