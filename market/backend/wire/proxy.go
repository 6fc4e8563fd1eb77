package wire

import (
	"crypto/sha1" // the name Redis gives to a script
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/marketsim/marketsim/market/backend"
)

// A Proxy is a [Line] to a Redis server whose commands it reads one by one, those of a pipeline or a transaction too. It
// does not understand connections that use MONITOR, CLIENT REPLY or replication. Its methods are safe for concurrent use.
type Proxy struct {
	*Line
	target backend.Target

	mu      sync.Mutex
	traps   []*Trap
	scripts map[string]string // by their SHA-1, as EVALSHA names them
	record  bool
	names   []string
	deaf    bool
}

// Start starts a proxy before a server. The caller closes it. A server that cannot be reached shows as connections that
// are closed at once; the error says that the target speaks TLS, which the proxy could not read, or that there is no port
// to listen on.
func Start(target backend.Target) (*Proxy, error) {
	if target.TLS != nil {
		return nil, fmt.Errorf("starting a proxy before %s: %w", target, errTLS)
	}
	p := &Proxy{Line: newLine(target.Network, target.Addr), target: target, scripts: map[string]string{}}
	p.traffic = func(c *conn) traffic { return &resp{proxy: p, conn: c} }
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

var errTLS = errors.New("a proxy cannot read what is encrypted; use a server without TLS")

// Target is how to reach the server through the proxy.
func (p *Proxy) Target() backend.Target {
	t := p.target
	t.Network, t.Addr = "tcp", p.Addr()
	return t
}

// LoseReply has the command executed, and loses its reply together with the connection: when the client notices, the
// command has been executed. Replies before it are delivered; commands after it on the same connection are lost.
func (p *Proxy) LoseReply(m Match) *Trap { return p.arm(&Trap{match: m, reply: true, lose: true}) }

// LoseCommand ends the connection before the command reaches the server. When the client notices, commands before it have
// been executed.
func (p *Proxy) LoseCommand(m Match) *Trap { return p.arm(&Trap{match: m, lose: true}) }

// Hold holds the command, and those after it on the same connection, before it reaches the server.
func (p *Proxy) Hold(m Match) *Trap { return p.arm(&Trap{match: m}) }

// HoldReply holds the command's reply, and what the server says after it on the same connection.
func (p *Proxy) HoldReply(m Match) *Trap { return p.arm(&Trap{match: m, reply: true}) }

// Deafen drops the messages of subscriptions that are published from now on, until Heal; all else passes.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
}

func (p *Proxy) isDeaf() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deaf
}

// Heal ends what Partition, Pull and Deafen began.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.deaf = false
	p.mu.Unlock()
	p.Line.Heal()
}

// Record begins to note the commands that come, and forgets those noted before: an operation is rehearsed between Record
// and Commands, and then done again with a trap at its n-th command.
func (p *Proxy) Record() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record, p.names = true, nil
}

// Commands are the names, in lower case, of the commands that came since Record on all connections, in order.
func (p *Proxy) Commands() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

func (p *Proxy) arm(t *Trap) *Trap {
	t.proxy, t.left = p, max(t.match.Nth, 1)
	t.reached, t.open = make(chan struct{}), make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, t)
	return t
}

func (p *Proxy) disarm(t *Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = slices.DeleteFunc(p.traps, func(other *Trap) bool { return other == t })
}

// meet notes a command and returns the traps that catch it, which are then no longer set.
func (p *Proxy) meet(number int, c command) (caught []*Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record {
		p.names = append(p.names, c.name)
	}
	script := p.learn(c)
	p.traps = slices.DeleteFunc(p.traps, func(t *Trap) bool {
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

// learn remembers the script of a command that brings one, and returns that of an EVALSHA.
func (p *Proxy) learn(c command) string {
	switch {
	case (c.name == "eval" || c.name == "eval_ro") && len(c.args) > 0:
		p.remember(c.args[0])
	case c.name == "script" && len(c.args) == 2:
		p.remember(c.args[1])
	case (c.name == "evalsha" || c.name == "evalsha_ro") && len(c.args) > 0:
		return p.scripts[c.args[0]]
	}
	return ""
}

func (p *Proxy) remember(script string) {
	sum := sha1.Sum([]byte(script))
	p.scripts[hex.EncodeToString(sum[:])] = script
}
