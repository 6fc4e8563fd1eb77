package wire

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

const bufferSize = 32 << 10

var errEnd = errors.New("the connection has passed all that it may")

// conn is a client's connection and ours to the server for it.
type conn struct {
	proxy  *Proxy
	client net.Conn
	whole  context.Context // ends when the connection is cut
	end    func()          // ends whole
	ended  chan struct{}   // closed when nothing of it runs any more

	// Guarded by proxy.mu until run has set them.
	server   net.Conn
	up, down *stream
	underway underway
}

// run passes on what both sides say until the server ends it, or it is cut.
func (c *conn) run() {
	if !c.proxy.admits(c.client) || !c.connect() {
		return
	}

	nextUp, nextDown := c.nextPiece(), pieces(c.server)
	if c.proxy.redis {
		r := &redisConn{
			conn:     c,
			commands: bufio.NewReaderSize(noticedConn{c.client, &c.underway.command}, bufferSize),
			replies:  bufio.NewReaderSize(c.server, bufferSize),
		}
		c.proxy.mu.Lock() // Proxy.Underway reads it in another goroutine
		c.underway.answers = &r.answers
		c.proxy.mu.Unlock()
		nextUp, nextDown = r.nextCommand, r.nextReply
	}

	var up sync.WaitGroup
	up.Go(func() { c.passUp(nextUp) })
	c.passDown(nextDown)
	c.drop() // passUp may wait for the client
	up.Wait()
}

// connect reports false without a server, or if cut meanwhile. It waits while what
// clients send is held back, and until the server has what was held: a packet that is
// late was sent before this connection began.
func (c *conn) connect() bool {
	if !(&stream{conn: c}).await() {
		return false
	}
	for _, older := range c.proxy.streams() {
		if !older.replies {
			older.finish()
		}
	}

	server, err := c.proxy.dial()
	if err != nil {
		return false
	}

	// A cut that came while it dialled found no server to close.
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.server = server
	c.up = &stream{conn: c, to: server}
	c.down = &stream{conn: c, to: c.client, replies: true}

	if c.isCut() {
		server.Close()
		return false
	}
	return true
}

// cut closes both sides. It needs proxy.mu.
func (c *conn) cut() {
	if c.isCut() {
		return
	}
	c.end()
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

func (c *conn) drop() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.cut()
}

func (c *conn) isCut() bool { return c.whole.Err() != nil }

// pieces reads what one side says, in any protocol.
func pieces(from net.Conn) func() ([]byte, error) {
	buffer := make([]byte, bufferSize)
	return func() ([]byte, error) {
		n, err := from.Read(buffer)
		return buffer[:n], err
	}
}

// nextPiece reads what the client says at once, which may be several commands,
// and holds it if a trap says so.
func (c *conn) nextPiece() func() ([]byte, error) {
	next := pieces(c.client)
	return func() ([]byte, error) {
		piece, err := next()
		if len(piece) > 0 {
			if _, lost := c.trapped(namesOf(piece)); lost != nil {
				return nil, lost
			}
		}
		return piece, err
	}
}

// passUp passes on what the client says. When that ends, the server is told: it
// executes what it got, and hangs up.
func (c *conn) passUp(next func() ([]byte, error)) {
	for {
		piece, err := next()
		if c.up.pass(piece) == nil && err == nil {
			continue
		}

		if half, ok := c.server.(interface{ CloseWrite() error }); c.up.await() && ok {
			_ = half.CloseWrite() // it may have hung up already
		}
		return
	}
}

// passDown passes on what the server says, also to a client that is gone: what it
// sent may still be under way.
func (c *conn) passDown(next func() ([]byte, error)) {
	for {
		piece, err := next()
		if len(piece) > 0 { // before pass, which may wait: Replies counts what is held back
			c.proxy.replies.Add(1)
		}
		if errors.Is(c.down.pass(piece), errEnd) || errors.Is(err, errEnd) {
			return
		}
		if err != nil {
			// When this returns, run closes the client's side: that waits while replies are held.
			c.down.await()
			return
		}
	}
}

// stream is one direction of a connection.
type stream struct {
	conn    *conn
	to      net.Conn
	replies bool // it is what the server says

	passing sync.Mutex // held by pass, also while the fault holds back what it passes
	writing sync.Mutex // held by try alone, so that settle waits for no fault to end
}

func (s *stream) holds(f fault) bool { return f == partition || f == holdReplies && s.replies }

// pass does with b what the fault says. After an error no more can pass: because
// of the fault, if it is errEnd.
func (s *stream) pass(b []byte) error {
	s.passing.Lock()
	defer s.passing.Unlock()
	for len(b) > 0 {
		if !s.await() {
			return net.ErrClosed
		}
		// settle may end a write by a deadline: the rest is passed as the new fault says.
		n, err := s.try(b)
		b = b[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return nil
}

func (s *stream) await() bool {
	for {
		fault, changed := s.conn.proxy.now()
		if !s.holds(fault) {
			return !s.conn.isCut()
		}
		select {
		case <-changed:
		case <-s.conn.whole.Done():
			return false
		}
	}
}

// try deals with as much of b as the fault allows at this moment. It reads the fault with
// writing locked: when settle has returned, every write that is under way has seen the new one.
func (s *stream) try(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	fault, _ := s.conn.proxy.now()
	switch {
	case s.holds(fault): // since await
		return 0, nil
	case fault == disconnect:
		return 0, errEnd
	}
	return s.to.Write(b)
}

// finish returns when what is being passed has been.
func (s *stream) finish() {
	s.passing.Lock()
	defer s.passing.Unlock()
}

// settle returns when a write that began is over: one that waits for its peer is
// interrupted and reads the fault again.
func (s *stream) settle() {
	// It fails on a closed connection, to which nothing is written.
	_ = s.to.SetWriteDeadline(time.Unix(1, 0))
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.to.SetWriteDeadline(time.Time{})
}
