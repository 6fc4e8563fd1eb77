// Package redisconn makes every connection of marketsim to Redis, and counts what it
// carries.
//
// [ParseURL] reads a URL into a [Target] that never shows its password. [Explain] says
// what to do about a refusal.
//
// # Why Dial is the only way to connect
//
// Every go-redis client of marketsim comes from [Dial], because go-redis's defaults would
// falsify a benchmark of locks:
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
// strategy, so that none can forget to. [Connect] and [Conn.Connect] make connections
// for clients of other modules, whose rules are their own. On Redis Cluster a
// connection goes to its slot's master: see [Cluster.Dialer]. go-redis's
// ClusterClient would send commands again, too.
//
// The exception: under [Pipelining], Dial connects for all workers of a process.
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

	"github.com/marketsim/marketsim/internal/alarm"
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
	dialer *dialer
}

// Shared reports whether it was dialled under [Pipelining].
func (c *Conn) Shared() bool { return c.meter.shared }

// Cluster is the Redis Cluster to whose slot it belongs; nil: none.
func (c *Conn) Cluster() *Cluster { return c.dialer.cluster }

// Dial connects to t, logs in and PINGs, all within 4 seconds. Its errors say what to do
// next and wrap [ErrUnreachable], [ErrAuth] or [ErrTLS] where one applies, or the
// context's error where the caller ended it.
//
// Should the connection break later, the command that noticed fails and the next one
// connects anew. While that fails, commands fail at once with the last dial error;
// go-redis tries again in the background every second.
func Dial(ctx context.Context, t Target) (*Conn, error) { return dial(ctx, &dialer{target: t}) }

// Client is the client of a connection that was just made, or the error that
// making it returned.
func Client(c *Conn, err error) (*redis.Client, error) {
	if err != nil {
		return nil, err
	}
	return c.Client, nil
}

// With calls do with a connection to t, which ends with it. The errors are
// those of [Dial] and of do.
func With(ctx context.Context, t Target, do func(*Conn) error) error {
	conn, err := Dial(ctx, t)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close())
}

// DialOver is Dial over connections that connect makes, such as those to a
// server in memory.
func DialOver(ctx context.Context, connect func(context.Context) (net.Conn, error)) (*Conn, error) {
	return dial(ctx, &dialer{over: connect, target: Target{Network: "memory", Addr: "memory"}})
}

func dial(ctx context.Context, d *dialer) (*Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	d.meter = newMeter(ctx)
	d.delay, _ = ctx.Value(contextKey("delay")).(time.Duration)
	d.reply, _ = ctx.Value(contextKey("reply")).(time.Duration)
	d.retries, _ = ctx.Value(contextKey("again")).(int)
	first, err := d.reach(bounded)
	t := d.tried()
	if err != nil {
		return nil, explainDial(ctx, t, err)
	}
	// go-redis does not watch for cancellation while it waits for a reply.
	release := context.AfterFunc(bounded, func() { first.Close() })

	d.first.Store(&first)
	client := redis.NewClient(d.options(t))
	if d.meter.shared {
		_, err = client.Pipelined(bounded, func(p redis.Pipeliner) error { return p.Ping(bounded).Err() })
	} else {
		client.AddHook(counter{d.meter})
		err = client.Ping(bounded).Err()
	}
	if !release() { // the time is up, and what err says follows from the closed connection
		err = bounded.Err()
	}
	if err != nil {
		client.Close()
		first.Close()
		return nil, explainDial(ctx, t, err)
	}
	d.meter.started.Store(true)
	d.meter.live.Store(true)
	return &Conn{Client: client, Stats: d.meter.Stats, meter: d.meter, dialer: d}, nil
}

// Connect makes a connection to t for the client of another module: whatever that
// does over it, it has logged in.
func Connect(ctx context.Context, t Target) (net.Conn, error) { return logIn(ctx, &dialer{target: t}) }

// Connect makes one more connection to c's server, as the function [Connect]
// does. It counts where c counts, with the commands by which a client introduces
// itself, and is as late as c.
func (c *Conn) Connect(ctx context.Context) (net.Conn, error) {
	is := c.dialer
	ctx = Delaying(CountInto(ctx, c.Stats), is.delay)
	return logIn(ctx, &dialer{cluster: is.cluster, slot: is.slot, over: is.over, target: is.tried()})
}

// logIn makes one connection that outlives the client which logs in over it.
// From then on it counts.
func logIn(ctx context.Context, d *dialer) (net.Conn, error) {
	d.handsOver = true
	client, err := dial(ctx, d)
	if err != nil {
		return nil, err
	}
	return d.handedOver, errors.Join(client.Close(), d.handedOver.SetDeadline(time.Time{}))
}

