package wire

import (
	"slices"
	"strings"
	"time"
)

// A Held is a request at a gate: what its client sent at once, and with EXEC what was
// queued since MULTI. Open lets it go; its last reply answers it.
type Held struct {
	*Trap
	Commands [][]string // with their names in lower case, and times as SetClock has the server see them
	Came     time.Time  // to the gate
	conn     *conn
}

// Lose lets it go, and loses the reply together with the connection.
func (h *Held) Lose() {
	h.does = loseReply // before Open, after which nextCommand reads it
	h.Open()
}

// Drop ends its connection before anything of it reaches the server.
func (h *Held) Drop() { h.conn.drop() }

// Delay ends the connection for the client only: the request stays on its way until Open.
func (h *Held) Delay() { h.conn.client.Close() }

// Reply is the server's last reply, as its values, before a clock moves them. It is there once
// Answered is closed.
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

// gateState is what a gate knows of a connection: also the commands that its client sent at
// once with one that was held, and that are yet to be passed on. They are part of the same
// request, and pass without a gate.
type gateState struct {
	transaction transaction
	request     *Held
	left        int // how many commands of it
}

// A transaction is the commands since MULTI, with it; without any, none is open.
type transaction [][]string

// follow takes the next command of the connection. It returns what came before it since
// MULTI, and whether the command only adds to that or throws it away, so that no other
// client sees anything of it.
func (t *transaction) follow(command []string) (before [][]string, queued bool) {
	before = *t
	opened := len(before) > 0

	switch name := command[0]; {
	case name == "multi", opened && name != "exec" && name != "discard":
		*t = append(before, command)
	default:
		*t = nil
	}
	return before, opened && command[0] != "exec"
}

// atGate holds a request if there is a gate. It returns the trap for a command's reply
// if that is a request's last; nil: nothing is done with the reply. An error means that the
// connection ended while the request was held.
func (r *redisConn) atGate(command []string, clock *Clock) (*Trap, error) {
	before, queued := r.gate.transaction.follow(command) // of each command, held or not

	// This command came together with one that was held and let go: it is part of the same
	// request, and passes.
	if r.gate.left > 0 {
		r.gate.left--
		if r.gate.left > 0 {
			return nil, nil
		}
		return r.gate.request.Trap, nil // whose last reply answers the request
	}

	r.proxy.mu.Lock()
	arrived := r.proxy.gate
	r.proxy.mu.Unlock()
	passes := queued || slices.Contains(ungated, command[0]) || subscription(command[0])
	if arrived == nil || passes {
		return nil, nil
	}

	// What the client sent at once has arrived at once, too. Each command of the rest is read, and
	// its times are moved, once more when it is passed on: this is for Held.Commands alone.
	buffered, _ := r.commands.Peek(r.commands.Buffered())
	rest, _ := Commands(string(buffered))
	for _, later := range rest {
		clock.moveWords(later)
	}
	h := &Held{Trap: newTrap(r.proxy, Match{}, hold), conn: r.conn, Came: time.Now()}
	h.gated = true
	h.Commands = slices.Concat(before, [][]string{command}, rest)
	r.gate.request = h
	r.gate.left = len(rest)

	// While arrived runs, the command counts as under way still: else Underway could be false
	// before anybody knows that it is held.
	arrived(h)
	r.underway.command.Store(false)
	defer r.underway.command.Store(true)
	select {
	case <-h.open.Done():
	case <-r.whole.Done():
		return nil, errEnd
	}
	if len(rest) > 0 { // the last of these gets the trap
		return nil, nil
	}
	return h.Trap, nil
}
