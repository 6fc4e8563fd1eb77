package embedded_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestMain(m *testing.M) { backendtest.VerifyNoLeaks(m) }

func TestEmbedded(t *testing.T) {
	s := backendtest.Embedded(t)
	if got := s.Describe(); !strings.Contains(got, "embedded miniredis") || !strings.Contains(got, "not Redis's") {
		t.Errorf("described as %q", got)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.Product != "miniredis" {
		t.Errorf("Info says %+v, %v", info, err)
	}
	if err := backendtest.Dial(t, s).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestKeysExpire(t *testing.T) {
	conn := backendtest.Dial(t, backendtest.Embedded(t))
	ctx := t.Context()
	if err := conn.Set(ctx, "k", "v", 20*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; {
		if err := conn.Get(ctx, "k").Err(); errors.Is(err, redis.Nil) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the key does not expire")
		}
	}
}
