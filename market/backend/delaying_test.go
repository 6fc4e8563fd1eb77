package backend_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
)

// A delay of the client's own takes as long as the same delay that a proxy makes on the way back from the server. It is
// never shorter. That it is not longer is a matter of medians: of round trips by turns, on a machine that is as busy for
// the one as for the other.
func TestDelayIsThatOfAProxy(t *testing.T) {
	const delay, trips = 20 * time.Millisecond, 31
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		proxy := testkit.StartProxy(t, s)
		far, err := proxy.Server().Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		proxy.SetFault(wire.Down, wire.Fault{Latency: delay})
		own, err := s.Dial(backend.Delaying(t.Context(), delay))
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		took := func(conn *backend.Conn, counts *[]time.Duration) {
			start := time.Now()
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			*counts = append(*counts, time.Since(start))
		}
		var proxied, delayed []time.Duration
		for range trips {
			took(far, &proxied)
			took(own, &delayed)
		}
		slices.Sort(proxied)
		slices.Sort(delayed)
		if delayed[0] < delay {
			t.Errorf("a round trip took %s, less than the delay of %s", delayed[0], delay)
		}
		if here, there := delayed[trips/2], proxied[trips/2]; here > there+delay/2 {
			t.Errorf("a round trip takes %s in the median, and %s through a proxy with the same delay", here, there)
		}
		if n := own.Stats.Snapshot(); n.RoundTrips != trips || n.Commands != trips {
			t.Errorf("%d round trips and %d commands are counted, want %d each", n.RoundTrips, n.Commands, trips)
		}
	})
}

// Every connection that belongs to a client has its delay: those that go-redis makes anew, those beside it, and
// subscriptions, which hear what others say.
func TestDelayOfEveryConnection(t *testing.T) {
	const delay = 20 * time.Millisecond
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		own, err := s.Dial(backend.Delaying(t.Context(), delay))
		if err != nil {
			t.Fatal(err)
		}
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
		late("a command", func() error { return own.Ping(t.Context()).Err() })
		beside, err := backend.DialBeside(t.Context(), own.Client)
		if err != nil {
			t.Fatal(err)
		}
		defer beside.Close()
		late("beside it", func() error {
			if _, err := beside.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
				return err
			}
			_, err := beside.Read(make([]byte, 100))
			return err
		})
		sub := own.Subscribe(t.Context(), "news")
		defer sub.Close()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		late("a message", func() error {
			if err := other.Publish(t.Context(), "news", "x").Err(); err != nil {
				return err
			}
			_, err := sub.ReceiveTimeout(t.Context(), time.Minute)
			return err
		})
		if err := own.Process(t.Context(), redis.NewStatusCmd(t.Context(), "quit")); err != nil {
			t.Fatal(err)
		}
		_ = own.Ping(t.Context()).Err() // it may find the connection closed; the next one connects anew
		late("on a new connection", func() error { return own.Ping(t.Context()).Err() })
	})
}

// A context that ends while Dial waits for a late reply ends Dial, and leaves nothing behind.
func TestDialEndsInADelay(t *testing.T) {
	s := testkit.Embedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if conn, err := s.Dial(backend.Delaying(ctx, time.Hour)); err == nil {
		conn.Close()
		t.Error("a connection with an hour's delay was made")
	}
}
