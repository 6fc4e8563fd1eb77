package lock_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/markettest/wire"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
	"github.com/marketsim/marketsim/strategies/step"
)

// diesHalfway makes a worker die between SETNX and EXPIRE.
func (b *bench) diesHalfway(lockName string) {
	b.Helper()
	var dying *worker
	dying = b.worker(lockName, setting{steps: whenever(step.Half, func() { _ = dying.conn.Close() })})
	if _, err := dying.Try(b.Context(), name); err == nil {
		b.Fatal("a dead worker took the lock")
	}
	if ttl := b.ttl(); ttl != endless {
		b.Fatalf("the lock has a TTL of %s, want none", ttl)
	}
}

func TestSetNXExpireNaiveIsHeldForGoodByWhoDiesHalfway(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		b.diesHalfway("setnx-expire-naive")
		other := b.worker("setnx-expire-naive", setting{params: param.Values{"timeout": "20ms"}})
		_, err := other.Acquire(t.Context(), name)
		wants(t, "acquisition after the holder's death", err, lock.ErrTimeout)
		if ttl := b.ttl(); ttl != endless {
			t.Errorf("then the lock has a TTL of %s, want none", ttl)
		}
	})
}

func TestSetNXExpireNaiveGivesBackWhatItCannotLetExpire(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		proxy := wire.Start(t, b.server)
		w := b.worker("setnx-expire-naive", setting{through: proxy.Server()})
		proxy.LoseCommand("expire")
		if _, err := w.Try(t.Context(), name); err == nil {
			t.Error("Try succeeded without EXPIRE")
		}
		b.free()
	})
}

// The server has given the lock away when it refuses to let it expire.
func TestSetNXExpireNaiveGivesBackWhatTheServerWillNotLetExpire(t *testing.T) {
	b := newBench(t, backendtest.Local(t, "--rename-command", "EXPIRE", ""))
	_, err := b.worker("setnx-expire-naive", setting{}).Try(t.Context(), name)
	var refused redis.Error
	if !errors.As(err, &refused) {
		t.Errorf("Try without EXPIRE: %v, want the server's refusal", err)
	}
	b.free()
}
