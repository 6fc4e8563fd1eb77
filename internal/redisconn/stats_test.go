package redisconn_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestStats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		conn := testkit.Dial(t, s)
		if got := conn.Stats.Snapshot(); got != (redisconn.Counts{}) {
			t.Errorf("a new connection has counted %+v", got)
		}

		ctx := t.Context()
		two := func(p redis.Pipeliner) error {
			p.Incr(ctx, "n")
			p.Incr(ctx, "n")
			return nil
		}
		for _, tc := range []struct {
			name                 string
			do                   func() error
			commands, roundTrips int64
		}{
			{"single", func() error {
				return conn.Set(ctx, "n", 1, 0).Err()
			}, 1, 1},
			{"failing", func() error {
				conn.LPush(ctx, "n", 1)
				return nil
			}, 1, 1},
			{"pipeline", func() error {
				_, err := conn.Pipelined(ctx, two)
				return err
			}, 2, 1},
			{"transaction", func() error {
				_, err := conn.TxPipelined(ctx, two)
				return err
			}, 4, 1},
			{"watch", func() error { // WATCH, GET, then MULTI to EXEC; no UNWATCH after EXEC
				return conn.Watch(ctx, func(tx *redis.Tx) error {
					tx.Get(ctx, "n")
					_, err := tx.TxPipelined(ctx, two)
					return err
				}, "n")
			}, 6, 3},
			{"watch given up", func() error { // WATCH, GET, UNWATCH
				return conn.Watch(ctx, func(tx *redis.Tx) error {
					return tx.Get(ctx, "n").Err()
				}, "n")
			}, 3, 3},
			{"pipeline larger than the buffers", func() error {
				_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
					for range 10 {
						p.Set(ctx, "big", strings.Repeat("x", 100_000), 0)
					}
					return nil
				})
				return err
			}, 10, 1},
		} {

			before := conn.Stats.Snapshot()
			if err := tc.do(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}

			got := conn.Stats.Snapshot().Sub(before)
			if got.Commands != tc.commands || got.RoundTrips != tc.roundTrips {
				t.Errorf("%s: %d commands in %d round trips, want %d in %d",
					tc.name, got.Commands, got.RoundTrips, tc.commands, tc.roundTrips)
			}
			if got.BytesSent == 0 || got.BytesReceived == 0 {
				t.Errorf("%s: no bytes were counted: %+v", tc.name, got)
			}
		}
	})
}

// Several connections count together, and what a subscription sends is counted too.
func TestWithStats(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		var together redisconn.Stats
		ctx := t.Context()
		for range 2 {
			conn := testkit.Must(s.Dialer("").WithStats(&together).Dial(ctx))(t)
			defer conn.Close()
			if err := conn.Ping(ctx).Err(); err != nil {
				t.Error(err)
			}

			sub := conn.Subscribe(ctx, "a", "b")
			defer sub.Close()
			for range 2 {
				testkit.Must(sub.Receive(ctx))(t)
			}
		}

		got := together.Snapshot()
		isShort := got.BytesReceived < 2*int64(len("+PONG"))
		if got.Commands != 4 || got.RoundTrips != 4 || isShort {
			t.Errorf("two connections, a PING and a SUBSCRIBE each: %+v, want 4 commands in 4 round trips", got)
		}
	})
}

// Counting must not allocate, or it would disturb what it measures.
func TestCountingAllocatesNothing(t *testing.T) {
	conn := testkit.Dial(t, testkit.Local(t))
	options := *conn.Options()
	options.Dialer = nil
	options.OnConnect = nil
	bare := redis.NewClient(&options)
	defer bare.Close()

	ctx := context.Background()
	pings := func(c *redis.Client) float64 {
		return testing.AllocsPerRun(1000, func() {
			c.Ping(ctx)
		})
	}

	if with, without := pings(conn.Client), pings(bare); with > without {
		t.Errorf("a PING allocates %v times with counting, %v times without", with, without)
	}
}
