package lock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// at is a client's clock that stands still, some ms after a common start.
func at(ms int64) func() time.Time {
	return func() time.Time {
		return time.UnixMilli(1_700_000_000_000 + ms)
	}
}

// Two readers, the clocks right, nobody crashed: when the second leaves, the
// first reads beside a writer.
func TestRWHashSecondReaderOverwritesTheFirst(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(1)))
		writer := c.worker(nil, at(2))
		noWriter(t, writer, "two readers have it")
		release(t, second)
		release(t, write(t, writer)) // the first still reads
		releaseFindsItLost(t, first)
	})
}

// The other order: the release of the first reports the loss of what it held;
// the second is still protected.
func TestRWHashFirstReaderLeavesFirst(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(1)))
		releaseFindsItLost(t, first)
		noWriter(t, c.worker(nil, at(2)), "the second reader has it")
		release(t, second)
		c.leavesNothing()
	})
}

// Readers that come in the same millisecond cannot be told apart.
func TestRWHashReadersOfOneMillisecondFreeEachOther(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(0)))
		release(t, first)
		release(t, write(t, c.worker(nil, at(1)))) // the second still reads
		releaseFindsItLost(t, second)
	})
}

func TestRWHashWrongClocks(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		const hour = 3_600_000
		held := write(t, c.worker(nil, at(0)))
		stolen := write(t, c.worker(nil, at(hour))) // its clock is ahead: two writers
		releaseFindsItLost(t, held)
		noWriter(t, c.worker(nil, at(0)), "held by one whose clock is ahead")
		noWriter(t, c.worker(nil, at(hour-1)), "by every clock that is not ahead: until the hash expires")
		release(t, stolen)

		// Its clock is behind: nobody else sees that it holds the lock.
		early := write(t, c.worker(nil, at(-hour)))
		release(t, write(t, c.worker(nil, at(0))))
		releaseFindsItLost(t, early)
	})
}

func TestRWHashReadersAndWritersTimeOutApart(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{
			"timeout": atOnce, "read-ttl": "1s", "write-ttl": "2s",
		})
		read(t, c.worker(nil, at(0))) // and crashes
		noWriter(t, c.worker(nil, at(1000)), "the reader counts for a second")
		write(t, c.worker(nil, at(1001))) // and crashes
		noReader(t, c.worker(nil, at(3001)), "the writer counts for two seconds")
		noWriter(t, c.worker(nil, at(3001)), "the writer counts for two seconds")
		release(t, read(t, c.worker(nil, at(3002))))
	})
}

// Whatever the clocks say, the hash expires after a time of its own. Until then a client
// whose clock is behind is kept out by a dead writer for longer than others are.
func TestRWHashKeepsASlowClockOutLonger(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-hash"), param.Values{"timeout": atOnce})

		start := time.Now()
		write(t, c.worker(nil, at(0))) // and crashes
		if ttl := b.ttl(); ttl > 10*time.Second || ttl < 5*time.Second-time.Since(start) {
			t.Errorf("the hash of a writer expires in %s, want 10s", ttl)
		}

		noWriter(t, c.worker(nil, at(3300-5000)), "3.3 s later, by a clock that is 5 s behind")
		release(t, write(t, c.worker(nil, at(3300))))

		write(t, c.worker(nil, at(0)))
		b.expire()
		release(t, write(t, c.worker(nil, at(-5000))))
	})
}

// TestReadWriteLocksOnACluster uses names without braces, so that every key has a
// slot of its own. A lock of one key works wherever its slot is; one of two keys
// cannot be taken by one script.
func TestReadWriteLocksOnACluster(t *testing.T) {
	t.Parallel()
	c := serverstest.Cluster(t)
	masters := map[int]bool{}
	for i := range 12 {
		key := fmt.Sprint("lock:item-", i)
		master := testkit.Must(c.Master(t.Context(), key))(t)
		masters[master] = true

		sharesOneKey(t, c, key)
		for _, twoKeys := range rwKinds[:2] {
			_, err := onCluster(t, c, twoKeys, key).Try(t.Context(), key)
			if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
				t.Errorf("%s, whose two keys lie on two slots: got %v, want CROSSSLOT", twoKeys, err)
			}
			if i == 0 {
				t.Logf("%s: %v", twoKeys, err)
			}
		}
	}

	if len(masters) != 3 {
		t.Errorf("the locks were on %d masters, want all 3", len(masters))
	}
}

// sharesOneKey checks that readers share rw-hash and a writer does not.
func sharesOneKey(t *testing.T, c *servers.Cluster, key string) {
	t.Helper()
	ctx := t.Context()
	reader := onCluster(t, c, "rw-hash", key)
	writer := onCluster(t, c, "rw-hash", key)

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
func onCluster(t *testing.T, c *servers.Cluster, name, key string) lock.Locker {
	t.Helper()
	dial := c.Server.Dialer(key).Client
	rdb := testkit.Must(dial(t.Context()))(t)
	t.Cleanup(func() {
		rdb.Close()
	})

	l, err := kind(t, name).New(lock.Env{
		Redis:     rdb,
		NewClient: dial,
		Key: func(name string) string {
			return name
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
