package wire

import (
	"bufio"
	"cmp"
	"context"
	"slices"
	"strings"
)

// A Match chooses a command, the zero value the next one. Connecting takes commands
// that count: see [Proxy.Record].
type Match struct {
	Command string // its name, in upper or lower case; empty: any
	Nth     int    // how many of these commands it takes, from when the trap was set; 0 is 1
}

// A Trap catches one command at most. To a proxy made by [Start] a piece is a
// command, and LoseReply does nothing.
type Trap struct {
	proxy    *Proxy
	does     action
	command  string // as in Match
	left     int    // how many commands it lets pass, and one; guarded by proxy.mu
	reached  chan struct{}
	answered chan struct{}
	gated    bool            // it is answered when its client has the reply
	open     context.Context // ends when what is held is let go
	letGo    func()
	ended    <-chan struct{} // set before reached is closed
	values   []string        // of the reply; set before answered is closed
}

type action int // what a trap does with what it catches

const (
	hold action = iota
	loseCommand
	loseReply
)

// Reached is closed when the trap has caught what it was set for. If that is a reply,
// the command has been executed.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Answered is closed when the server has answered the command that was held and let go.
func (t *Trap) Answered() <-chan struct{} { return t.answered }

// Ended is closed when the caught connection has ended: what it sent was executed then,
// or never. Nil before Reached.
func (t *Trap) Ended() <-chan struct{} { return t.ended }

// Open lets go of what is held, and removes a trap that has caught nothing. It
// may be called more than once.
func (t *Trap) Open() {
	t.proxy.mu.Lock()
	t.proxy.traps = slices.DeleteFunc(t.proxy.traps, func(other *Trap) bool {
		return other == t
	})
	t.proxy.mu.Unlock()
	t.letGo()
}

// LoseReply loses the reply, and the connection, of a command that was executed.
// Replies before it are delivered.
func (p *Proxy) LoseReply(m Match) *Trap { return p.set(m, loseReply) }

// LoseCommand ends the connection before the command reaches the server; commands
// before it have been executed.
func (p *Proxy) LoseCommand(m Match) *Trap { return p.set(m, loseCommand) }

// Hold holds the command, and those after it on the same connection, before it
// reaches the server.
func (p *Proxy) Hold(m Match) *Trap { return p.set(m, hold) }

func newTrap(p *Proxy, m Match, does action) *Trap {
	t := &Trap{
		proxy:    p,
		does:     does,
		command:  m.Command,
		left:     max(m.Nth, 1),
		reached:  make(chan struct{}),
		answered: make(chan struct{}),
	}
	t.open, t.letGo = context.WithCancel(context.Background())
	return t
}

func (p *Proxy) set(m Match, does action) *Trap {
	t := newTrap(p, m, does)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

// DropMessages drops the messages of subscriptions from now on, until Heal; all
// else passes.
func (p *Proxy) DropMessages() { p.dropMessages.Store(true) }

// Dropped is how many messages DropMessages has dropped.
func (p *Proxy) Dropped() int { return int(p.dropped.Load()) }

// Record forgets the commands that were noted, and notes those that come: rehearse an
// operation, then repeat it with a trap at its n-th command.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record = true
	p.names = nil
}

// Commands are the names, in lower case, of what came since Record on all connections,
// in order: commands, or "tls".
func (p *Proxy) Commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// catch notes a command and returns the traps that catch it, which are then no longer set.
func (p *Proxy) catch(name string) (caught []*Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record {
		p.names = append(p.names, name)
	}

	p.traps = slices.DeleteFunc(p.traps, func(t *Trap) bool {
		if t.command != "" && !strings.EqualFold(t.command, name) {
			return false
		}
		t.left--
		if t.left > 0 {
			return false
		}
		caught = append(caught, t)
		return true
	})
	return caught
}

// redisConn passes on one command and one reply at a time, in two goroutines: last and gate are
// of that of nextCommand, passing is of that of nextReply.
type redisConn struct {
	*conn
	answers
	commands, replies *bufio.Reader
	last              bool // the reply to the last command is to be lost
	gate              gateState
	passing           *Trap // of a gate, whose reply is passed on now
}

const handshakeTLS = 22 // the first byte of a record of TLS

// nextCommand returns the next command to pass on, once neither the gate nor a trap holds it.
// errEnd means that no more may pass. passUp calls it once the command before has been passed on.
func (r *redisConn) nextCommand() ([]byte, error) {
	if r.last { // nextReply ends the connection when the reply comes
		// The last one has been passed on, and no Read follows that would say so: see noticedConn.
		r.underway.command.Store(false)
		<-r.whole.Done()
		return nil, errEnd
	}

	// A handshake of TLS would be read as a command without end.
	if first, _ := r.commands.Peek(1); len(first) > 0 && first[0] == handshakeTLS {
		r.proxy.catch("tls")
		r.drop()
		return nil, errEnd
	}

	command, err := readCommand(r.commands)
	if err != nil {
		return nil, err
	}

	clock := r.proxy.clientsClock()
	clock.moveCommand(&command) // before atGate: a Held has times as the server gets them

	// Before trapped: traps and Record count a command when the gate lets it go.
	held, err := r.atGate(command.values, clock)
	if err != nil {
		return nil, err
	}
	caught, err := r.trapped(command.values[0])
	if err != nil {
		return nil, err
	}
	caught = cmp.Or(caught, held) // one trap a reply: if a trap catches it, too, held is never answered

	r.last = caught != nil && caught.does == loseReply
	r.expect(command.values, caught)
	return command.raw, nil
}

// trapped returns when no trap holds a command, with the trap that is to lose its
// reply or the first that held it.
func (c *conn) trapped(name string) (caught *Trap, err error) {
	for _, t := range c.proxy.catch(name) {
		if t.does == loseReply { // which is caught when it comes
			caught = t
			continue
		}

		caught = cmp.Or(caught, t)
		t.ended = c.whole.Done()
		close(t.reached)
		if t.does == loseCommand {
			return nil, errEnd
		}

		select {
		case <-t.open.Done():
		case <-c.whole.Done():
			return nil, errEnd
		}
	}
	return caught, nil
}

// nextReply returns the next reply to pass on. passDown calls it once the reply before has been
// passed on: only now is that one no longer under way, and the Trap of its gate answered.
func (r *redisConn) nextReply() ([]byte, error) {
	r.underway.reply.Store(false)
	if r.passing != nil { // its client has it
		close(r.passing.answered)
		r.passing = nil
	}

	for {
		reply, err := readReply(r.replies)
		if err != nil {
			return nil, err
		}
		r.underway.reply.Store(true) // before match, after which Underway finds it awaited no more

		trap, command, isMessage := r.match(reply)
		if trap != nil {
			trap.values = reply.values
		}

		switch {
		case isMessage && r.proxy.dropMessages.Load():
			r.proxy.dropped.Add(1)
			continue
		case trap != nil && trap.does == loseReply:
			close(trap.answered)
			trap.ended = r.whole.Done()
			close(trap.reached)
			return nil, errEnd
		case trap != nil && trap.gated:
			r.passing = trap
		case trap != nil:
			close(trap.answered)
		}
		return r.proxy.clientsClock().movedReply(reply, command), nil
	}
}
