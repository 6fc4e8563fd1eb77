package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// The first reader that leaves frees all, and the second is told that it has
// lost what the first deleted.
func TestRWNaiveOneReaderFreesAll(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-naive"), param.Values{"timeout": atOnce})
		first := read(t, c.worker(nil, nil))
		second := read(t, c.worker(nil, nil))
		writer := c.worker(nil, nil)
		noWriter(t, writer, "two readers have it")
		release(t, first)
		lease := write(t, writer) // the second still reads
		noWriter(t, writer, "a writer cannot enter again")
		releaseFindsItLost(t, second)
		release(t, lease)
	})
}

// A late writer deletes the lock of the next one.
func TestRWNaiveLateWriterFreesTheNextOne(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-naive"), param.Values{"timeout": atOnce})
		late := write(t, c.worker(nil, nil))
		b.conn.Del(t.Context(), c.keys.Lock(name)+":writer") // as its expiry does
		next := write(t, c.worker(nil, nil))
		release(t, late)
		release(t, read(t, c.worker(nil, nil))) // the next one still writes
		releaseFindsItLost(t, next)
	})
}

// The first reader outlives the expiry and counts down the second: a writer
// enters while that one reads.
func TestRWKeysOneReaderFreesAnothers(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		c := b.workers(kind(t, "rw-keys"), param.Values{"timeout": atOnce})
		one, other, writer := c.worker(nil, nil), c.worker(nil, nil), c.worker(nil, nil)
		slow := read(t, one)
		b.conn.Del(t.Context(), c.keys.Lock(name)+":readers") // as its expiry does
		second := read(t, other)
		noWriter(t, writer, "the second reader has it")
		release(t, slow)
		release(t, write(t, writer)) // the second still reads
		releaseFindsItLost(t, second)
	})
}

// A crashed reader counts for as long as others come before the expiry: each of them puts
// it off. In rw-keys it counts when they have left, too.
func TestRWKeysCrashedReaderKeepsWritersOut(t *testing.T) {
	eachNamed(t, rwKinds[:2], func(t *testing.T, b *bench, kindName string) {
		c := b.workers(kind(t, kindName), param.Values{"timeout": atOnce})
		read(t, c.worker(nil, nil)) // and crashes

		readers := c.keys.Lock(name) + ":readers"
		b.conn.PExpire(t.Context(), readers, 5*time.Second)
		lease := read(t, c.worker(nil, nil))
		if left := b.conn.PTTL(t.Context(), readers).Val(); left <= 5*time.Second {
			t.Errorf("%s are left, want most of the TTL again", left)
		}

		if kindName == "rw-keys" {
			release(t, lease)
		}
		noWriter(t, c.worker(nil, nil), "the crashed reader counts")
	})
}

// Whole seconds are given in seconds, as the server saw it.
func TestRWKeysCountsSecondsWhereItCan(t *testing.T) {
	t.Parallel()
	b := newBench(t, testkit.Local(t))
	calls := func(command string) (n int) {
		stats := b.conn.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]
		_, _ = fmt.Sscanf(stats["cmdstat_"+command], "calls=%d,", &n)
		return n
	}

	for _, c := range []struct {
		ttl, unit, command string
		want               time.Duration
	}{
		{"20s", "ex", "expire", 20 * time.Second},
		{"19.99s", "px", "pexpire", 19990 * time.Millisecond},
	} {
		l, conn := b.workers(kind(t, "rw-keys"), param.Values{"ttl": c.ttl}).connected(nil, nil)

		var sent []any
		conn.AddHook(sees(func(cmd redis.Cmder) {
			sent = cmd.Args()
		}))
		takes := map[string]func(testing.TB, lock.Locker) *lock.Lease{":readers": read, ":writer": write}
		for how, take := range takes {
			before := calls(c.command)
			lease := take(t, l)
			if unit := sent[len(sent)-1]; unit != c.unit {
				t.Errorf("ttl=%s is sent in %v, want %s", c.ttl, unit, c.unit)
			}

			if n := calls(c.command) - before; how == ":readers" && n != 1 {
				t.Errorf("ttl=%s is set with %s %d times, want once", c.ttl, c.command, n)
			}

			ttl := b.conn.PTTL(t.Context(), b.keys.Lock(name)+how).Val()
			if ttl > c.want || ttl < c.want-5*time.Second {
				t.Errorf("ttl=%s: %s expires in %s", c.ttl, how, ttl)
			}
			release(t, lease)
		}
	}
}

func TestRWKeysExpire(t *testing.T) {
	onServer(t, func(t *testing.T, b *bench) {
		crashed := b.workers(kind(t, "rw-keys"), param.Values{"ttl": "50ms"})
		c := b.workers(kind(t, "rw-keys"), nil)
		read(t, crashed.worker(nil, nil))
		release(t, write(t, c.worker(nil, nil)))
		lost := write(t, crashed.worker(nil, nil))
		release(t, read(t, c.worker(nil, nil)))
		releaseFindsItLost(t, lost)
	})
}
