package session

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
)

// zooBuffer fits a list of thousands of waiters; the client library's default is
// 1.5 MB, twice for each worker.
const zooBuffer = 256 << 10

// zooClient is a worker's client of ZooKeeper. Its session, once expired, is followed by
// another: the library opens it.
type zooClient struct {
	*locker
	conn *zk.Conn
	only *onlyServer // nil: there are others

	mu      sync.Mutex
	term    *term
	timeout time.Duration // that the server chose
	logged  string        // the client library's last message
	last    net.Conn
	left    bool // the session is left to expire: no more connections
}

func joinZoo(l *locker, servers []string, patience time.Duration) (client, error) {
	// This term is over: the first greeting begins another.
	c := &zooClient{locker: l, term: newTerm(time.Time{}, 0)}
	if len(servers) == 1 {
		c.only = newOnlyServer(servers[0])
		l.silent = c.only.isSilent
	}

	conn, events, err := zk.Connect(servers, l.env.Params.Duration(zooTTL),
		zk.WithDialer(c.dial), zk.WithLogger(c), zk.WithLogInfo(true),
		zk.WithMaxConnBufferSize(zooBuffer), zk.WithMaxBufferSize(zooBuffer))
	if err != nil {
		return nil, err
	}

	// The library connects beside this, again and again: it ends only if it is closed. What it
	// calls of c, such as dial, may run before c.conn is set, and does not use it.
	c.conn = conn
	for late := time.After(patience); c.conn.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-late:
			_ = c.close()
			c.mu.Lock()
			defer c.mu.Unlock()
			return nil, fmt.Errorf("no session within %s: %s", patience, c.logged)
		}
	}
	return c, nil
}

const (
	silence         = 3 * time.Second // of the only server, before it is called silent
	greetingTimeout = 5 * time.Second // for the first reply on a connection
	closeTimeout    = 500 * time.Millisecond
	// How long the end of a session is waited for with a server that has been silent already.
	silentCloseTimeout = 20 * time.Millisecond
)

// An onlyServer is what a worker hears of the server at a lock's only address.
// Nobody can take over from it.
type onlyServer struct {
	mu       sync.Mutex
	patience time.Duration
	unheard  error           // why silent ends
	overdue  *time.Timer     // runs from the first request since its last answer; nil: there was none
	silent   context.Context // ends when that takes too long; another one begins with the next answer
	mute     context.CancelCauseFunc
}

func newOnlyServer(addr string) *onlyServer {
	unheard := fmt.Errorf("%w: the ZooKeeper at %s has said nothing for %s: is it stopped?",
		ErrUnreachable, addr, silence)
	o := &onlyServer{patience: silence, unheard: unheard}
	o.silent, o.mute = context.WithCancelCause(context.Background())
	return o
}

// asked notes that an answer is expected from now on.
func (o *onlyServer) asked() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.overdue == nil {
		mute := o.mute
		o.overdue = time.AfterFunc(o.patience, func() {
			mute(o.unheard)
		})
	}
}

// answered notes that the server is there.
func (o *onlyServer) answered() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.overdue != nil {
		o.overdue.Stop()
		o.overdue = nil
	}
	if o.silent.Err() != nil {
		o.silent, o.mute = context.WithCancelCause(context.Background())
	}
}

func (o *onlyServer) isSilent() context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.silent
}

// Printf implements zk.Logger, quietly.
func (c *zooClient) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logged = fmt.Sprintf(format, args...)
}

// greeting notes the first reply on a connection: the timeout of the session,
// and 0 if it has expired.
func (c *zooClient) greeting(sent time.Time, timeout time.Duration) {
	c.mu.Lock()
	c.timeout = timeout
	c.mu.Unlock()
	if timeout == 0 {
		c.current().finish(lock.ErrLost)
	} else {
		c.answered(sent)
	}
}

// answered notes when a request was sent that the server has answered. A term that is
// over is followed by a new one.
func (c *zooClient) answered(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.term.proven(sent, c.timeout) {
		c.term = newTerm(sent, c.timeout)
	}
}

func (c *zooClient) current() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.term
}

// leave implements client. To close the connection of the client library would
// end the session.
func (c *zooClient) leave() error {
	c.mu.Lock()
	c.left = true
	if c.last != nil {
		c.last.Close()
	}
	c.term.finish(context.Canceled)
	c.mu.Unlock()
	c.conn.Close() // which cannot ask for the session's end any more
	return nil
}

