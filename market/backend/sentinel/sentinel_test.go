package sentinel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/market/backend/sentinel"
	"github.com/marketsim/marketsim/market/backend/sentinel/sentineltest"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	backendtest.VerifyNoLeaks(m)
}

func TestFailoverLosesWhatWasNotReplicated(t *testing.T) {
	trio := sentineltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	before, err := trio.Master(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := trio.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	set := func(key string) {
		t.Helper()
		if err := conn.Set(ctx, key, "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("before")
	if err := trio.CutReplication(ctx); err != nil {
		t.Fatal(err)
	}
	set("after") // and it is acknowledged
	start := time.Now()
	if err := trio.KillMaster(); err != nil {
		t.Fatal(err)
	}
	target, err := trio.AwaitFailover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the failover took %v", time.Since(start))
	if target.Addr == before.Addr {
		t.Errorf("the master is still at %v", target)
	}
	again, err := trio.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Get(ctx, "before").Err(); err != nil {
		t.Errorf("what was replicated: %v", err)
	}
	if err := again.Get(ctx, "after").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("what was not replicated: %v, want nothing", err)
	}
	if err := again.Set(ctx, "after", "v", 0).Err(); err != nil {
		t.Errorf("writing to the new master: %v", err)
	}
}

func TestFailoverKeepsWhatWasReplicated(t *testing.T) {
	trio := sentineltest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := trio.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(ctx, 1, 5*time.Second).Result(); n != 1 || err != nil {
		t.Fatalf("%d replicas have it, %v", n, err)
	}
	if err := trio.KillMaster(); err != nil {
		t.Fatal(err)
	}
	if _, err := trio.AwaitFailover(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := trio.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Get(ctx, "k").Err(); err != nil {
		t.Error(err)
	}
}

func TestNothingInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := sentinel.Start(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("without a redis-server: %v", err)
	}
}
