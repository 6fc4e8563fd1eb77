package zklock

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
)

const (
	connectTimeout = 20 * time.Second // a busy machine is slow, and private servers have just started
	bufferSize     = 256 << 10        // fits a list of thousands of waiters; the default is 1.5 MB, twice for each worker
	unlimited      = 0                // for a list of all locks
)

// session is a ZooKeeper session and how long it is known to last. The client library opens another one by itself when
// it has expired.
type session struct {
	conn  *zk.Conn
	ready chan struct{} // closed when there is a session for the first time
	// traffic counts requests and replies; of the heartbeats, in the background.
	traffic lock.Traffic

	mu       sync.Mutex
	validity *validity
	timeout  time.Duration // on which client and server agreed
	proof    time.Time     // the last moment at which the server is known to have had the session
	greeting greeting
	attached bool // there is a connection with the session
	closed   bool
	watch    *time.Timer // calls expire
	logged   string      // the client library's last message
	opened   sync.Once
}

// greeting is a server's reply to the request for a session, which may say that the session has expired.
type greeting struct {
	sent    time.Time // when the request was sent
	timeout time.Duration
}

// validity is a span in which a session is known to last. Its context is that of all leases taken in the span.
type validity struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newValidity() *validity {
	v := &validity{}
	v.ctx, v.end = context.WithCancelCause(context.Background())
	return v
}

// connect opens a session and waits for it as long as patience allows. Longer replies than maxReply bytes are errors.
func connect(
	servers []string, timeout, patience time.Duration, maxReply int, traffic lock.Traffic,
) (*session, error) {
	s := &session{ready: make(chan struct{}), validity: newValidity(), traffic: traffic}
	conn, _, err := zk.Connect(servers, timeout,
		zk.WithDialer(s.dial), zk.WithEventCallback(s.observe), zk.WithLogger(s), zk.WithLogInfo(true),
		zk.WithMaxConnBufferSize(bufferSize), zk.WithMaxBufferSize(maxReply))
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, strings.Join(servers, ","), err)
	}
	s.conn = conn
	select {
	case <-s.ready:
		return s, nil
	case <-time.After(patience):
		conn.Close()
		return nil, fmt.Errorf("%w at %s within %s: %s",
			ErrUnreachable, strings.Join(servers, ","), patience, s.lastLogged())
	}
}

// Printf implements zk.Logger, quietly.
func (s *session) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = fmt.Sprintf(format, args...)
}

func (s *session) lastLogged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged
}

// observe is the client library's event callback. The library waits for it.
func (s *session) observe(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.timeout, s.attached = s.greeting.timeout, true
		s.proven(s.greeting.sent)
		s.opened.Do(func() { close(s.ready) })
	case zk.StateDisconnected:
		s.attached = false
	case zk.StateExpired:
		s.attached = false
		s.validity.end(lock.ErrLost)
	}
}

// greeted notes the first reply on a connection. The client library's next event says whether the session goes on.
func (s *session) greeted(sent time.Time, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = greeting{sent, timeout}
}

// answered notes that the server has answered a request, and when that request was sent.
func (s *session) answered(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached {
		s.proven(sent)
	}
}

// proven notes that the server had the session at a time. If the validity has ended, because there was no proof for too
// long, a new one begins: for new leases only.
func (s *session) proven(at time.Time) {
	if at.After(s.proof) {
		s.proof = at
	}
	left := s.left()
	if left <= 0 {
		s.validity.end(lock.ErrLost)
		return
	}
	switch {
	case s.watch == nil:
		s.watch = time.AfterFunc(left, s.expire)
	case s.validity.ctx.Err() != nil:
		s.validity = newValidity()
		s.watch.Reset(left)
	}
}

// left is how much longer the session is certain to last: until three quarters of its timeout after the last proof.
// The server counts the whole timeout, and from a later moment, when it got the request. The quarter is a margin: in
// an ensemble the leader decides which sessions expire, and the worker's server may die before it has reported to the
// leader the requests of the last half tick.
func (s *session) left() time.Duration { return time.Until(s.proof.Add(s.timeout * 3 / 4)) }

// expire ends the validity if there has been no proof for too long; otherwise it comes again when that may be so.
func (s *session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.validity.ctx.Err() != nil {
		return
	}
	if left := s.left(); left > 0 {
		s.watch.Reset(left)
		return
	}
	s.validity.end(lock.ErrLost)
}

// current is the validity of the session now.
func (s *session) current() *validity {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left() <= 0 { // and the timer has not called expire yet
		s.validity.end(lock.ErrLost)
	}
	return s.validity
}

