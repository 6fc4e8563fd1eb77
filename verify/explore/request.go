package explore

import (
	"bufio"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/wire"
)

// A request is what a client has written at once: one command, a pipeline, or
// MULTI to EXEC.
type request struct {
	*conn
	commands [][]string
	line     string    // see request.String
	rest     bool      // it is the second part of one that was split
	gaveUp   time.Time // when its client gave up waiting, of a late one; zero: it has not
	passed   bool      // it could have come at an earlier point, and to nothing: see arrivals
	idle     bool      // it comes late, and to nothing
}

// splits are after how many of its commands a request may be divided: not
// between MULTI and EXEC.
func (r *request) splits() (after []int) {
	queues := r.queues
	for i, command := range r.commands[:min(len(r.commands), splitConn)-1] {
		queues = queuesAfter(command, queues)
		if !queues {
			after = append(after, i+1)
		}
	}
	return after
}

// head divides a request that waits first, and returns its first part. The
// second one waits behind it.
func (r *request) head(commands int) *request {
	rest := &request{conn: r.conn, commands: r.commands[commands:], rest: true}
	first := &request{conn: r.conn, commands: r.commands[:commands]}
	r.waiting = slices.Concat([]*request{first, rest}, r.waiting[1:])
	return first
}

// connNames is how many names of connections each client has.
const connNames = 1_000_000

// serve makes the server the other end of a connection.
func (s *Server) serve(c *conn) {
	c.server = s
	c.peer = server.NewPeer(bufio.NewWriterSize(replier{c}, 256))
}

// sent is called with what the client has written at once. A handshake waits only behind
// requests that wait: what is sent over one connection keeps its order.
func (c *conn) sent(commands [][]string) {
	r := &request{conn: c, commands: commands}
	c.world.mu.Lock()
	defer c.world.mu.Unlock()

	switch {
	case c.Broken():
	case c.client == nobody || len(c.waiting) == 0 && !slices.ContainsFunc(commands, gated):
		// It is no choice. It is executed with the world unlocked, since a replier locks it. Then
		// it is locked again for the deferred Unlock.
		c.world.mu.Unlock()
		c.server.deliver(r)
		c.world.mu.Lock()
	default:
		c.waiting = append(c.waiting, r)
		wire.Signal(c.world.arrived)
	}
}

// gated reports whether a command waits for the search. Those of a handshake do not:
// no other client can see them.
func gated(command []string) bool {
	kills := command[0] == "client" && len(command) > 1 && strings.EqualFold(command[1], "kill")
	return kills || !slices.Contains([]string{"hello", "ping", "client", "select", "auth"}, command[0])
}

// A replier is where the server writes replies, and what it pushes.
type replier struct{ *conn }

func (r replier) Write(p []byte) (int, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	r.answer = append(r.answer, p...)
	if !r.deaf {
		r.world.learns(r.client, "%s hears %q", r.name, p)
		r.Receive(p)
	}
	return len(p), nil
}

// cut breaks the connection: what was not delivered is gone. It ends subscriptions,
// and so miniredis's goroutines.
func (c *conn) cut() {
	broken := c.Broken()
	c.Cut()
	c.world.mu.Lock()
	if !broken {
		c.world.learns(c.client, "%s breaks", c.name)
	}
	ends := c.subscribed
	c.subscribed = false
	c.waiting = nil
	c.world.mu.Unlock()

	// Not locked: what ends a subscription may write to a replier, which locks the world.
	c.peer.Close()
	if ends {
		c.world.remembered.Dispatch(c.server.redis.Server(), c.peer, []string{"UNSUBSCRIBE"}, false)
		c.world.remembered.Dispatch(c.server.redis.Server(), c.peer, []string{"PUNSUBSCRIBE"}, false)
	}
}

// SetDeadline implements net.Conn. A Write does not wait.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn. No client gives up a reply at the instant at which
// another one does, or polls: what both draw then, such as the wait before they send again,
// would depend on which of them the scheduler wakes first.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = t.Add(time.Duration(1+c.client) * time.Microsecond)
	}
	return c.LocalConn.SetReadDeadline(t)
}
