package wire

import (
	"net"
	"slices"
	"sync/atomic"
)

// Underway reports whether something is on its way between the clients of a proxy of Redis
// and the server: a connection that was asked for and is not there yet, bytes that were sent
// and not read, a command that was read and neither passed on nor held, or a reply that is
// awaited. While it is, clients may all be asleep and yet go on by themselves.
//
// What is held, what may block in the server and what a subscription waits for is not on its
// way: it comes when somebody does something.
//
// A connection is missed for the moment between its accept and the note of it: a caller looks
// several times.
func (p *Proxy) Underway() bool {
	if backlog(p.listener) > 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if !c.isCut() && (c.server == nil || c.underway.is() || unread(c.client) > 0) {
			return true
		}
	}
	return false
}

// underway is what a connection knows of what is on its way.
type underway struct {
	*answers             // nil: it reads no commands
	command  atomic.Bool // was read, and is neither passed on nor held
	reply    atomic.Bool // was read, and is not passed on
}

func (u *underway) is() bool {
	return u.command.Load() || u.reply.Load() || u.answers != nil && u.owed()
}

// owed reports whether a reply is awaited that comes by itself. Who waits for that of what a
// gate has held, its Trap tells.
func (a *answers) owed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.queue, func(w *awaited) bool {
		return w.trap == nil && !subscription(w.name) && !Blocks(w.name)
	})
}

// A noticedConn is a connection to a client that notes whether its reader has something to do.
type noticedConn struct {
	net.Conn
	busy *atomic.Bool
}

// Read implements net.Conn: what comes of it is work, until the next Read.
func (c noticedConn) Read(b []byte) (int, error) {
	c.busy.Store(false)
	n, err := c.Conn.Read(b)
	c.busy.Store(err == nil)
	return n, err
}
