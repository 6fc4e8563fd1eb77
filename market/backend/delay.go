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

// mostAhead bounds how many bytes a connection has received and not handed over. It is what a hundred thousand replies to
// scripts take; a connection that comes to it is read on as it hands over.
const mostAhead = 4 << 20

// delayedConn hands over what it receives some time after it came. A goroutine of its own reads ahead and notes when, so
// that what comes while the reader is busy, or still waits for what came before, is late by the delay and not by more.
//
// It does not show its socket. go-redis, which peeks at a socket before it uses an idle connection, would miss what has
// been read ahead: that the server has closed it is noticed by the next command, as over TLS.
type delayedConn struct {
	net.Conn
	delay time.Duration
	ended chan struct{} // closed when readAhead has ended

	reading sync.Mutex    // of the one who is in Read, and for what only that one uses:
	due     alarm.Alarm   // wakes it when something is due
	timeout *time.Timer   // and when the deadline has passed
	changed chan struct{} // has an element when it should look again at what follows

	mu       sync.Mutex
	room     sync.Cond // less is kept than was
	kept     []byte    // what came and was not handed over yet, from first on
	first    int
	pieces   []piece // of it, from next on
	next     int
	failure  error // how it ended
	failed   time.Time
	deadline time.Time // of Read; zero: none
	closed   bool
}

// A piece is bytes that came together.
type piece struct {
	due  time.Time // when they are handed over
	size int
}

// delayed is conn with a delay, which may be 0.
func delayed(conn net.Conn, by time.Duration, newAlarm func() alarm.Alarm) net.Conn {
	if by <= 0 {
		return conn
	}
	c := &delayedConn{
		Conn: conn, delay: by, ended: make(chan struct{}), due: newAlarm(), timeout: time.NewTimer(time.Hour),
		changed: make(chan struct{}, 1),
	}
	c.room.L = &c.mu
	go c.readAhead()
	return c
}

// readAhead reads until the connection ends.
func (c *delayedConn) readAhead() {
	defer close(c.ended)
	buffer := make([]byte, bufferSize)
	for {
		n, err := c.Conn.Read(buffer)
		if !c.keep(buffer[:n], err, time.Now().Add(c.delay)) {
			return
		}
	}
}

// keep keeps what came, which is due at a time, and reports whether there may be more.
func (c *delayedConn) keep(b []byte, err error, due time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.kept)-c.first+len(b) > mostAhead && !c.closed {
		c.room.Wait()
	}
	if c.closed {
		return false
	}
	if len(c.kept)+len(b) > cap(c.kept) { // room at the beginning is used before more is made
		c.kept = append(c.kept[:0], c.kept[c.first:]...)
		c.first = 0
	}
	if len(c.pieces) == cap(c.pieces) {
		c.pieces = append(c.pieces[:0], c.pieces[c.next:]...)
		c.next = 0
	}
	if len(b) > 0 {
		c.kept = append(c.kept, b...)
		c.pieces = append(c.pieces, piece{due, len(b)})
	}
	if err != nil {
		c.failure, c.failed = err, due
	}
	c.lookAgain()
	return err == nil
}

// Read implements net.Conn. It hands over what is due, and nothing that came later.
func (c *delayedConn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		n, due, deadline, err := c.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		c.await(due, deadline)
	}
}

// take hands over what is due. If nothing is, it says when the next piece will be, and until when to wait for that; a
// zero time is not known.
func (c *delayedConn) take(b []byte) (n int, due, deadline time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.closed:
		return 0, due, deadline, net.ErrClosed
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		return 0, due, deadline, os.ErrDeadlineExceeded
	case c.next == len(c.pieces) && c.failure != nil:
		if due = c.failed; !now.Before(due) {
			return 0, due, deadline, c.failure
		}
		return 0, due, c.deadline, nil
	case c.next == len(c.pieces):
		return 0, due, c.deadline, nil
	case now.Before(c.pieces[c.next].due):
		return 0, c.pieces[c.next].due, c.deadline, nil
	}
	for n < len(b) && c.next < len(c.pieces) && !now.Before(c.pieces[c.next].due) {
		p := &c.pieces[c.next]
		k := copy(b[n:], c.kept[c.first:c.first+p.size])
		n, c.first, p.size = n+k, c.first+k, p.size-k
		if p.size == 0 {
			c.next++
		}
	}
	if c.next == len(c.pieces) {
		c.kept, c.first, c.pieces, c.next = c.kept[:0], 0, c.pieces[:0], 0
	}
	c.room.Signal()
	return n, due, deadline, nil
}

// await waits until something is due, if it is known when, or the deadline, if there is one, or something has changed.
func (c *delayedConn) await(due, deadline time.Time) {
	switch {
	case !due.IsZero() && (deadline.IsZero() || due.Before(deadline)):
		c.due.Sleep(time.Until(due), c.changed)
	case !deadline.IsZero():
		c.timeout.Reset(time.Until(deadline))
		select {
		case <-c.timeout.C:
		case <-c.changed:
		}
	default:
		<-c.changed
	}
}

// lookAgain wakes who waits.
func (c *delayedConn) lookAgain() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// SetReadDeadline implements net.Conn. It is about what is handed over: what comes before a deadline and is due after it
// is there for the next Read.
func (c *delayedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.deadline = t
	c.lookAgain()
	return nil
}

// SetDeadline implements net.Conn.
func (c *delayedConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close implements net.Conn. Who is in Read returns, and nothing is handed over any more.
func (c *delayedConn) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.room.Broadcast()
	c.lookAgain()
	c.mu.Unlock()
	err := c.Conn.Close()
	if again {
		return err
	}
	<-c.ended
	c.reading.Lock()
	defer c.reading.Unlock()
	c.due.Close()
	c.timeout.Stop()
	return err
}
