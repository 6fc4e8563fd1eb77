// Package redisconn makes every connection of marketsim to Redis, and counts what it
// carries.
//
// [ParseURL] reads a URL into a [Target] that never shows its password. A [Dialer] connects
// to it; it is a value, and what its methods With... return is a copy. [Explain] says what
// to do about a refusal.
//
// # Why a Dialer is the only way to connect
//
// Every go-redis client of marketsim comes from [Dialer.Dial], because go-redis's defaults
// would falsify a benchmark of locks:
//
//   - MaxRetries -1: by default go-redis sends a command again after its reply was lost.
//     A purchase is then made twice and reported once. Here every command runs at most
//     once, and a lost reply is an error of unknown outcome.
//   - DialerRetries 1: by default a failed connection is tried 5 times, and a stopped
//     server looks like a slow one.
//   - PoolSize 1 and PipelinePoolSize -1: one worker is one connection, as one process is
//     in the book. By default pipelines use a second pool, and so does, outside the
//     transaction, a client used inside its own Watch.
//   - ContextTimeoutEnabled: by default a context's deadline does not end a command that
//     waits for its reply. Even with it, a cancellation does not, which is why blocking
//     commands wait in slices.
//   - No idle time-out, no lifetime, no idle connections kept ready: connections come and
//     go only when something happened. One that the server closed while it was idle is
//     still noticed before a command is written to it.
//   - Buffers of 8 KiB: by default each connection has two of 32 KiB, 64 MB for 1,000
//     workers. What is measured fits.
//   - Replies within limits, see [wire.ReplyLimit]: by default a line that does not end
//     takes all memory, and so does an announcement of a billion elements.
//   - No CLIENT SETINFO and no maintenance notifications: a handshake is HELLO
//     and nothing else.
//
// The connection's [Stats] count commands, round trips and bytes below every
// strategy, so that none can forget to. [Dialer.Connect] and [Conn.Connect] make
// connections for clients of other modules, whose rules are their own. On Redis Cluster a
// connection goes to its slot's master: see [Cluster.Dialer]. go-redis's
// ClusterClient would send commands again, too.
//
// The exception: [Dialer.WithPipelining] connects for all workers of a process.
// They send by the client's AutoPipeline, whose pool has one connection: without
// one, go-redis quietly turns FullDuplex off. What was handed over is sent even if
// nobody waits for it any more, and when the connection breaks, the outcome of all
// that was on its way is unknown. Bytes and round trips are counted, but not
// commands: that takes a goroutine each.
package redisconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	connectTimeout = 4 * time.Second // for all of Dial: TCP, TLS, log-in and PING
	dialTimeout    = 3 * time.Second // for TCP alone
	ioTimeout      = 5 * time.Second // for one read or write, unless the context ends sooner

	bufferSize = 8 << 10 // bytes, each way; the listings that a buyer looks at in one go are 3 KB
)

// Conn is one connection to Redis: a go-redis client that holds at most one connection,
// never sends a command twice and counts what it carries. Each worker, subscription or
// lock's renewal has its own, and closes it.
type Conn struct {
	*redis.Client
	Stats *Stats

	meter  *meter
	dialer *connector
}

// Shared reports whether it was dialled with [Dialer.WithPipelining].
func (c *Conn) Shared() bool { return c.meter.shared }

// Cluster is the Redis Cluster to whose slot it belongs; nil: none.
func (c *Conn) Cluster() *Cluster { return c.dialer.cluster }

// Dial connects, logs in and PINGs, all within 4 seconds. Its errors say what to do next
// and wrap [ErrUnreachable], [ErrAuth] or [ErrTLS] where one applies, or the context's
// error where the caller ended it.
//
// Should the connection break later, the command that noticed fails and the next one
// connects anew. While that fails, commands fail at once with the last dial error;
// go-redis tries again in the background every second.
func (d Dialer) Dial(ctx context.Context) (*Conn, error) {
	plain := func(ctx context.Context) (*Conn, error) {
		return dial(ctx, d.connector())
	}
	if d.wrap != nil {
		return d.wrap(ctx, plain)
	}
	return plain(ctx)
}

// Client is Dial, for those who need nothing of a [Conn] but its client.
func (d Dialer) Client(ctx context.Context) (*redis.Client, error) {
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Client, nil
}

// Connect makes a connection for the client of another module: whatever that does over it,
// it has logged in.
func (d Dialer) Connect(ctx context.Context) (net.Conn, error) { return logIn(ctx, d.connector()) }

// Connect makes one more connection to c's server, as [Dialer.Connect] does. It counts
// where c counts, with the commands by which a client introduces itself, and is as late
// as c.
func (c *Conn) Connect(ctx context.Context) (net.Conn, error) {
	beside := c.dialer.Dialer
	beside.target = c.dialer.lastTarget()
	beside.replyTimeout = 0
	beside.resends = 0
	beside.pipelining = false
	return beside.WithStats(c.Stats).Connect(ctx)
}

// With calls do with a connection to t, which ends with it. The errors are
// those of [Dialer.Dial] and of do.
func With(ctx context.Context, t Target, do func(*Conn) error) error {
	conn, err := To(t).Dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close())
}

