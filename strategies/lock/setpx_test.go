package lock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestSetPXSlowClockHardlyTakesTheLock(t *testing.T) {
	t.Parallel()
	for _, expiry := range []string{"pxat", "exat"} {
		t.Run(expiry, func(t *testing.T) {
			onServer(t, func(t *testing.T, b *bench) {
				slow := setting{now: showing(time.Now().Add(-hour)), params: param.Values{"expiry": expiry}}
				one := b.try(b.worker("set-px", slow))
				other := b.try(b.worker("set-px", setting{}))
				wants(t, "release by the slow clock", one.Release(t.Context()), lock.ErrLost)
				wants(t, "the other's release", other.Release(t.Context()), nil)
			})
		})
	}
}

// A time of a fast clock holds the lock for too long, and a duration does not
// depend on the clock.
func TestSetPXFastClock(t *testing.T) {
	relatives := map[string]bool{"px": true, "ex": true, "pxat": false, "exat": false}
	eachCase(t, relatives, func(t *testing.T, b *bench, expiry string, relative bool) {
		w := b.worker("set-px", setting{
			now: showing(time.Now().Add(hour)), params: param.Values{"expiry": expiry},
		})
		b.try(w)
		ttl := b.ttl()
		independent := w.Promises().ClockIndependent
		if ttl < time.Second || relative != (ttl <= 10*time.Second) || relative != independent {
			t.Errorf("it expires in %s; clock-independent: %v", ttl, independent)
		}
	})
}

// asksTwice makes a client send SET again after its reply was lost, as libraries do
// unless they are told not to.
type asksTwice struct{ sees }

func (asksTwice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "set" {
			cmd.SetErr(nil)
			return next(ctx, cmd)
		}
		return err
	}
}

func TestSetPXKnowsItsOwnTokenIfItAsksForIt(t *testing.T) {
	wanted := map[string]error{"off": lock.ErrHeld, "on": nil}
	eachCase(t, wanted, func(t *testing.T, b *bench, get string, want error) {
		s := setting{params: param.Values{"get": get}}
		w := b.worker("set-px", s)
		w.conn.AddHook(asksTwice{})

		lease, err := w.Try(t.Context(), name)
		wants(t, "Try that was sent twice", err, want)

		_, err = b.worker("set-px", s).Try(t.Context(), name)
		wants(t, "another's Try", err, lock.ErrHeld)

		if lease != nil {
			wants(t, "release", lease.Release(t.Context()), nil)
			b.free()
		}
	})
}

// A server older than 7.0 refuses NX and GET together, and the error says which
// one is needed.
func TestSetPXSaysThatGetNeedsANewerServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Embedded(t))
	old, err := server.NewServer("127.0.0.1:0")
	b.must(err)
	t.Cleanup(old.Close)
	b.must(old.Register("PING", func(c *server.Peer, _ string, _ []string) {
		c.WriteInline("PONG")
	}))
	b.must(old.Register("SET", func(c *server.Peer, _ string, _ []string) {
		c.WriteError("ERR syntax error")
	}))

	through := backend.NewServer(backend.OriginURL,
		redisconn.Target{Network: "tcp", Addr: old.Addr().String()}, "old", nil)

	w := b.worker("set-px", setting{through: through, params: param.Values{"get": "on"}})
	_, err = w.Try(t.Context(), name)
	if err == nil || !strings.Contains(err.Error(), "get=on needs Redis 7.0 or newer") {
		t.Errorf("Try: %v", err)
	}
}

// The flaw that its doc comment admits: the numbers are as durable as the server's data.
func TestFencedNumbersStartAgainWhenTheServerForgets(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		w := b.worker("fenced", setting{})
		b.must(b.try(w).Release(t.Context()))
		paused := b.try(w)
		b.must(b.conn.Del(t.Context(), kind(t, "fenced").AllKeys(b.keys.Lock(name))...).Err())
		next := b.try(b.worker("fenced", setting{}))
		if next.Fence > paused.Fence {
			t.Errorf("the next holder got %d after %d", next.Fence, paused.Fence)
		}
	})
}
