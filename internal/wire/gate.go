package wire

import (
	"slices"
	"strings"
)

// A Held is a request at a gate: what its client sent at once, and with EXEC what was
// queued since MULTI. Open lets it go; its last reply answers it.
type Held struct {
	*Trap
	Commands [][]string // with their names in lower case
	conn     *conn
}

// Lose lets it go, and loses the reply together with the connection.
func (h *Held) Lose() {
	h.does = loseReply
	h.Open()
}

// Drop ends its connection before anything of it reaches the server.
func (h *Held) Drop() { h.conn.drop() }

// Delay ends the connection for the client only: the request stays on its way until Open.
func (h *Held) Delay() { h.conn.client.Close() }

// Reply is the server's last reply, as its values. It is there once Answered is closed.
func (h *Held) Reply() string { return strings.Join(h.values, " ") }

// Gate holds every request of a proxy of Redis, and calls arrived with it, in its
// connection's goroutine; nil: all pass again. What no other client can see always
// passes: the start of a connection, what MULTI queues, and subscriptions.
func (p *Proxy) Gate(arrived func(*Held)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gate = arrived
}

var ungated = strings.Fields("hello ping client select auth info command script multi reset quit")

// gateState is what a gate knows of a connection.
type gateState struct {
	queued [][]string // since MULTI, with it
	held   *Held      // the request whose further commands come
	left   int        // how many of them do
}

// atGate holds a request if there is a gate. It returns the trap for a command's reply
// if that is a request's last.
func (r *redisConn) atGate(command []string) (*Trap, error) {
	name := command[0]
	before := r.gate.queued
	r.gate.queued = nil
	queued := len(before) > 0 && name != "exec"
	if name == "multi" || queued && name != "discard" {
		r.gate.queued = append(before, command)
	}
	if r.gate.left > 0 {
		r.gate.left--
		if r.gate.left > 0 {
			return nil, nil
		}
		return r.gate.held.Trap, nil
	}
	r.proxy.mu.Lock()
	arrived := r.proxy.gate
	r.proxy.mu.Unlock()
	if arrived == nil || queued || slices.Contains(ungated, name) || subscription(name) {
		return nil, nil
	}
	said, _ := r.commands.Peek(r.commands.Buffered())
	rest, _ := Commands(string(said))
	h := &Held{Trap: newTrap(r.proxy, Match{}, hold), conn: r.conn}
	h.gated = true
	h.Commands = slices.Concat(before, [][]string{command}, rest)
	r.gate.held, r.gate.left = h, len(rest)
	arrived(h)
	select {
	case <-h.open.Done():
	case <-r.whole.Done():
		return nil, errEnd
	}
	if len(rest) > 0 {
		return nil, nil
	}
	return h.Trap, nil
}