// dial makes the first connection itself, and hands it to a go-redis client by c.first, over
// which that logs in and PINGs. Nothing counts until it returns.
func dial(ctx context.Context, c *connector) (*Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	first, err := c.reach(bounded)
	t := c.lastTarget() // after reach, which on a cluster finds the master

	if err != nil {
		return nil, explainDial(ctx, t, err)
	}
	// go-redis does not watch for cancellation while it waits for a reply.
	release := context.AfterFunc(bounded, func() { first.Close() })

	c.first.Store(&first)
	client := redis.NewClient(c.options(t))
	if c.following { // added before the counter, which then sees what the follower sends again
		client.AddHook(&follower{connector: c})
	}
	if c.meter.shared {
		_, err = client.Pipelined(bounded, func(p redis.Pipeliner) error {
			return p.Ping(bounded).Err()
		})
	} else {
		client.AddHook(counter{c.meter})
		err = client.Ping(bounded).Err()
	}
	if !release() { // the time is up, and what err says follows from the closed connection
		err = bounded.Err()
	}
	if err != nil {
		client.Close()
		first.Close() // which the client may not have taken yet, or cannot close
		return nil, explainDial(ctx, t, err)
	}

	c.meter.started.Store(true)
	c.meter.live.Store(true)
	return &Conn{Client: client, Stats: c.meter.Stats, meter: c.meter, dialer: c}, nil
}

// logIn makes one connection that outlives the client which logs in over it.
// From then on it counts.
func logIn(ctx context.Context, c *connector) (net.Conn, error) {
	c.handsOver = true
	client, err := dial(ctx, c)
	if err != nil {
		return nil, err
	}
	return c.handedOver, errors.Join(client.Close(), c.handedOver.SetDeadline(time.Time{}))
}

// unclosable is a connection that its client does not close.
type unclosable struct{ net.Conn }

func (unclosable) Close() error { return nil }

// QuietLogs stops go-redis from writing each failed reconnection to stderr: the command's
// error says the same. The switch is go-redis's own and process-wide, so only a main
// function or a test may call this.
func QuietLogs() { logging.Disable() }

// connector makes the connections of one Conn: the first by Dial itself, whose errors are
// then plain and which leaves no background dialling behind; later ones on go-redis's
// demand. All follow the Dialer that it was made of, which does not change.
type connector struct {
	Dialer
	meter *meter

	first      atomic.Pointer[net.Conn]
	handsOver  bool     // the first connection outlives the client
	handedOver net.Conn // that connection

	open openConns // if it follows

	mu   sync.Mutex
	last Target // of the last connection; of a cluster the slot's master at that time
}

// options is what the package comment explains.
func (c *connector) options(t Target) *redis.Options {
	o := &redis.Options{
		Network: t.Network, Addr: t.Addr, Username: t.Username, Password: t.Password, DB: t.DB,
		Dialer: c.dial,
		// After each handshake: from then on it counts, unless dial has not returned yet.
		OnConnect: func(context.Context, *redis.Conn) error {
			c.meter.live.Store(c.meter.started.Load())
			return nil
		},
		MaxRetries: cmp.Or(c.resends, -1), DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		DialTimeout: dialTimeout, ReadTimeout: cmp.Or(c.replyTimeout, ioTimeout), WriteTimeout: ioTimeout,
		ContextTimeoutEnabled: true, ConnMaxIdleTime: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}

	if c.meter.shared {
		o.PipelinePoolSize = 1
	}
	if c.handsOver { // the other module's client may not say which version of the protocol it speaks
		o.Protocol = 2
	}

	return o
}

// dial is go-redis's Dialer. A handshake follows, which is not counted.
func (c *connector) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c.meter.live.Store(false)
	if first := c.first.Swap(nil); first != nil {
		if c.handsOver {
			c.handedOver = *first
			return unclosable{*first}, nil
		}
		return *first, nil
	}
	return c.reach(ctx)
}

func (c *connector) connect(ctx context.Context, t Target) (net.Conn, error) {
	connect := c.over
	if connect == nil {
		connect = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, t.Network, t.Addr)
		}
	}

	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}

	// Counters and delays come above TLS: they see what the client says and hears, and no
	// handshake.
	if t.TLS != nil {
		config := t.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(t.Addr)
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, handshakeError{err}
		}
		conn = secure
	}

	return count(delayed(conn, c.delay, NewAlarm), c.meter), nil
}

// reach connects to the server, or to the slot's master. If that fails, the nodes say
// whether another took its place.
func (c *connector) reach(ctx context.Context) (net.Conn, error) {
	conn, err := c.reachMaster(ctx)
	if err == nil && c.following {
		c.open.add(conn)
	}
	return conn, err
}

func (c *connector) reachMaster(ctx context.Context) (net.Conn, error) {
	if c.cluster == nil {
		return c.connect(ctx, c.lastTarget())
	}
	conn, err := c.connect(ctx, c.findMaster())
	if err == nil || c.cluster.Refresh(ctx) != nil ||
		c.cluster.master(c.slot).Addr == c.lastTarget().Addr {

		return conn, err
	}
	return c.connect(ctx, c.findMaster())
}

// findMaster makes the slot's master, as far as is known, the last target.
func (c *connector) findMaster() Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.cluster.master(c.slot)
	return c.last
}

// lastTarget is the server to which the last connection was made.
func (c *connector) lastTarget() Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// FullDuplex returns the AutoPipeline of a client that was dialled with
// [Dialer.WithPipelining], which many goroutines may use at once. A command is handed over by
// Submit; the error of its WaitContext is the context's where that ended first, and
// the command may be sent and executed all the same. Close it before the client: it
// waits for what was handed over.
func FullDuplex(rdb *redis.Client) (*redis.AutoPipeliner, error) {
	pipeline, err := rdb.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, err
	}
	if !pipeline.Config().FullDuplex {
		off := errors.New("go-redis has turned full duplex off: " +
			"the client needs a pool for pipelines, and the " +
			"first to ask for its AutoPipeline chooses the options")
		return nil, errors.Join(off, pipeline.Close())
	}
	return pipeline, nil
}
