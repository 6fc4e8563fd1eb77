package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

// The first reader outlives the expiry and counts down the second: a writer enters while that one reads.
func TestRWKeysOneReaderFreesAnothers(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-keys"), param.Values{"timeout": atOnce})
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

// A crashed reader counts for as long as others come before the expiry: each of them puts it off.
func TestRWKeysCrashedReaderKeepsWritersOut(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-keys"), param.Values{"timeout": atOnce})
		read(t, c.worker(nil, nil)) // and crashes
		readers := c.keys.Lock(name) + ":readers"
		b.conn.PExpire(t.Context(), readers, time.Second)
		release(t, read(t, c.worker(nil, nil)))
		if left := b.conn.PTTL(t.Context(), readers).Val(); left <= 5*time.Second {
			t.Errorf("%s are left, want most of the TTL again", left)
		}
		noWriter(t, c.worker(nil, nil), "nobody reads, but the crashed reader counts")
	})
}

func TestRWKeysExpire(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		crashed := b.crew(kind(t, "rw-keys"), param.Values{"ttl": "50ms"})
		c := b.crew(kind(t, "rw-keys"), nil)
		read(t, crashed.worker(nil, nil))
		release(t, write(t, c.worker(nil, nil)))
		lost := write(t, crashed.worker(nil, nil))
		release(t, read(t, c.worker(nil, nil)))
		releaseFindsItLost(t, lost)
	})
}