// lasting is a connection that its client does not close.
type lasting struct{ net.Conn }

func (lasting) Close() error { return nil }

// QuietLogs stops go-redis from writing each failed reconnection to stderr: the command's
// error says the same. The switch is go-redis's own and process-wide, so only a main
// function or a test may call this.
func QuietLogs() { logging.Disable() }

// dialer makes the connections of one Conn: the first by Dial itself, whose
// errors are then plain and which leaves no background dialling behind; later
// ones on go-redis's demand.
type dialer struct {
	cluster *Cluster // whose slot's master it connects to; nil: to target
	slot    int
	// Connects in place of the network; nil: nothing does.
	over func(context.Context) (net.Conn, error)

	meter   *meter
	delay   time.Duration // of what is received
	reply   time.Duration // for how long a reply is waited for; 0: ioTimeout
	retries int           // how often a command is sent again whose reply did not come

	first      atomic.Pointer[net.Conn]
	handsOver  bool     // the first connection outlives the client
	handedOver net.Conn // that connection

	mu     sync.Mutex
	target Target // of the last connection
}

// options is what the package comment explains.
func (d *dialer) options(t Target) *redis.Options {
	o := &redis.Options{
		Network: t.Network, Addr: t.Addr, Username: t.Username, Password: t.Password, DB: t.DB,
		Dialer: d.dial,
		OnConnect: func(context.Context, *redis.Conn) error {
			d.meter.live.Store(d.meter.started.Load())
			return nil
		},
		MaxRetries: cmp.Or(d.retries, -1), DialerRetries: 1, PoolSize: 1, PipelinePoolSize: -1,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
		DialTimeout: dialTimeout, ReadTimeout: cmp.Or(d.reply, ioTimeout), WriteTimeout: ioTimeout,
		ContextTimeoutEnabled: true, ConnMaxIdleTime: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if d.meter.shared {
		o.PipelinePoolSize = 1
	}
	if d.handsOver { // the other module's client may not say which version of the protocol it speaks
		o.Protocol = 2
	}
	return o
}

// dial is go-redis's Dialer. A handshake follows, which is not counted.
func (d *dialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	d.meter.live.Store(false)
	if first := d.first.Swap(nil); first != nil {
		if d.handsOver {
			d.handedOver = *first
			return lasting{*first}, nil
		}
		return *first, nil
	}
	return d.reach(ctx)
}

func (d *dialer) connect(ctx context.Context, t Target) (net.Conn, error) {
	connect := d.over
	if connect == nil {
		connect = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, t.Network, t.Addr)
		}
	}
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
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
	return count(delayed(conn, d.delay, alarm.New), d.meter), nil
}

type contextKey string

// WaitingForReplies returns a context under which [Dial] makes connections that wait
// for a reply until the limit.
func WaitingForReplies(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, contextKey("reply"), limit)
}

// SendingAgain returns a context under which [Dial] makes clients that send a command
// again, three times at most, when its reply did not come: go-redis's default, and the
// first of the rules that the package comment explains.
func SendingAgain(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey("again"), 3)
}

// Inherit returns ctx with what another context tells Dial of replies and
// commands that are sent again, for connections that are made in the background
// of what was opened under that one.
func Inherit(ctx, from context.Context) context.Context {
	for _, key := range []contextKey{"reply", "again"} {
		if value := from.Value(key); value != nil {
			ctx = context.WithValue(ctx, key, value)
		}
	}
	return ctx
}

// Pipelining returns a context under which [Dial] makes a client that all
// workers of a process share: see the package comment. Such a client counts for
// itself whatever [CountInto] says.
func Pipelining(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey("pipelining"), true)
}

// FullDuplex returns the AutoPipeline of a client that was dialled under
// [Pipelining], which many goroutines may use at once. A command is handed over by
// Submit; the error of its WaitContext is the context's where that ended first, and
// the command may be sent and executed all the same. Close it before the client: it
// waits for what was handed over.
func FullDuplex(rdb *redis.Client) (*redis.AutoPipeliner, error) {
	pipeline, err := rdb.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, err
	}
	if !pipeline.Config().FullDuplex {
		off := errors.New("go-redis has turned full duplex off: the client needs a pool for pipelines, and the " +
			"first to ask for its AutoPipeline chooses the options")
		return nil, errors.Join(off, pipeline.Close())
	}
	return pipeline, nil
}
