package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// acceptAgain is how long to wait after a connection could not be accepted, for example because files ran out.
const acceptAgain = 10 * time.Millisecond

// A Line forwards connections, numbered from 1 in their order of arrival, to a server. Its methods are safe for
// concurrent use.
type Line struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	traffic  func(*conn) traffic
	running  sync.WaitGroup

	mu       sync.Mutex
	accepted int
	conns    map[*conn]bool
	pulled   bool
	muted    bool
	healed   chan struct{} // closed by Heal; nil unless partitioned
}

// traffic passes on what the two sides of a connection say, until it ends.
type traffic interface {
	up()   // from client to server
	down() // from server to client
}

// Forward starts a line to a server at addr, host:port, that may speak any protocol. The caller closes it. The error says
// that there is no port to listen on; a server that cannot be reached shows as connections that are closed at once.
func Forward(addr string) (*Line, error) {
	l := newLine("tcp", addr)
	l.traffic = func(c *conn) traffic { return bytes{c} }
	if err := l.start(); err != nil {
		return nil, err
	}
	return l, nil
}

func newLine(network, addr string) *Line {
	return &Line{
		dial:  func() (net.Conn, error) { return net.Dial(network, addr) },
		conns: map[*conn]bool{},
	}
}

func (l *Line) start() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting a proxy: %w", err)
	}
	l.listener = listener
	l.running.Go(l.accept)
	return nil
}

// Addr is where it listens, host:port.
func (l *Line) Addr() string { return l.listener.Addr().String() }

// Accepted is how many connections came so far, which is also the number of the last one.
func (l *Line) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Close ends the line and all its connections, and returns when nothing of it runs any more.
func (l *Line) Close() error {
	err := l.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	l.Pull()
	l.running.Wait()
	return err
}

// Partition lets nothing pass in either direction from now on. Connections stay open, further ones are accepted and
// silent, and what either side sends or closes waits for Heal.
func (l *Line) Partition() {
	l.change(func() {
		if l.healed == nil {
			l.healed = make(chan struct{})
		}
	})
}

// Heal ends a partition: all that waited is delivered, in order. After Pull it lets connections be made again.
func (l *Line) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pulled = false
	if l.healed != nil {
		close(l.healed)
		l.healed = nil
	}
}

// Cut closes all connections on both sides; what was on its way is lost. Further ones are forwarded, and what servers say
// on them is passed on again after a Mute.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutAll()
	l.muted = false
}

// Pull cuts all connections, and further ones as soon as they are made.
func (l *Line) Pull() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pulled = true
	l.cutAll()
}

// Mute swallows what the server says from now on, until Cut: its clients know no more whether their requests were served.
func (l *Line) Mute() { l.change(func() { l.muted = true }) }

// cutAll needs mu.
func (l *Line) cutAll() {
	for c := range l.conns {
		c.cut()
	}
}

// change makes a change and returns when every write that may not have seen it is over.
func (l *Line) change(set func()) {
	l.mu.Lock()
	set()
	var ways []*way
	for c := range l.conns {
		ways = append(ways, c.ways()...)
	}
	l.mu.Unlock()
	for _, w := range ways {
		w.settle()
	}
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptAgain)
			continue
		}
		c := l.add(client)
		l.running.Go(func() {
			c.run()
			l.mu.Lock()
			defer l.mu.Unlock()
			c.cut()
			delete(l.conns, c)
		})
	}
}

func (l *Line) add(client net.Conn) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	c := &conn{line: l, number: l.accepted, client: client, done: make(chan struct{})}
	l.conns[c] = true
	if l.pulled {
		c.cut()
	}
	return c
}
