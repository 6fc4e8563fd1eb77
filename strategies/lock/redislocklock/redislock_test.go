package redislocklock_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/lock/locktest"
	"github.com/marketsim/marketsim/strategies/lock/redislocklock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConforms(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		conforms(t, locktest.Redis{Server: s, Kind: redislocklock.Kind(), OwnClock: true})
	})
}

func TestConformsWithWatchdog(t *testing.T) {
	k, err := lock.WithWatchdog(redislocklock.Kind())
	if err != nil {
		t.Fatal(err)
	}
	conforms(t, locktest.Redis{Server: backendtest.Local(t), Kind: k, Renewing: true, OwnClock: true})
}

// conforms runs the suite. With all hooks there, and a bubble for the clock, no promise stays unchecked.
func conforms(t *testing.T, r locktest.Redis) {
	t.Helper()
	if unchecked := locktest.Run(t, r.Subject(t)).Unchecked(); len(unchecked) > 0 {
		t.Errorf("unchecked: %q", unchecked)
	}
}

// The library polls as often as the locks of package lock do, and tells how often.
func TestPollsAreCounted(t *testing.T) {
	subject := locktest.Redis{Server: backendtest.Embedded(t), Kind: redislocklock.Kind()}.Subject(t)
	if _, err := subject.Open(t, locktest.Worker{TTL: time.Minute, Timeout: time.Minute}).Try(t.Context(), "item"); err != nil {
		t.Fatal(err)
	}
	waiter := subject.Open(t, locktest.Worker{TTL: time.Minute, Timeout: 20 * time.Millisecond})
	if _, err := waiter.Acquire(t.Context(), "item"); !errors.Is(err, lock.ErrTimeout) {
		t.Fatalf("acquiring a held lock: %v, want ErrTimeout", err)
	}
	if n := waiter.(lock.Poller).Polls(); n < 2 || n > 21 {
		t.Errorf("%d polls in 20 ms, want one each ms at most", n)
	}
}

// Nobody holds a lock of which its taker was not told.
func TestLostReplyLeavesNoLock(t *testing.T) {
	backendtest.Each(t, func(t *testing.T, s *backend.Server) {
		proxy := wire.Start(t, s)
		l := locktest.Redis{Server: proxy.Server(), Kind: redislocklock.Kind()}.Subject(t).Open(t, locktest.Worker{
			TTL: time.Minute, Timeout: time.Minute,
		})
		again := func() {
			lease, err := l.Try(t.Context(), "item")
			if err != nil {
				t.Fatalf("Try of a free lock: %v", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		again() // from here on the server knows the scripts
		proxy.LoseReply("evalsha")
		if _, err := l.Try(t.Context(), "item"); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("Try whose reply is lost: %v, want another error", err)
		}
		again()
	})
}
