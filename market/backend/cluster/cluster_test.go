package cluster_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/cluster/clustertest"
)

func TestMain(m *testing.M) {
	backend.QuietLogs()
	goleak.VerifyTestMain(m)
}

func TestCluster(t *testing.T) {
	began := time.Now()
	c := clustertest.Start(t)
	t.Logf("started in %v", time.Since(began))
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
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if conn, err := c.Dial(ctx, key); err == nil {
			err := conn.Set(ctx, key, "again", 0).Err()
			conn.Close()
			if err == nil {
				break
			}
		}
		if ctx.Err() != nil {
			t.Fatal("no replica took over")
		}
	}
	t.Logf("written again %v after the kill", time.Since(killed))
	if now, err := c.Master(ctx, key); err != nil || now == old {
		t.Errorf("the master is node %d, %v; it was killed", now, err)
	}
}
