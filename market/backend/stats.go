package backend

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Counts is what a connection has carried. A round trip is a wait for the network: a write that follows a read,
// so a pipeline is one however many commands it holds. Bytes are those of the Redis protocol, before TLS.
type Counts struct {
	RoundTrips, Commands, BytesSent, BytesReceived int64
}

// Sub returns what was counted between the earlier counts b and c.
func (c Counts) Sub(b Counts) Counts {
	return Counts{
		RoundTrips:    c.RoundTrips - b.RoundTrips,
		Commands:      c.Commands - b.Commands,
		BytesSent:     c.BytesSent - b.BytesSent,
		BytesReceived: c.BytesReceived - b.BytesReceived,
	}
}

// Stats counts what a [Conn] carries, for every strategy alike and without allocating. Handshakes (HELLO, AUTH,
// SELECT), the first as well as one after a lost connection, are left out. MULTI and EXEC count as commands, and
// so does each command between them; a command counts once it has ended.
type Stats struct {
	roundTrips, commands, sent, received atomic.Int64

	live atomic.Bool // false during a handshake
}

// Snapshot returns the counts up to now. It is safe for concurrent use.
func (s *Stats) Snapshot() Counts {
	return Counts{
		RoundTrips:    s.roundTrips.Load(),
		Commands:      s.commands.Load(),
		BytesSent:     s.sent.Load(),
		BytesReceived: s.received.Load(),
	}
}

func (s *Stats) reset() {
	s.roundTrips.Store(0)
	s.commands.Store(0)
	s.sent.Store(0)
	s.received.Store(0)
}

func (s *Stats) addCommands(n int) {
	if s.live.Load() {
		s.commands.Add(int64(n))
	}
}

// counter is the redis.Hook that counts commands. The bytes cannot tell it: it would have to parse them.
type counter struct{ stats *Stats }

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		c.stats.addCommands(1)
		return err
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		c.stats.addCommands(len(cmds))
		return err
	}
}

// countingConn counts bytes and round trips.
type countingConn struct {
	net.Conn
	stats *Stats
	wrote atomic.Bool // whether the last transfer was a write
}

func (c *countingConn) Write(p []byte) (int, error) {
	turned := !c.wrote.Swap(true)
	n, err := c.Conn.Write(p)
	if c.stats.live.Load() {
		if turned {
			c.stats.roundTrips.Add(1)
		}
		c.stats.sent.Add(int64(n))
	}
	return n, err
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.wrote.Store(false)
		if c.stats.live.Load() {
			c.stats.received.Add(int64(n))
		}
	}
	return n, err
}

// countingSyscallConn is a countingConn that still shows its socket. go-redis peeks at the socket before it uses
// an idle connection: one that the server closed meanwhile is replaced before a command is written to it, and
// not found dead after, when nobody can tell whether the command ran. Over TLS go-redis cannot peek either way.
type countingSyscallConn struct {
	*countingConn
	syscall.Conn
}

// count wraps conn so that stats sees what passes.
func count(conn net.Conn, stats *Stats) net.Conn {
	counting := &countingConn{Conn: conn, stats: stats}
	if raw, ok := conn.(syscall.Conn); ok {
		return countingSyscallConn{counting, raw}
	}
	return counting
}
