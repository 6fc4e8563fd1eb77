package backend

import (
	"context"
	"net"
	"os"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/alarm"
)

// delayKey is the key of Delaying's value.
type delayKey struct{}

// Delaying returns a context under which [Dial] makes connections that hand over what they receive so much later, as if
// the server were that much farther away: each round trip takes that much longer. What comes in several pieces is late
// once, and not once a piece, and what was sent is not late. TLS is set up without a delay.
func Delaying(ctx context.Context, by time.Duration) context.Context {
	return context.WithValue(ctx, delayKey{}, by)
}

// delayOf is the delay of connections that are made under a context.
func delayOf(ctx context.Context) time.Duration {
	by, _ := ctx.Value(delayKey{}).(time.Duration)
	return by
}

// delayedConn hands over what it receives some time after it came. A goroutine of its own reads ahead and notes when, so
// that what comes while the reader is busy, or still waits for what came before, is late by the delay and not by more.
//
// It does not show its socket. go-redis, which peeks at a socket before it uses an idle connection, would miss what has
// been read ahead: that the server has closed it is noticed by the next command, as over TLS.
type delayedConn struct {
	net.Conn
	delay  time.Duration
	came   chan struct{} // has an element when something has come
	closed chan struct{} // closed by close
	ended  chan struct{} // closed when readAhead has ended
	close  func() error  // does something once

	reading sync.Mutex  // of the one who is in Read, and for what only that one uses:
	due     alarm.Alarm // wakes it when something is due

	mu       sync.Mutex
	pieces   []piece   // what came and was not handed over yet
	deadline time.Time // until when a Read waits for something to come; zero: for ever
}

// A piece is what came together.
type piece struct {
	data []byte
	err  error     // how the connection ended, behind the data; nil: it did not
	due  time.Time // when it is handed over
}

// delayed is conn with a delay, which may be 0.
func delayed(conn net.Conn, by time.Duration, newAlarm func() alarm.Alarm) net.Conn {
	if by <= 0 {
		return conn
	}
	c := &delayedConn{
		Conn: conn, delay: by, came: make(chan struct{}, 1), closed: make(chan struct{}), ended: make(chan struct{}), due: newAlarm(),
	}
	c.close = sync.OnceValue(c.end)
	go c.readAhead()
	return c
}

// readAhead reads until the connection ends.
func (c *delayedConn) readAhead() {
	defer close(c.ended)
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.Conn.Read(buffer)
		p := piece{append([]byte(nil), buffer[:n]...), err, time.Now().Add(c.delay)}
		c.mu.Lock()
		c.pieces = append(c.pieces, p)
		c.mu.Unlock()
		select {
		case c.came <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Read implements net.Conn. It hands over the next piece when that is due.
func (c *delayedConn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		p, deadline, any := c.next()
		if !any {
			if err := c.await(deadline); err != nil {
				return 0, err
			}
			continue
		}
		if late := time.Until(p.due); late > 0 {
			c.due.Sleep(late, c.closed)
		}
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		default:
		}
		if time.Now().Before(p.due) { // the alarm was early
			continue
		}
		if len(p.data) == 0 && p.err != nil {
			return 0, p.err
		}
		n := copy(b, p.data)
		c.handedOver(n)
		return n, nil
	}
}

// next is the next piece, if any has come, and until when to wait for one.
func (c *delayedConn) next() (p piece, deadline time.Time, any bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if any = len(c.pieces) > 0; any {
		p = c.pieces[0]
	}
	return p, c.deadline, any
}

// handedOver forgets so many bytes of the next piece. How the connection ended stays for every later Read.
func (c *delayedConn) handedOver(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.pieces[0]
	if p.data = p.data[n:]; len(p.data) == 0 && p.err == nil {
		c.pieces = c.pieces[1:]
	}
}

// await waits until something has come.
func (c *delayedConn) await(deadline time.Time) error {
	var over <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-c.came:
		return nil
	case <-over:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

// SetReadDeadline implements net.Conn, for Reads that begin after it. It is about when something comes: that may be handed
// over as much later as the delay says.
func (c *delayedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// SetDeadline implements net.Conn.
func (c *delayedConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// Close implements net.Conn. Who is in Read returns, and nothing is handed over any more.
func (c *delayedConn) Close() error { return c.close() }

func (c *delayedConn) end() error {
	close(c.closed)
	err := c.Conn.Close()
	<-c.ended
	c.reading.Lock()
	defer c.reading.Unlock()
	c.due.Close()
	return err
}