// close ends the session, and with it all that is ephemeral in it.
func (s *session) close() {
	s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached, s.closed = false, true
	s.validity.end(context.Canceled)
	if s.watch != nil {
		s.watch.Stop()
	}
}

// pulse is a connection that reports when each request was sent that the server has answered: the server has renewed
// the session since. For that it reads ZooKeeper's wire format, of each packet the first 12 bytes, because the client
// library reports neither this nor the timeout that the server chose, which may be shorter than the one asked for.
//
// The arrival of a reply would prove less. A reply may be delayed on its way, by a paused client or a full buffer, for
// longer than the session lasts; a lease that is counted from the arrival then outlives its session, and two hold the
// lock (TestSilenceEndsTheLeaseBeforeTheServerCan). A watch's event proves nothing: the server sends it without having
// heard from the client. Requests of our own, timed before each call, would prove as much, but they are more load on
// the servers that are measured, and would still leave the server's timeout unknown.
type pulse struct {
	net.Conn
	greeted  func(sent time.Time, timeout time.Duration) // called for the reply to the first request
	answered func(sent time.Time)                        // called for every other reply
	traffic  lock.Traffic

	mu    sync.Mutex
	sent  []time.Time // of unanswered requests, oldest first: a server answers in order
	asked bool        // the last packet but heartbeats was a request
	hello bool        // the connection's first request was written

	// Of the packet that is being read:
	head  []byte // its length and as many bytes as matter
	rest  int    // how many bytes after these are to come
	first bool   // it is the first of the connection
}

const (
	// A packet begins with its length. In a greeting the protocol's version and the timeout follow, else the request's
	// number and more.
	headSize   = 12
	watchEvent = -1 // the number of what is no reply
	heartbeat  = -2 // the number of a request that only keeps the session
)

// dial is a zk.Dialer whose connections report to s.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &pulse{Conn: conn, greeted: s.greeted, answered: s.answered, traffic: s.traffic, first: true}, nil
}

// Write implements net.Conn. The client writes each request at once.
func (p *pulse) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.sent = append(p.sent, time.Now())
	if p.hello && len(b) >= 8 {
		p.requested(int32(binary.BigEndian.Uint32(b[4:])), int64(len(b)))
	}
	p.hello = true
	p.mu.Unlock()
	return p.Conn.Write(b)
}

// requested counts a request.
func (p *pulse) requested(number int32, bytes int64) {
	count := backend.Counts{Commands: 1, BytesSent: bytes}
	if number == heartbeat {
		count.RoundTrips = 1
		p.traffic.Background.Count(count)
		return
	}
	if !p.asked {
		count.RoundTrips = 1
	}
	p.asked = true
	p.traffic.Servers.Count(count)
}

// received counts a reply or an event.
func (p *pulse) received(number int32, bytes int64) {
	if count := (backend.Counts{BytesReceived: bytes}); number == heartbeat {
		p.traffic.Background.Count(count)
	} else {
		p.traffic.Servers.Count(count)
		p.asked = false
	}
}

// Read implements net.Conn. One goroutine reads.
func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.scan(b[:n])
	return n, err
}

// scan finds the packets in what was read. Each begins with its length.
func (p *pulse) scan(b []byte) {
	for len(b) > 0 {
		skipped := min(p.rest, len(b))
		b, p.rest = b[skipped:], p.rest-skipped
		taken := min(headSize-len(p.head), len(b))
		p.head, b = append(p.head, b[:taken]...), b[taken:]
		if len(p.head) == headSize {
			p.packet()
			p.rest = max(0, int(binary.BigEndian.Uint32(p.head))+4-headSize)
			p.head, p.first = p.head[:0], false
		}
	}
}

// packet reports one packet.
func (p *pulse) packet() {
	number, more := int32(binary.BigEndian.Uint32(p.head[4:])), binary.BigEndian.Uint32(p.head[8:])
	p.mu.Lock()
	if !p.first {
		p.received(number, int64(binary.BigEndian.Uint32(p.head))+4)
	}
	if !p.first && number == watchEvent {
		p.mu.Unlock()
		return
	}
	if len(p.sent) == 0 { // a reply without a request
		p.mu.Unlock()
		return
	}
	sent := p.sent[0]
	p.sent = p.sent[:copy(p.sent, p.sent[1:])]
	p.mu.Unlock()
	if p.first {
		p.greeted(sent, time.Duration(more)*time.Millisecond)
		return
	}
	p.answered(sent)
}
