package judge

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/wire"
)

// A client is one copy of the author's program, behind a gate of its own. What it does,
// events tell.
type client struct {
	program.Launch
	number  int // in the world
	gate    *wire.Proxy
	clock   *wire.Clock // as its gate has it
	events  chan<- event
	process *program.Child // nil: none runs

	// Of the schedule that is played.
	waiting       []*wire.Held // requests at its gate
	late          []*wire.Held // requests that are on their way for long
	pausedSince   time.Time    // zero: it is not stopped
	putOff        bool         // it begins only after a lease has passed
	renewals      []heldRenewal
	passed        time.Time       // when the last of its renewals did
	renewalChosen bool            // since it has acquired the lock; also if none came then
	others        map[string]bool // its renewals of other locks, which it does not hold any more
}

// An event is what a client has done: a request waits at its gate, or its program has
// said a line or has ended. Gates and programs send events from goroutines of their own; one
// goroutine at a time does all else in a world.
type event struct {
	client *client
	held   *wire.Held     // nil: it is no request
	output program.Output // otherwise
}

// start starts the program, and has its lines and its end sent to events.
func (c *client) start(lease time.Duration) (err error) {
	c.Lease = lease
	c.process, err = c.Launch.Start(func(o program.Output) {
		c.events <- event{client: c, output: o}
	})
	return err
}

// runs reports whether its program runs, and is not stopped.
func (c *client) runs() bool { return c.process != nil && c.pausedSince.IsZero() }

// tell tells the program what to do, if it runs.
func (c *client) tell(request string) {
	if c.process != nil {
		c.process.Tell(request)
	}
}

// kill ends the program and its connections.
func (c *client) kill() {
	if c.process != nil {
		c.process.Kill()
	}
	c.gate.Cut()
	c.process = nil
}

// loses forgets all that the client has sent: its gate was cut, and so nothing of it is executed,
// what was late included.
func (c *client) loses() {
	c.waiting = nil
	c.renewals = nil
	c.late = nil
}

// close ends the client for good.
func (c *client) close() error {
	p := c.process
	c.kill()
	if p != nil {
		p.Wait()
	}
	return c.gate.Close()
}

// wrong is the ErrAdapter of a client that does not answer a request as it should, with
// what may explain it.
func (c *client) wrong(request string, cause error) error {
	return fmt.Errorf("%w: %w", ErrAdapter, program.WrongAnswer(request, cause, c.explanation()))
}

// explanation says that a client has sent nothing, or needs what its server is not, and
// ends with its standard error.
func (c *client) explanation() (text string) {
	commands := c.gate.Commands()
	if len(commands) == 0 {
		text = fmt.Sprintf("; it has sent nothing to %s, which REDIS_HOST, REDIS_PORT and REDIS_URL name",
			c.gate.Addr())
	}
	for _, user := range c.gate.Refused() {
		text += fmt.Sprintf("; user %d has connected to %s, which admits only user %d, "+
			"as whom the program has to run", user, c.gate.Addr(), os.Geteuid())
	}
	var asked []string
	for _, name := range []string{"auth", "cluster", "readonly", "sentinel", "tls"} {
		if slices.Contains(commands, name) {
			asked = append(asked, strings.ToUpper(name))
		}
	}
	if len(asked) > 0 {
		text += fmt.Sprintf("; it has asked for %s, and is given a single server "+
			"without TLS and without a password", strings.Join(asked, " and "))
	}

	if c.process != nil { // kill forgets it: callers ask for the explanation first
		text += c.process.LastLines()
	}
	return text
}
