package explore

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// errCut is what a client meets on a connection that broke.
var errCut = errors.New("connection reset: the search broke it")

// A request is what a client has written at once: one command, a pipeline, or MULTI to EXEC.
type request struct {
	*conn
	commands [][]string
	line     string    // see request.String
	at       time.Time // when it was executed
}

// A conn is a client's end of a connection to a server in memory. What is written becomes requests that wait until the
// world delivers them; a Write never waits, and deadlines hold. The world's mutex guards the fields.
type conn struct {
	net.Conn // answers what does not matter here, such as addresses
	world    *world
	client   int // nobody: the search itself
	server   *Server
	peer     *server.Peer // the server's end

	written  string // less than a command
	waiting  []*request
	received []byte
	deaf     bool // what the server answers is thrown away
	broken   bool // by the search or the client
	deadline time.Time
	changed  chan struct{} // holds one value

	watched    []string // keys
	subscribed bool
}

// nobody is the client of the search's own connections: their requests do not wait.
const nobody = -1

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.broken {
		return 0, errCut
	}
	c.written += string(p)
	r := &request{conn: c}
	for command, rest := parse(c.written); command != nil; command, rest = parse(c.written) {
		c.written, r.commands = rest, append(r.commands, command)
	}
	switch {
	case len(r.commands) == 0:
	case c.client == nobody || len(c.waiting) == 0 && !slices.ContainsFunc(r.commands, gated):
		c.world.mu.Unlock()
		c.server.execute(r)
		c.world.mu.Lock()
	default:
		c.waiting = append(c.waiting, r)
		signal(c.world.arrived)
	}
	return len(p), nil
}

// gated reports whether a command waits for the search. Those of a handshake do not: no other client can see them.
func gated(command []string) bool {
	return !slices.Contains([]string{"HELLO", "PING", "CLIENT", "SELECT", "AUTH"}, strings.ToUpper(command[0]))
}

// A replier is where the server writes replies, and what it pushes.
type replier struct{ *conn }

// Write implements io.Writer.
func (r replier) Write(p []byte) (int, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if r.world.drawn == r.conn {
		r.world.answer = append(r.world.answer, p...)
	}
	if !r.deaf {
		r.received = append(r.received, p...)
		signal(r.changed)
	}
	return len(p), nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	for {
		c.world.mu.Lock()
		n, broken, deadline := copy(p, c.received), c.broken, c.deadline
		c.received = c.received[n:]
		c.world.mu.Unlock()
		switch {
		case broken:
			return 0, errCut
		case n > 0:
			return n, nil
		case deadline.IsZero():
			<-c.changed
			continue
		case !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-c.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.cut()
	signal(c.world.arrived)
	return nil
}

// cut breaks the connection: what was not delivered is gone, and so are replies that were not read. Miniredis has goroutines
// for a subscription, and those who block look whether their connection is closed.
func (c *conn) cut() {
	c.world.mu.Lock()
	ends := c.subscribed
	c.broken, c.deaf, c.subscribed, c.waiting = true, true, false, nil
	c.world.mu.Unlock()
	c.peer.Close()
	if ends {
		c.server.dispatch(c.peer, []string{"UNSUBSCRIBE"})
		c.server.dispatch(c.peer, []string{"PUNSUBSCRIBE"})
	}
	signal(c.changed)
}

// SetDeadline implements net.Conn. A Write does not wait.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.deadline = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// signal puts a value into a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// parse reads a command as clients send it, an array of bulk strings, and returns what follows; nil: it is not whole.
func parse(text string) (command []string, rest string) {
	rest = text
	for count := -1; len(command) != count; {
		head, after, whole := strings.Cut(rest, "\r\n")
		n, _ := strconv.Atoi(strings.TrimLeft(head, "*$"))
		switch {
		case !whole || count >= 0 && len(after) < n+2:
			return nil, text
		case count < 0:
			count, rest = n, after
		default:
			command, rest = append(command, after[:n]), after[n+2:]
		}
	}
	return command, rest
}
