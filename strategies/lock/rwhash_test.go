package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

// at is a client's clock that stands still, so many ms after a common start.
func at(ms int64) func() time.Time {
	return func() time.Time { return time.UnixMilli(1_700_000_000_000 + ms) }
}

// Two readers, the clocks right, nobody crashed: when the second leaves, the first reads beside a writer.
func TestRWHashSecondReaderOverwritesTheFirst(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(1)))
		writer := c.worker(nil, at(2))
		noWriter(t, writer, "two readers have it")
		release(t, second)
		release(t, write(t, writer)) // the first still reads
		releaseFindsItLost(t, first)
	})
}

// The other order: the first leaves and is told that it lost what it held; the second is still protected.
func TestRWHashFirstReaderLeavesFirst(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(1)))
		releaseFindsItLost(t, first)
		noWriter(t, c.worker(nil, at(2)), "the second reader has it")
		release(t, second)
		c.leavesNothing()
	})
}

// Readers who come in the same millisecond cannot be told apart.
func TestRWHashReadersOfOneMillisecondFreeEachOther(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		first, second := read(t, c.worker(nil, at(0))), read(t, c.worker(nil, at(0)))
		release(t, first)
		release(t, write(t, c.worker(nil, at(1)))) // the second still reads
		releaseFindsItLost(t, second)
	})
}

func TestRWHashWrongClocks(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-hash"), param.Values{"timeout": atOnce})
		const hour = 3_600_000
		held := write(t, c.worker(nil, at(0)))
		stolen := write(t, c.worker(nil, at(hour))) // its clock is ahead: two writers
		releaseFindsItLost(t, held)
		noWriter(t, c.worker(nil, at(0)), "held by one whose clock is ahead")
		noWriter(t, c.worker(nil, at(hour-1)), "and not for the TTL: until the clock ahead is reached")
		release(t, stolen)

		early := write(t, c.worker(nil, at(-hour))) // its clock is behind: nobody else sees that it holds the lock
		release(t, write(t, c.worker(nil, at(0))))
		releaseFindsItLost(t, early)
	})
}

func TestRWHashReadersAndWritersTimeOutApart(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		c := b.crew(kind(t, "rw-hash"), param.Values{"timeout": atOnce, "read-ttl": "1s", "write-ttl": "2s"})
		read(t, c.worker(nil, at(0))) // and crashes
		noWriter(t, c.worker(nil, at(999)), "the reader counts for a second")
		write(t, c.worker(nil, at(1000))) // and crashes
		noReader(t, c.worker(nil, at(2999)), "the writer counts for two seconds")
		noWriter(t, c.worker(nil, at(2999)), "the writer counts for two seconds")
		release(t, read(t, c.worker(nil, at(3000))))
	})
}
