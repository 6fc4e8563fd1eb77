package redisconn_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A round trip takes the delay longer, to a tenth of a millisecond: in the median of
// round trips by turns, so that the machine is as busy for the one as for the other. It
// is never shorter. A busy machine is given time.
func TestDelayIsExact(t *testing.T) {
	const delay, exact, trips = 500 * time.Microsecond, 100 * time.Microsecond, 201
	s := testkit.Local(t)
	near := testkit.Dial(t, s)
	far := testkit.Must(s.Dialer("").WithDelay(delay).Dial(t.Context()))(t)
	defer far.Close()

	took := func(conn *redisconn.Conn, all *[]time.Duration) {
		start := time.Now()
		testkit.Succeeds(t, conn.Ping(t.Context()).Err())
		*all = append(*all, time.Since(start))
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	err := process.Await(ctx, time.Millisecond, func() error {
		var without, with []time.Duration
		for range trips {
			took(near, &without)
			took(far, &with)
		}
		slices.Sort(without)
		slices.Sort(with)

		if with[0] < delay {
			t.Errorf("a round trip took %s, less than the delay of %s", with[0], delay)
		}
		if more := with[trips/2] - without[trips/2]; runtime.GOOS == "linux" && more > delay+exact {
			return fmt.Errorf("a round trip takes %s more in the median, want %s to %s",
				more, delay, delay+exact)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}

	if n := far.Stats.Snapshot(); n.RoundTrips%trips != 0 || n.RoundTrips != n.Commands {
		t.Errorf("%d round trips and %d commands are counted", n.RoundTrips, n.Commands)
	}
}

// Every connection that belongs to a client has its delay: those that go-redis makes
// anew, and subscriptions, which hear what others say.
func TestDelayOfEveryConnection(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		own := testkit.Must(s.Dialer("").WithDelay(delay).Dial(t.Context()))(t)
		defer own.Close()
		other := testkit.Dial(t, s)

		late := func(what string, do func() error) {
			t.Helper()
			start := time.Now()
			if err := do(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if took := time.Since(start); took < delay {
				t.Errorf("%s took %s, less than the delay of %s", what, took, delay)
			}
		}

		late("a command", func() error {
			return own.Ping(t.Context()).Err()
		})
		sub := own.Subscribe(t.Context(), "news")
		defer sub.Close()
		testkit.Must(sub.Receive(t.Context()))(t)

		late("a message", func() error {
			if err := other.Publish(t.Context(), "news", "x").Err(); err != nil {
				return err
			}
			_, err := sub.ReceiveTimeout(t.Context(), time.Minute)
			return err
		})

		testkit.Succeeds(t, own.Process(t.Context(), redis.NewStatusCmd(t.Context(), "quit")))
		_ = own.Ping(t.Context()).Err() // it may find the connection closed; the next one connects anew
		late("on a new connection", func() error {
			return own.Ping(t.Context()).Err()
		})
	})
}

// A context that ends while Dial waits for a late reply ends Dial, and leaves
// nothing behind.
func TestDialEndsInADelay(t *testing.T) {
	s := testkit.Embedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if conn, err := s.Dialer("").WithDelay(time.Hour).Dial(ctx); err == nil {
		conn.Close()
		t.Error("a connection with an hour's delay was made")
	}
}
