package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A LocalConn is a client's connection to a peer in the same process, which is told what the
// client sends. A Write never waits for a reader, and deadlines hold, in the time of
// package synctest, too. When it is cut it looks like a TCP connection: a Read meets its
// end, and a Write finds it reset, after which client libraries may send again.
type LocalConn struct {
	net.Conn // answers what does not matter here, such as addresses

	// Is called with what was written at once, names of commands in lower case: a command, a
	// pipeline, or MULTI to EXEC.
	Sent   func(commands [][]string)
	Closed func() // is called when the client has closed it

	mu       sync.Mutex
	written  string // less than a command
	received []byte
	broken   bool
	deadline time.Time
	changed  chan struct{} // holds one value
}

// NewLocal opens a connection. Sent and Closed are set before it is used.
func NewLocal() *LocalConn {
	c := &LocalConn{changed: make(chan struct{}, 1)}
	c.Conn, _ = net.Pipe()
	return c
}

// Write implements net.Conn.
func (c *LocalConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	broken := c.broken
	commands, rest := Commands(c.written + string(p))
	c.written = rest
	c.mu.Unlock()

	if broken {
		return 0, &net.OpError{Op: "write", Net: "memory", Err: syscall.ECONNRESET}
	}
	if len(commands) > 0 { // not locked: Sent may call Receive
		c.Sent(commands)
	}
	return len(p), nil
}

// Receive has the client receive something.
func (c *LocalConn) Receive(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received = append(c.received, p...)
	Signal(c.changed)
}

// Read implements net.Conn, for one reader at a time: a value in changed wakes one.
func (c *LocalConn) Read(p []byte) (int, error) {
	for {
		c.mu.Lock()
		broken := c.broken
		deadline := c.deadline
		n := copy(p, c.received)
		c.received = c.received[n:]
		c.mu.Unlock()

		switch {
		case broken:
			return 0, io.EOF
		case n > 0:
			return n, nil
		case deadline.IsZero():
			<-c.changed
			continue
		case !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}

		// Whatever comes, the loop looks again: changed says only that something has.
		select {
		case <-c.changed:
		case <-time.After(time.Until(deadline)):
		}
	}
}

// Close implements net.Conn.
func (c *LocalConn) Close() error {
	c.Cut()
	c.Closed()
	return nil
}

// Cut breaks the connection: replies that were not read are lost.
func (c *LocalConn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	Signal(c.changed)
}

// Broken reports whether the connection is cut.
func (c *LocalConn) Broken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// SetDeadline implements net.Conn. A Write does not wait.
func (c *LocalConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *LocalConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	Signal(c.changed) // for a Read that waits
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *LocalConn) SetWriteDeadline(time.Time) error { return nil }

// Signal puts a value into a channel that holds one, and reports whether there was none.
func Signal(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}
