package wire

import (
	"errors"
	"net"
	"sync"
)

const bufferSize = 32 << 10

// conn is a client's connection and ours to the server for it.
type conn struct {
	proxy  *Proxy
	number int // from 1
	client net.Conn
	done   chan struct{} // closed when it is cut

	// Guarded by proxy.mu until run has set them.
	server   net.Conn
	up, down *stream
}

// traffic passes on what the two sides of a connection say, until it ends.
type traffic interface {
	passUp()
	passDown()
}

// run passes on what both sides say until the server ends it, or it is cut.
func (c *conn) run() {
	if !c.connect() {
		return
	}
	var t traffic = bytes{c}
	if c.proxy.redis {
		t = &redis{conn: c}
	}
	var up sync.WaitGroup
	up.Go(t.passUp)
	t.passDown()
	c.proxy.mu.Lock()
	c.cut() // passUp may wait for the client
	c.proxy.mu.Unlock()
	up.Wait()
}

// connect reports false when there is no server, or the connection was cut meanwhile. It waits while what clients send
// is held back.
func (c *conn) connect() bool {
	if !(&stream{conn: c, direction: Up}).await() {
		return false
	}
	server, err := net.Dial(c.proxy.target.Network, c.proxy.target.Addr)
	if err != nil {
		return false
	}
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.server = server
	c.up = &stream{conn: c, direction: Up, from: c.client, to: server}
	c.down = &stream{conn: c, direction: Down, from: server, to: c.client}
	if c.isCut() {
		server.Close()
		return false
	}
	return true
}

// streams needs proxy.mu.
func (c *conn) streams() []*stream {
	if c.server == nil {
		return nil
	}
	return []*stream{c.up, c.down}
}

// cut closes both sides. It needs proxy.mu.
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

// hangUp tells the server that the client will say no more. The server executes what it was sent, answers, and hangs up
// in its turn, which ends the connection.
func (c *conn) hangUp() {
	if half, ok := c.server.(interface{ CloseWrite() error }); c.up.await() && ok {
		_ = half.CloseWrite() // it may have hung up already
	}
}

// bytes is traffic in any protocol.
type bytes struct{ *conn }

func (c bytes) passUp() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.up.Read(buffer)
		if c.up.pass(buffer[:n]) != nil || err != nil {
			c.hangUp()
			return
		}
	}
}

func (c bytes) passDown() {
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.down.Read(buffer)
		// A client that has gone is no reason to stop: what it sent may still be on its way to the server.
		if errors.Is(c.down.pass(buffer[:n]), errEnd) {
			return
		}
		if err != nil {
			c.down.await()
			return
		}
	}
}
