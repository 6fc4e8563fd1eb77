package redisconn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/wire"
)

// Counts is what a connection has carried. A round trip is a wait for the network: a
// write that follows a read, so a pipeline is one however many commands it holds. Bytes
// are those of the Redis protocol, before TLS.
type Counts struct {
	RoundTrips, Commands, BytesSent, BytesReceived int64
}

// Sub returns what was counted between the earlier counts b and c.
func (c Counts) Sub(b Counts) Counts { return c.plus(b, -1) }

// Add returns the sum of c and b.
func (c Counts) Add(b Counts) Counts { return c.plus(b, 1) }

func (c Counts) plus(b Counts, times int64) Counts {
	c.RoundTrips += times * b.RoundTrips
	c.Commands += times * b.Commands
	c.BytesSent += times * b.BytesSent
	c.BytesReceived += times * b.BytesReceived
	return c
}

// Stats counts what connections carry, without allocating. What a [Conn] carries until
// Dial returns is left out, and so are later handshakes (HELLO, AUTH, SELECT). MULTI and
// EXEC count as commands, and so does each command between them; a command counts once it
// has ended. The zero value is ready, and several connections may count into one.
type Stats struct {
	mu     sync.Mutex
	counts Counts
}

// Snapshot returns the counts up to now. It is safe for concurrent use.
func (s *Stats) Snapshot() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// Count adds what was carried. If s is nil, nobody wants to know.
func (s *Stats) Count(c Counts) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts = s.counts.Add(c)
	}
}

// meter is where one Conn counts.
type meter struct {
	*Stats
	shared  bool         // by workers, none of whom it counts for; its commands are not counted
	started atomic.Bool  // Dial is over
	live    atomic.Bool  // false during a handshake
	wrote   atomic.Bool  // whether the last transfer was a write
	calls   atomic.Int32 // commands under way that counter sees
	writes  atomic.Int64 // how many, without those of handshakes
}

// unsent is the error of a command of which not a byte has left.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// counter is the redis.Hook that counts commands, and tells of an error whether anything
// had left by then. A subscription's commands do not pass it, see countingConn.
type counter struct{ meter *meter }

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return c.meter.countCommands(1, func() error {
			return next(ctx, cmd)
		})
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return c.meter.countCommands(len(cmds), func() error {
			return next(ctx, cmds)
		})
	}
}

// countCommands counts the commands that one call sends, and returns its error, as
// [unsent] if nothing had left.
func (m *meter) countCommands(commands int, call func() error) error {
	m.calls.Add(1)
	defer m.calls.Add(-1)
	before := m.writes.Load()
	err := call()
	if m.live.Load() {
		m.Count(Counts{Commands: int64(commands)})
	}
	if err != nil && m.writes.Load() == before {
		return unsent{err}
	}
	return err
}

// countingConn counts bytes, round trips, and commands that counter does not see: a
// subscription's, another module's. It refuses replies that would take memory without
// end, see [wire.ReplyLimit].
type countingConn struct {
	net.Conn
	meter *meter
	part  string          // of a command that was written in part
	limit wire.ReplyLimit // of what is read
}

// Write counts a round trip if it is the first since something was read.
func (c *countingConn) Write(p []byte) (int, error) {
	// Noted before the write: the reply may be read before Write returns.
	firstSinceRead := !c.meter.wrote.Swap(true)
	n, err := c.Conn.Write(p)

	if c.meter.live.Load() {
		c.meter.writes.Add(1) // also if it failed: a part may have left
		sent := Counts{BytesSent: int64(n)}
		if firstSinceRead {
			sent.RoundTrips = 1
		}
		if !c.meter.shared && c.meter.calls.Load() == 0 { // counter does not see these commands
			var commands [][]string
			commands, c.part = wire.Commands(c.part + string(p))
			sent.Commands = int64(len(commands))
		}
		c.meter.Count(sent)
	}

	return n, err
}

func (c *countingConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.meter.wrote.Store(false) // in a handshake, too: a new round trip comes after it
			if c.meter.live.Load() {
				c.meter.Count(Counts{BytesReceived: int64(n)})
			}
		}

		passed, refused := c.limit.Pass(p[:n])
		if refused != nil {
			c.Conn.Close() // go-redis would go on
			return 0, refused
		}
		// All of it may be of an error that is cut: a reader that gets nothing again and
		// again gives up.
		if len(passed) > 0 || n == 0 || err != nil {
			return len(passed), err
		}
	}
}

// countingSyscallConn is a countingConn that still shows its socket, at which go-redis
// peeks before it uses an idle connection: one that the server closed meanwhile is
// replaced before a command is written to it.
type countingSyscallConn struct {
	*countingConn
	syscall.Conn
}

// count wraps conn so that the meter sees what passes.
func count(conn net.Conn, m *meter) net.Conn {
	counting := &countingConn{Conn: conn, meter: m}
	if raw, ok := conn.(syscall.Conn); ok {
		return countingSyscallConn{counting, raw}
	}
	return counting
}
