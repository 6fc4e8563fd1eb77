package lock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market/backend/cluster"
	"github.com/marketsim/marketsim/market/backend/cluster/clustertest"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestReadWriteLocksOnACluster uses names without braces, so that every key has a slot of its own. A lock of one key works
// wherever its slot is; one of two keys cannot be taken by one script.
func TestReadWriteLocksOnACluster(t *testing.T) {
	c := clustertest.Start(t)
	masters := map[int]bool{}
	for i := range 12 {
		key := fmt.Sprint("lock:item-", i)
		master, err := c.Master(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		masters[master] = true
		sharesOneKey(t, c, key)
		if _, err := onCluster(t, c, "rw-keys", key).Try(t.Context(), key); err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
			t.Errorf("rw-keys, whose two keys lie on two slots: got %v, want CROSSSLOT", err)
		}
	}
	if len(masters) != 3 {
		t.Errorf("the locks were on %d masters, want all 3", len(masters))
	}
}

// sharesOneKey checks that readers share rw-hash and a writer does not.
func sharesOneKey(t *testing.T, c *cluster.Cluster, key string) {
	t.Helper()
	ctx := t.Context()
	reader, writer := onCluster(t, c, "rw-hash", key), onCluster(t, c, "rw-hash", key)
	reading, err := reader.(lock.SharedLocker).AcquireShared(ctx, key)
	if err != nil {
		t.Fatalf("%s for reading: %v", key, err)
	}
	if _, err := writer.Try(ctx, key); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("%s for writing beside a reader: %v", key, err)
	}
	if err := reading.Release(ctx); err != nil {
		t.Errorf("%s: %v", key, err)
	}
	writing, err := writer.Try(ctx, key)
	if err != nil {
		t.Fatalf("%s for writing: %v", key, err)
	}
	if err := writing.Release(ctx); err != nil {
		t.Errorf("%s: %v", key, err)
	}
}

// onCluster opens a lock on the master of a key's slot. The key is used as it is.
func onCluster(t *testing.T, c *cluster.Cluster, name, key string) lock.Locker {
	t.Helper()
	conn, err := c.Dial(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l, err := kind(t, name).New(lock.Env{
		Redis: conn.Client, Dial: c.Dialer(key), Key: func(name string) string { return name },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
