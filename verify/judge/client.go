package judge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
)

// A client is one copy of the author's program: a process group behind a gate of its own. What it does comes as events.
type client struct {
	name    string
	command []string
	gate    *wire.Proxy
	events  chan<- event
	life    *life     // the process that runs; nil: none
	copies  io.Writer // gets its standard error, too
	*guardian
}

// A life is one run of the program.
type life struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	ended  chan struct{}
	mu     sync.Mutex
	stderr []string // the last lines
}

// An event is what a client has done: it has said a line, its program has ended, or a request waits at its gate.
type event struct {
	client *client
	life   *life      // whose line or end it is
	line   string     // empty: it has ended
	held   *wire.Held // nil: it is no request
}

// lastLines is how many lines of standard error are shown with a failure.
const lastLines = 20

// newClient makes a client before a server, with no program running yet.
func newClient(name string, command []string, server backend.Target, events chan<- event) (*client, error) {
	c := &client{name: name, command: command, events: events}
	var err error
	c.gate, err = wire.StartGate(func() (net.Conn, error) { return backend.Connect(context.Background(), server) })
	return c, err
}

// start starts the program.
func (c *client) start(lease time.Duration) error {
	host, port, err := net.SplitHostPort(c.gate.Addr())
	if err != nil {
		return err
	}
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Env = append(os.Environ(), "REDIS_HOST="+host, "REDIS_PORT="+port, "REDIS_URL=redis://"+c.gate.Addr(),
		fmt.Sprintf("LOCK_TTL_MS=%d", lease.Milliseconds()), "LOCK_RETRY_MS=2", "KEY_PREFIX=", "PYTHONUNBUFFERED=1", c.mark)
	cmd.SysProcAttr = group()
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	said, errSaid := cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errSaid, cmd.Start()); err != nil {
		return fmt.Errorf("starting %s: %w", c.command[0], err)
	}
	l := &life{cmd: cmd, in: in, ended: make(chan struct{})}
	c.life = l
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.events <- event{client: c, life: l, line: strings.TrimSpace(lines.Text()) + " "}
		}
		_, _ = io.Copy(io.Discard, out) // after a line that is too long
	})
	reading.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			_, _ = fmt.Fprintln(c.copies, c.name+": "+lines.Text())
			l.mu.Lock()
			l.stderr = append(l.stderr, lines.Text())
			l.stderr = l.stderr[max(0, len(l.stderr)-lastLines):]
			l.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, said)
	})
	go func() {
		reading.Wait()
		_ = cmd.Wait() // how it ended does not matter
		c.events <- event{client: c, life: l}
		close(l.ended)
	}()
	return nil
}

// say tells the program what to do. A program that has ended is noticed by its end.
func (c *client) say(words ...string) {
	if c.life != nil {
		_, _ = fmt.Fprintln(c.life.in, strings.Join(words, " "))
	}
}

// kill ends the program and its connections.
func (c *client) kill() {
	c.signal(end)
	c.gate.Cut()
	c.life = nil
}

// close ends the client for good.
func (c *client) close() error {
	l := c.life
	c.kill()
	if l != nil {
		<-l.ended
	}
	return c.gate.Close()
}
