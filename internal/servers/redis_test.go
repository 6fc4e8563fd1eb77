package servers_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
