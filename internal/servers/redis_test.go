package servers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

func TestMasters(t *testing.T) {
	t.Parallel()
	m := testkit.Masters(t, 5)
	ctx := t.Context()
	seen := map[string]bool{}
	for i, dial := range servers.Dialers(m.Targets()) {
		seen[m.Targets()[i].Addr] = true
		rdb, err := dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer rdb.Close()
		if n, err := rdb.Incr(ctx, "n").Result(); err != nil || n != 1 {
			t.Errorf("master %d counts %d, %v; want 1: nobody else wrote to it", i, n, err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("five masters have %d addresses", len(seen))
	}

	before := m.Targets()[1]
	if err := m.Kill(1); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Dial(ctx, 1); !errors.Is(err, backend.ErrUnreachable) {
		t.Errorf("a killed master says %v", err)
	}
	if err := m.Restart(ctx, 1); err != nil {
		t.Fatal(err)
	}
	again, err := m.Dial(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := again.DBSize(ctx).Result(); err != nil || n != 0 || m.Targets()[1] != before {
		t.Errorf("it holds %d keys at %v, %v; want none at %v", n, m.Targets()[1], err, before)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := testkit.Cluster(t)
	ctx := t.Context()
	used := map[int]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "{m}:1"} {
		i, err := c.Master(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		used[i] = true
		conn, err := c.Dial(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Set(ctx, key, "v", 0).Err(); err != nil {
			t.Errorf("setting %q on the master of its slot: %v", key, err)
		}
		conn.Close()
	}
	if len(used) < 2 {
		t.Errorf("six keys lie on %d master", len(used))
	}

	const key = "a"
	old, err := c.Master(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Kill(old); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = backend.Await(ctx, 10*time.Millisecond, func() error {
		conn, err := c.Dial(ctx, key)
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Set(ctx, key, "again", 0).Err()
	})
	if err != nil {
		t.Fatalf("no replica took over: %v", err)
	}
	t.Logf("written again %v after the kill", time.Since(killed))
	if now, err := c.Master(ctx, key); err != nil || now == old {
		t.Errorf("the master is node %d, %v; it was killed", now, err)
	}
}

func TestFailoverLosesWhatWasNotReplicated(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, before := cutAndKilled(t, ctx)
	start := time.Now()
	target, err := s.AwaitFailover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the failover took %v", time.Since(start))
	if target.Addr == before.Addr {
		t.Errorf("the master is still at %v", target)
	}
	again := dial(t, ctx, s)
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

// cutAndKilled writes before and after a cut, and kills the master. Where a busy machine is too late for that, it begins
// again with other servers.
func cutAndKilled(t *testing.T, ctx context.Context) (s *servers.Sentinel, before backend.Target) {
	t.Helper()
	for {
		s := testkit.Sentinel(t)
		before, err := s.Master(ctx)
		if err != nil {
			t.Fatal(err)
		}
		set(t, ctx, s, "before")
		conn := dial(t, ctx, s)
		if err := s.CutReplication(ctx); err != nil {
			t.Fatal(err)
		}
		if err := conn.Set(ctx, "after", "v", 0).Err(); err != nil { // and it is acknowledged
			t.Fatal(err)
		}
		err = s.KillMaster()
		if err == nil {
			return s, before
		}
		if !errors.Is(err, servers.ErrLate) {
			t.Fatal(err)
		}
	}
}

func TestFailoverKeepsWhatWasReplicated(t *testing.T) {
	t.Parallel()
	s := testkit.Sentinel(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := set(t, ctx, s, "k")
	if n, err := conn.Wait(ctx, 1, patience).Result(); n != 1 || err != nil {
		t.Fatalf("%d replicas have it, %v", n, err)
	}
	if err := s.KillMaster(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AwaitFailover(ctx); err != nil {
		t.Fatal(err)
	}
	if err := dial(t, ctx, s).Get(ctx, "k").Err(); err != nil {
		t.Error(err)
	}
}

// set writes a key on the master.
func set(t *testing.T, ctx context.Context, s *servers.Sentinel, key string) *backend.Conn {
	t.Helper()
	conn := dial(t, ctx, s)
	if err := conn.Set(ctx, key, "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return conn
}

func dial(t *testing.T, ctx context.Context, s *servers.Sentinel) *backend.Conn {
	t.Helper()
	conn, err := s.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// One of the sentinels has ended, and the others wait for it in vain: that is told at once.
func TestSentinelThatEndedIsNotWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := testkit.Sentinel(t).AwaitWithoutOne(ctx)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "ended as soon as it was started") {
		t.Errorf("waiting for a sentinel that has ended: %v, %v", err, ctx.Err())
	}
}
