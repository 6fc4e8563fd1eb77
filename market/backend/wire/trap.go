package wire

import (
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
	Nth  int // how many of these commands it takes, from when this was armed; 0 is 1
}

// fits reports whether the command is one of these; script is what an EVALSHA names.
func (m Match) fits(number int, c command, script string) bool {
	if m.Conn != 0 && m.Conn != number || m.Command != "" && !strings.EqualFold(m.Command, c.name) {
		return false
	}
	return m.Text == "" || strings.Contains(strings.Join(c.args, "\n"), m.Text) || strings.Contains(script, m.Text)
}

// A Trap is set for one command, which it catches at most once.
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

// Open lets go what is held, and disarms a trap that has caught nothing. It may be called more than once. A client that
// hung up meanwhile does not keep its command from being executed.
func (t *Trap) Open() {
	t.proxy.disarm(t)
	t.opened.Do(func() { close(t.open) })
}

// spring is called where the trap's moment has come. It reports whether the connection is to go on.
func (t *Trap) spring(c *conn) bool {
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
