package zklock

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// pulse is a connection that tells when the server was surely alive to this client. What counts is when a request was
// sent that has been answered: the server has renewed the session since. That a reply came, or that the server told of a
// watched node, proves less: a reply may have been on its way for long, and what is watched is told to a client that the
// server has not heard for long.
type pulse struct {
	net.Conn
	greeted  func(sent time.Time, timeout time.Duration) // by the reply to the first request: the session's terms
	answered func(sent time.Time)

	mu   sync.Mutex
	sent []time.Time // of requests that were not answered, oldest first: a server answers in order

	// Of the packet that is being read:
	head  []byte // its length and as many bytes as matter
	rest  int    // how many bytes after these are to come
	first bool   // it is the first of the connection
}

const (
	headSize   = 12 // length, then in a greeting the protocol's version and the timeout, else the request's number and more
	watchEvent = -1 // the number of what is no reply
)

// dial is a zk.Dialer whose connections tell s.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &pulse{Conn: conn, greeted: s.greeted, answered: s.answered, first: true}, nil
}

var _ zk.Dialer = (*session)(nil).dial

// Write implements net.Conn. The client writes each request at once.
func (p *pulse) Write(b []byte) (int, error) {
	p.mu.Lock()
	p.sent = append(p.sent, time.Now())
	p.mu.Unlock()
	return p.Conn.Write(b)
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

// packet tells of one.
func (p *pulse) packet() {
	number, more := int32(binary.BigEndian.Uint32(p.head[4:])), binary.BigEndian.Uint32(p.head[8:])
	if !p.first && number == watchEvent {
		return
	}
	p.mu.Lock()
	if len(p.sent) == 0 { // it answers what was not asked
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
