package servers_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
)

func TestMasters(t *testing.T) {
	t.Parallel()
	m := serverstest.Masters(t, 5)
	ctx := t.Context()
	seen := map[string]bool{}
	for i, dialer := range servers.Dialers(m.Targets()) {
		seen[m.Targets()[i].Addr] = true
		rdb := testkit.Must(dialer.Dial(ctx))(t)
		defer rdb.Close()
		if n, err := rdb.Incr(ctx, "n").Result(); err != nil || n != 1 {
			t.Errorf("master %d counts %d, %v; want 1: nobody else wrote to it", i, n, err)
		}
	}

	if len(seen) != 5 {
		t.Errorf("five masters have %d addresses", len(seen))
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := serverstest.Cluster(t)
	ctx := t.Context()
	used := map[int]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "{m}:1"} {
		i := testkit.Must(c.Master(ctx, key))(t)
		used[i] = true
		conn := testkit.Must(c.Server.Dialer(key).Dial(ctx))(t)
		if err := conn.Set(ctx, key, "v", 0).Err(); err != nil {
			t.Errorf("setting %q on the master of its slot: %v", key, err)
		}
		conn.Close()
	}

	if len(used) < 2 {
		t.Errorf("six keys lie on %d master", len(used))
	}
}
