package program

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/marketsim/marketsim/internal/wording"
)

// A Launch is how an author's program is started, and what its environment tells it.
type Launch struct {
	Name      string // of this copy
	Command   []string
	Server    url.URL
	KeyPrefix string
	Lease     time.Duration // that its locks are to have
	Mark      string        // of the Guardian that kills it if this process is killed
	Stderr    io.Writer     // gets its standard error, too; nil: nothing does
}

// environment is that of this process, with what the program has to know.
func (l Launch) environment() []string {
	return append(os.Environ(),
		"REDIS_HOST="+l.Server.Hostname(), "REDIS_PORT="+l.Server.Port(), "REDIS_URL="+l.Server.String(),
		fmt.Sprintf("LOCK_TTL_MS=%d", l.Lease.Milliseconds()), "LOCK_RETRY_MS=2",
		"KEY_PREFIX="+l.KeyPrefix, "PYTHONUNBUFFERED=1", l.Mark)
}

// A Child is one run of a program. It has a process group of its own, which its
// children share unless they leave it.
type Child struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	ended     chan struct{}
	noteFirst sync.Once
	firstLine chan struct{} // closed when a line of standard error was read, or its end
	mu        sync.Mutex    // guards stderr
	stderr    []string      // its last lines
}

// Start starts the program. It has hear called with each line of its standard output and
// then with its end, in another goroutine.
func (l Launch) Start(hear func(Output)) (*Child, error) {
	cmd := exec.Command(l.Command[0], l.Command[1:]...)
	cmd.Env = l.environment()
	cmd.SysProcAttr = ownGroup()

	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	stderr, errStderr := cmd.StderrPipe()
	err := errors.Join(errIn, errOut, errStderr, cmd.Start())
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", l.Command[0], err)
	}

	p := &Child{cmd: cmd, in: in, ended: make(chan struct{}), firstLine: make(chan struct{})}
	var reading sync.WaitGroup
	reading.Go(func() { p.readOutput(out, hear) })
	reading.Go(func() { p.readStderr(stderr, l) })
	go func() {
		reading.Wait()
		_ = cmd.Wait() // how it ended does not matter
		hear(Output{From: p, Ended: true})
		close(p.ended)
	}()
	return p, nil
}

// readOutput has each line of standard output heard. A line that is too long ends that;
// the rest is read nevertheless, or the program would block.
func (p *Child) readOutput(out io.Reader, hear func(Output)) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		hear(Output{From: p, Line: strings.TrimSpace(lines.Text())})
	}
	_, _ = io.Copy(io.Discard, out)
}

// lastLines is how many lines of standard error are shown with a failure.
const lastLines = 20

// readStderr keeps the last lines of standard error.
func (p *Child) readStderr(stderr io.Reader, l Launch) {
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		_, _ = fmt.Fprintln(cmp.Or(l.Stderr, io.Discard), l.Name+": "+lines.Text())

		p.mu.Lock()
		p.stderr = append(p.stderr, lines.Text())
		p.stderr = p.stderr[max(0, len(p.stderr)-lastLines):]
		p.mu.Unlock()
		p.noteFirst.Do(func() { close(p.firstLine) })
	}
	p.noteFirst.Do(func() { close(p.firstLine) })
	_, _ = io.Copy(io.Discard, stderr)
}

// Tell writes a request to the program. It ignores a failed write: the end of a program
// is heard of anyway.
func (p *Child) Tell(request string) { _, _ = fmt.Fprintln(p.in, request) }

// firstLineLimit is how long LastLines waits for a first line: what a program has written
// before its answer may be read after it.
const firstLineLimit = time.Second / 2

// LastLines are the last lines of its standard error, as the end of an error's text.
func (p *Child) LastLines() string {
	select {
	case <-p.firstLine:
	case <-time.After(firstLineLimit):
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stderr) == 0 {
		return ""
	}

	text := "; its last lines are"
	for _, line := range p.stderr {
		text += "\n\t" + wording.Excerpt(line, wording.ExcerptBytes/4)
	}
	return text
}

// Wait returns when the program has ended, and nobody holds its output open any more.
func (p *Child) Wait() { <-p.ended }

// closeLimit is how long Close waits for processes that have left the group.
const closeLimit = time.Second

// Close ends the program. Processes in other groups, which may keep its output open, it
// leaves alone.
func (p *Child) Close() {
	p.Kill()
	_ = p.cmd.Process.Kill() // for systems without groups
	_ = p.in.Close()         // it may be closed already

	select {
	case <-p.ended:
	case <-time.After(closeLimit):
	}
}
