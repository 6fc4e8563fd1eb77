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

// Add returns the sum of c and b.
func (c Counts) Add(b Counts) Counts {
	return Counts{
		RoundTrips:    c.RoundTrips + b.RoundTrips,
		Commands:      c.Commands + b.Commands,
		BytesSent:     c.BytesSent + b.BytesSent,
		BytesReceived: c.BytesReceived + b.BytesReceived,
	}
}

// Stats counts what connections carry, for all strategies in the same way and without allocating. What a [Conn] carries
// until Dial returns is left out, and so are later handshakes (HELLO, AUTH, SELECT). MULTI and EXEC count as commands,
// and so does each command between them; a command counts once it has ended. The zero value is ready, and several
// connections may count into one.
type Stats struct {
	roundTrips, commands, sent, received atomic.Int64
}

// statsKey is the key of CountInto's value.
type statsKey struct{}

// CountInto returns a context under which [Dial] makes connections that count into s, and not each into its own.
func CountInto(ctx context.Context, s *Stats) context.Context {
	return context.WithValue(ctx, statsKey{}, s)
}

func statsOf(ctx context.Context) *Stats {
	if s, ok := ctx.Value(statsKey{}).(*Stats); ok && s != nil {
		return s
	}
	return &Stats{}
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

// Count adds what was carried by a connection that is no [Conn]. If s is nil, nobody wants to know.
func (s *Stats) Count(c Counts) {
	if s == nil {
		return
	}
	s.roundTrips.Add(c.RoundTrips)
	s.commands.Add(c.Commands)
	s.sent.Add(c.BytesSent)
	s.received.Add(c.BytesReceived)
}

// meter is where one Conn counts.
type meter struct {
	*Stats
	shared  bool         // by workers, none of whom it counts for; its commands are not counted
	started atomic.Bool  // Dial is over
	live    atomic.Bool  // false during a handshake
	wrote   atomic.Bool  // whether the last transfer was a write
	calls   atomic.Int32 // commands under way that counter sees
}

// newMeter counts where the context of Dial says.
func newMeter(ctx context.Context) *meter {
	if pipelining(ctx) {
		return &meter{Stats: &Stats{}, shared: true}
	}
	return &meter{Stats: statsOf(ctx)}
}

func (m *meter) start() {
	m.started.Store(true)
	m.live.Store(true)
}

func (m *meter) addCommands(n int) {
	if m.live.Load() {
		m.commands.Add(int64(n))
	}
}

// counter is the redis.Hook that counts commands. countingConn cannot: it would have to parse the bytes.
// A subscription's commands do not pass it, see countingConn.
type counter struct{ meter *meter }

func (c counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.meter.calls.Add(1)
		err := next(ctx, cmd)
		c.meter.calls.Add(-1)
		c.meter.addCommands(1)
		return err
	}
}

func (c counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.meter.calls.Add(1)
		err := next(ctx, cmds)
		c.meter.calls.Add(-1)
		c.meter.addCommands(len(cmds))
		return err
	}
}

// countingConn counts bytes and round trips, and what is written outside a command: a subscription writes each of its
// own at once.
type countingConn struct {
	net.Conn
	meter  *meter
	closed func(*countingConn)
}

// Close implements net.Conn.
func (c *countingConn) Close() error {
	c.closed(c)
	return c.Conn.Close()
}

func (c *countingConn) Write(p []byte) (int, error) {
	turned := !c.meter.wrote.Swap(true)
	n, err := c.Conn.Write(p)
	if c.meter.live.Load() {
		if turned {
			c.meter.roundTrips.Add(1)
		}
		if !c.meter.shared && c.meter.calls.Load() == 0 {
			c.meter.commands.Add(1)
		}
		c.meter.sent.Add(int64(n))
	}
	return n, err
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.meter.wrote.Store(false)
		if c.meter.live.Load() {
			c.meter.received.Add(int64(n))
		}
	}
	return n, err
}

// countingSyscallConn is a countingConn that still shows its socket. go-redis peeks at the socket before it uses
// an idle connection: one that the server closed meanwhile is replaced before a command is written to it, and
// not found dead after, when nobody knows whether the command ran. Over TLS go-redis cannot peek either way.
type countingSyscallConn struct {
	*countingConn
	syscall.Conn
}

// count wraps conn so that the dialer's meter sees what passes, and the dialer that it is closed.
func count(conn net.Conn, d *dialer) net.Conn {
	counting := &countingConn{Conn: conn, meter: d.meter, closed: d.closed}
	d.opened(counting)
	if raw, ok := conn.(syscall.Conn); ok {
		return countingSyscallConn{counting, raw}
	}
	return counting
}
