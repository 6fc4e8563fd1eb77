package wire

import (
	"bufio"
	"crypto/sha1" // the name Redis gives to a script
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
)

// A Match chooses a command. Its zero value chooses the next one, whatever it is. Connecting takes commands too, which
// count: see [Proxy.Record].
type Match struct {
	Command string // its name, in upper or lower case; empty: any
	// Text is to be found in one of its arguments, for example in a key or in the script of an EVAL, or in the script that
	// an EVALSHA names, if this proxy has seen it in an EVAL or SCRIPT LOAD. Empty: any.
	Text string
	Conn int // the connection's number; 0: any
	Nth  int // how many of these commands it takes, from when the trap was set; 0 is 1
}

// fits reports whether the command is one of these; script is what an EVALSHA names.
func (m Match) fits(number int, c command, script string) bool {
	if m.Conn != 0 && m.Conn != number || m.Command != "" && !strings.EqualFold(m.Command, c.name) {
		return false
	}
	return m.Text == "" || strings.Contains(strings.Join(c.args, "\n"), m.Text) || strings.Contains(script, m.Text)
}

// A Trap is set for one command, which it catches at most once. Those of a proxy made by [Start] catch nothing.
type Trap struct {
	proxy   *Proxy
	match   Match
	left    int  // how many commands it lets pass, and one; guarded by proxy.mu
	reply   bool // what is caught is the command's reply
	lose    bool // what is caught is lost, and else held
	reached chan struct{}
	open    chan struct{}
	opened  sync.Once
}

// Reached is closed when the trap has caught what it was set for. Where that is a reply, the command has been executed.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Open lets go what is held, and removes a trap that has caught nothing. It may be called more than once. A client that
// hung up meanwhile does not keep its command from being executed.
func (t *Trap) Open() {
	t.proxy.remove(t)
	t.opened.Do(func() { close(t.open) })
}

// catch is called when what the trap is set for has come. It reports whether the connection goes on.
func (t *Trap) catch(c *conn) bool {
	close(t.reached)
	if t.lose {
		return false
	}
	select {
	case <-t.open:
		return true
	case <-c.done:
		return false
	}
}

// LoseReply has the command executed, and loses its reply together with the connection: when the client notices, the
// command has been executed. Replies before it are delivered; commands after it on the same connection are lost.
func (p *Proxy) LoseReply(m Match) *Trap { return p.set(&Trap{match: m, reply: true, lose: true}) }

// LoseCommand ends the connection before the command reaches the server. When the client notices, commands before it
// have been executed.
func (p *Proxy) LoseCommand(m Match) *Trap { return p.set(&Trap{match: m, lose: true}) }

// Hold holds the command, and those after it on the same connection, before it reaches the server.
func (p *Proxy) Hold(m Match) *Trap { return p.set(&Trap{match: m}) }

// HoldReply holds the command's reply, and what the server says after it on the same connection.
func (p *Proxy) HoldReply(m Match) *Trap { return p.set(&Trap{match: m, reply: true}) }

// DropMessages drops the messages of subscriptions and of client tracking from now on, until Heal; all else passes.
func (p *Proxy) DropMessages() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands.dropMessages = true
}

// Record begins to note the commands that come, and forgets those noted before: an operation is rehearsed between
// Record and Commands, and then done again with a trap at its n-th command.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands.record, p.commands.names = true, nil
}

// Commands are the names, in lower case, of the commands that came since Record on all connections, in order.
func (p *Proxy) Commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.commands.names)
}

// commands is what a proxy knows of the commands that pass, and is to do with them.
type commands struct {
	traps        []*Trap
	scripts      map[string]string // by their SHA-1, as EVALSHA names them
	record       bool
	names        []string
	dropMessages bool
}

func (p *Proxy) set(t *Trap) *Trap {
	t.proxy, t.left = p, max(t.match.Nth, 1)
	t.reached, t.open = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands.traps = append(p.commands.traps, t)
	return t
}

func (p *Proxy) remove(t *Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commands.traps = slices.DeleteFunc(p.commands.traps, func(other *Trap) bool { return other == t })
}

// meet notes a command and returns the traps that catch it, which are then no longer set.
func (p *Proxy) meet(number int, c command) (caught []*Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := &p.commands
	if known.record {
		known.names = append(known.names, c.name)
	}
	script := known.script(c)
	known.traps = slices.DeleteFunc(known.traps, func(t *Trap) bool {
		if !t.match.fits(number, c, script) {
			return false
		}
		if t.left--; t.left > 0 {
			return false
		}
		caught = append(caught, t)
		return true
	})
	return caught
}

// script remembers the script of a command that brings one, and returns that of an EVALSHA.
func (known *commands) script(c command) string {
	text := ""
	switch {
	case (c.name == "eval" || c.name == "eval_ro") && len(c.args) > 0:
		text = c.args[0]
	case c.name == "script" && len(c.args) == 2:
		text = c.args[1]
	case (c.name == "evalsha" || c.name == "evalsha_ro") && len(c.args) > 0:
		return known.scripts[c.args[0]]
	default:
		return ""
	}
	if known.scripts == nil {
		known.scripts = map[string]string{}
	}
	sum := sha1.Sum([]byte(text))
	known.scripts[hex.EncodeToString(sum[:])] = text
	return ""
}

// redis is the traffic of a connection to Redis.
type redis struct {
	*conn
	answers
}

// passUp passes commands on, each by itself.
func (r *redis) passUp() {
	in := bufio.NewReaderSize(r.up, bufferSize)
	for {
		c, err := readCommand(in)
		if err != nil {
			r.hangUp()
			return
		}
		var replies []*Trap
		last := false
		for _, t := range r.proxy.meet(r.number, c) {
			switch {
			case t.reply:
				replies = append(replies, t)
				last = last || t.lose
			case !t.catch(r.conn):
				r.hangUp()
				return
			}
		}
		r.expect(c, replies)
		if r.up.pass(c.raw) != nil {
			r.hangUp()
			return
		}
		if last {
			return
		}
	}
}

// passDown passes replies on, each by itself.
func (r *redis) passDown() {
	in := bufio.NewReaderSize(r.down, bufferSize)
	for {
		reply, err := readReply(in)
		if err != nil {
			r.down.await()
			return
		}
		traps, message := r.take(reply)
		for _, t := range traps {
			if !t.catch(r.conn) {
				return
			}
		}
		if message && r.proxy.dropsMessages() {
			continue
		}
		if errors.Is(r.down.pass(reply.raw), errEnd) { // as in bytes
			return
		}
	}
}

func (p *Proxy) dropsMessages() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commands.dropMessages
}