// close ends the session. The client library would wait for a server that does
// not answer until its time-outs.
func (c *zooClient) close() error {
	patience := closeTimeout
	if c.only != nil && c.only.isSilent().Err() != nil {
		patience = silentCloseTimeout
	}
	defer time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.last != nil {
			c.last.Close()
		}
	}).Stop()

	c.conn.Close()
	c.current().finish(context.Canceled)
	return nil
}

var errLeft = errors.New("the session is left to expire")

// dial is a zk.Dialer whose connections report to c.
func (c *zooClient) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.only.asked()
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		conn.Close()
		return nil, errLeft
	}
	c.last = conn
	return c.wrap(conn), nil
}

func (c *zooClient) wrap(conn net.Conn) *zooConn {
	return &zooConn{Conn: conn, client: c, received: bufio.NewReader(conn)}
}

// zooConn is a connection that tells its session when each request was sent that the
// server has answered. For that it reads the first bytes of each packet, because the
// client library reports neither this nor the timeout that the server chose. A
// watch's event proves nothing: the server sends it without having heard from the
// client. Requests of our own would be more load on the servers that are measured,
// and leave the timeout unknown.
type zooConn struct {
	net.Conn
	client   *zooClient
	received *bufio.Reader
	rest     int  // bytes of the packet that is being read
	answered bool // the first packet was read, the greeting

	sent      unanswered
	requested bool        // the first packet was written, the request for a session
	asked     atomic.Bool // the last packet but heartbeats was a request
}

const (
	// A packet begins with its length. The version and the timeout follow in a greeting,
	// else the request's number.
	zooHead      = 12
	zooEvent     = -1 // the number of what is no reply
	zooHeartbeat = -2 // the number of a request that only keeps the session
)

// Write implements net.Conn. The client library writes each request at once.
func (c *zooConn) Write(b []byte) (int, error) {
	c.sent.send()
	c.client.only.asked()
	if c.requested && len(b) >= 8 {
		request := int32(binary.BigEndian.Uint32(b[4:]))
		c.count(request, lock.Exchange{Commands: 1, BytesSent: int64(len(b))})
	}
	c.requested = true
	return c.Conn.Write(b)
}

// SetReadDeadline bounds the wait for the first reply: ZooKeeper 3.8.0 is
// silent while it loads its data.
func (c *zooConn) SetReadDeadline(t time.Time) error {
	if latest := time.Now().Add(greetingTimeout); !c.answered && t.After(latest) {
		t = latest
	}
	return c.Conn.SetReadDeadline(t)
}

// Read implements net.Conn. One goroutine reads.
func (c *zooConn) Read(b []byte) (int, error) {
	if c.rest == 0 {
		head, err := c.received.Peek(zooHead)
		if err != nil {
			return 0, err
		}
		c.rest = max(zooHead, int(binary.BigEndian.Uint32(head))+4)
		c.packet(int32(binary.BigEndian.Uint32(head[4:])), binary.BigEndian.Uint32(head[8:]))
	}
	n, err := c.received.Read(b[:min(len(b), c.rest)])
	c.rest -= n
	return n, err
}

// packet notes a packet whose head was read, before the client library sees it. number is
// that of a reply's request, or zooEvent. In a greeting, which has none, the timeout of the
// session is given in ms; in other packets that word is something else.
func (c *zooConn) packet(number int32, timeout uint32) {
	if c.answered {
		c.count(number, lock.Exchange{BytesReceived: int64(c.rest)})
		if number == zooEvent {
			return
		}
	}

	sent, more, ok := c.sent.answer()
	switch {
	case !ok: // a reply without a request
	case c.answered:
		c.client.answered(sent)
	default:
		c.client.greeting(sent, time.Duration(timeout)*time.Millisecond)
	}

	c.client.only.answered()
	if more {
		c.client.only.asked()
	}
	c.answered = true
}

// count counts a request or, without commands, a reply or event. Requests sent
// together are one round trip. Write and Read call it, each in a goroutine of its own.
func (c *zooConn) count(number int32, sent lock.Exchange) {
	into := c.client.env.Traffic.Servers
	switch {
	case number == zooHeartbeat:
		into = c.client.env.Traffic.Background
		sent.RoundTrips = sent.Commands
	case sent.Commands == 0:
		c.asked.Store(false)
	case !c.asked.Swap(true):
		sent.RoundTrips = 1
	}
	if into != nil {
		into(sent)
	}
}
