package wire

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// conn is a client's connection and ours to the server for it.
type conn struct {
	line   *Line
	number int // from 1
	client net.Conn
	done   chan struct{} // closed when it is cut

	// Guarded by line.mu until run has set them.
	server             net.Conn
	toServer, toClient *way
}

// run passes on what both sides say until the server ends it, or it is cut.
func (c *conn) run() {
	if !c.await() || !c.connect() {
		return
	}
	traffic := c.line.traffic(c)
	var up sync.WaitGroup
	up.Go(traffic.up)
	traffic.down()
	c.line.mu.Lock()
	c.cut() // up may wait for the client
	c.line.mu.Unlock()
	up.Wait()
}

// connect reports false when there is no server, or the connection was cut meanwhile.
func (c *conn) connect() bool {
	server, err := c.line.dial()
	if err != nil {
		return false
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.server = server
	c.toServer = &way{conn: c, to: server}
	c.toClient = &way{conn: c, to: c.client, mutable: true}
	if c.isCut() {
		server.Close()
		return false
	}
	return true
}

// ways needs line.mu.
func (c *conn) ways() []*way {
	if c.server == nil {
		return nil
	}
	return []*way{c.toServer, c.toClient}
}

// cut closes both sides. It needs line.mu.
func (c *conn) cut() {
	if c.isCut() {
		return
	}
	close(c.done)
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

func (c *conn) isCut() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await waits for the end of a partition. It reports false when the connection was cut.
func (c *conn) await() bool {
	for {
		c.line.mu.Lock()
		healed := c.line.healed
		c.line.mu.Unlock()
		if healed == nil {
			return !c.isCut()
		}
		select {
		case <-healed:
		case <-c.done:
			return false
		}
	}
}

// hangUp tells the server that the client will say no more. The server executes what it was sent, answers, and hangs up in
// its turn, which ends the connection.
func (c *conn) hangUp() {
	if half, ok := c.server.(interface{ CloseWrite() error }); c.await() && ok {
		_ = half.CloseWrite() // it may have hung up already
	}
}

// A way leads to one side of a connection.
type way struct {
	conn    *conn
	to      net.Conn
	mutable bool // Mute concerns it

	writing sync.Mutex
}

// write waits for the end of a partition and then passes b on.
func (w *way) write(b []byte) error {
	for len(b) > 0 {
		if !w.conn.await() {
			return net.ErrClosed
		}
		n, err := w.try(b)
		if b = b[n:]; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return nil
}

// try passes on as much of b as the state of the line allows.
func (w *way) try(b []byte) (int, error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	line := w.conn.line
	line.mu.Lock()
	partitioned, muted := line.healed != nil, line.muted && w.mutable
	line.mu.Unlock()
	switch {
	case partitioned:
		return 0, nil
	case muted:
		return len(b), nil
	}
	return w.to.Write(b)
}

// settle returns when a write that had begun is over. One that waits for a peer which does not read is interrupted, and
// looks at the line's state again before it goes on.
func (w *way) settle() {
	_ = w.to.SetWriteDeadline(time.Unix(1, 0)) // it fails on a closed connection, which nothing passes
	w.writing.Lock()
	defer w.writing.Unlock()
	_ = w.to.SetWriteDeadline(time.Time{})
}

// bytes is traffic in any protocol.
type bytes struct{ *conn }

func (c bytes) up() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.client.Read(buffer)
		if c.toServer.write(buffer[:n]) != nil {
			return // the server has hung up, which down sees, too
		}
		if err != nil {
			c.hangUp()
			return
		}
	}
}

func (c bytes) down() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.server.Read(buffer)
		// A client that has gone is no reason to stop: what it sent may still be on its way to the server.
		_ = c.toClient.write(buffer[:n])
		if err != nil {
			c.await()
			return
		}
	}
}

const bufferSize = 32 << 10
