package judge

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/excerpt"
	"github.com/marketsim/marketsim/internal/wire"
)

// A client is one copy of the author's program: a process group behind a gate of its
// own. What it does, events tell.
type client struct {
	launch
	gate   *wire.Proxy
	events chan<- event
	*life  // the process that runs; nil: none
}

// A launch is how the author's program is started, and what its environment tells it.
type launch struct {
	name    string // of this copy
	command []string
	server  url.URL
	prefix  string // of its keys
	lease   time.Duration
	mark    string    // an environment variable by which the guardian finds the process
	copies  io.Writer // gets its standard error, too; nil: nothing does
}

// A life is one run of the program.
type life struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	ended  chan struct{}
	mu     sync.Mutex
	stderr []string // the last lines
}

// An event is what a client has done: it has said a line, its program has ended, or
// a request waits at its gate.
type event struct {
	client *client
	life   *life      // whose line or end it is
	line   string     // empty, and nothing held: it has ended
	held   *wire.Held // nil: it is no request
}

// lastLines is how many lines of standard error are shown with a failure.
const lastLines = 20

// start starts the program, and has its lines and its end sent to events.
func (c *client) start(lease time.Duration) (err error) {
	c.launch.lease = lease
	c.life, err = c.launch.start(func(l *life, line string) { c.events <- event{client: c, life: l, line: line} })
	return err
}

// start starts the program. It calls hears with each line of its output and a space,
// so that only its end is empty.
func (l launch) start(hears func(*life, string)) (*life, error) {
	cmd := exec.Command(l.command[0], l.command[1:]...)
	cmd.Env = append(os.Environ(),
		"REDIS_HOST="+l.server.Hostname(), "REDIS_PORT="+l.server.Port(), "REDIS_URL="+l.server.String(),
		fmt.Sprintf("LOCK_TTL_MS=%d", l.lease.Milliseconds()), "LOCK_RETRY_MS=2", "KEY_PREFIX="+l.prefix,
		"PYTHONUNBUFFERED=1", l.mark)
	cmd.SysProcAttr = group()
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	said, errSaid := cmd.StderrPipe()
	if err := errors.Join(errIn, errOut, errSaid, cmd.Start()); err != nil {
		return nil, fmt.Errorf("starting %s: %w", l.command[0], err)
	}
	run := &life{cmd: cmd, in: in, ended: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			hears(run, strings.TrimSpace(lines.Text())+" ")
		}
		_, _ = io.Copy(io.Discard, out) // after a line that is too long
	})
	reading.Go(func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			_, _ = fmt.Fprintln(cmp.Or(l.copies, io.Discard), l.name+": "+lines.Text())
			run.mu.Lock()
			run.stderr = append(run.stderr, lines.Text())
			run.stderr = run.stderr[max(0, len(run.stderr)-lastLines):]
			run.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, said)
	})
	go func() {
		reading.Wait()
		_ = cmd.Wait() // how it ended does not matter
		hears(run, "")
		close(run.ended)
	}()
	return run, nil
}

// say tells the program what to do. It ignores a failed write: the end of a
// program is noticed elsewhere.
func (l *life) say(words string) {
	if l != nil {
		_, _ = fmt.Fprintln(l.in, words)
	}
}

// lastSaid are the last lines of its standard error.
func (l *life) lastSaid() string {
	if l == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.stderr) == 0 {
		return ""
	}
	text := "; its last lines are"
	for _, line := range l.stderr {
		text += "\n\t" + excerpt.Of(line, excerpt.Bytes/4)
	}
	return text
}

var errSilent = errors.New("has said nothing")

func silentFor(limit time.Duration) error {
	return fmt.Errorf("%w for %s: did it flush its output?", errSilent, limit)
}

// among returns an error unless what a program said begins with one of the words. If
// said is empty, it has ended.
func among(said, words string) error {
	word, _, _ := strings.Cut(said, " ")
	switch {
	case said == "":
		return errors.New("has ended")
	case !slices.Contains(strings.Fields(words), word):
		return fmt.Errorf("said %s, not %q", quoted(said), words)
	}
	return nil
}

// wrong is the error of a program that was told something: how says what its answer
// was, more what else is known.
func wrong(told string, how error, more string) error {
	return fmt.Errorf("it was told %q, and %w%s", told, how, more)
}

// quoted is what a program said, as an error shows it.
func quoted(said string) string {
	return strconv.Quote(excerpt.Of(strings.TrimSpace(said), excerpt.Bytes))
}

// kill ends the program and its connections.
func (c *client) kill() {
	c.life.signal(end)
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

// wrong is the ErrAdapter of a client that does not answer as it should, with
// what may explain it.
func (c *client) wrong(told string, how error) error {
	return fmt.Errorf("%w: %w", ErrAdapter, wrong(told, how, c.lastWords()))
}

// lastWords says that a client has sent nothing, or needs what its server is not, and
// ends with its standard error.
func (c *client) lastWords() (said string) {
	commands := c.gate.Commands()
	if len(commands) == 0 {
		said = fmt.Sprintf("; it has sent nothing to %s, which REDIS_HOST, REDIS_PORT and REDIS_URL name", c.gate.Addr())
	}
	for _, name := range []string{"auth", "cluster", "readonly", "sentinel", "tls"} {
		if slices.Contains(commands, name) {
			said = fmt.Sprintf("; it has asked for %s, and is given a single server without TLS and without a password",
				strings.ToUpper(name))
		}
	}
	return said + c.lastSaid()
}
