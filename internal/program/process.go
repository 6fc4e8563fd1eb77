package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"syscall"
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
	Mark      string        // of the Guardian that kills what is left of it
	Stderr    io.Writer     // gets its standard error, too; nil: nothing does
}

// environment is that of this process, with what the program has to know.
func (l Launch) environment() []string {
	return append(os.Environ(),
		"REDIS_HOST="+l.Server.Hostname(), "REDIS_PORT="+l.Server.Port(), "REDIS_URL="+l.Server.String(),
		fmt.Sprintf("LOCK_TTL_MS=%d", l.Lease.Milliseconds()), "LOCK_RETRY_MS=2",
		"KEY_PREFIX="+l.KeyPrefix, "PYTHONUNBUFFERED=1", l.Mark)
}

// A Child is one run of a program, with all the processes that this starts: none of them
// outlives it, nor this process.
type Child struct {
	cmd      *exec.Cmd // of its guardian, where the system has one
	pid      int       // of the program, and of its process group
	lifeline io.Closer // the guardian kills what is left once it is closed
	in       *os.File
	outputs  []*os.File // standard output and standard error
	unended  unendedLine
	ended    chan struct{}

	noteFirst sync.Once
	firstLine chan struct{} // closed when a line of standard error was read, or its end

	mu       sync.Mutex // guards what follows
	stderr   []string   // its last lines
	released bool       // its process id may be another's from now on
}

// Start starts the program. It has hear called with each line of its standard output and
// then with its end, in other goroutines, one call at a time.
func (l Launch) Start(hear func(Output)) (*Child, error) {
	p := &Child{ended: make(chan struct{}), firstLine: make(chan struct{})}
	if err := p.start(l); err != nil {
		return nil, startError(l.Command[0], err)
	}

	var reading sync.WaitGroup
	reading.Go(func() { p.readOutput(hear) })
	reading.Go(func() { p.readStderr(l) })
	go func() {
		// The end is heard after all lines. release comes before Wait: it is what ends a guardian.
		reading.Wait()
		p.release()
		_ = p.cmd.Wait() // how it ended does not matter
		hear(Output{From: p, Ended: true})
		close(p.ended)
	}()
	return p, nil
}

// start starts the process with pipes for its standard files.
func (p *Child) start(l Launch) error {
	stdin, in, errIn := os.Pipe()
	out, stdout, errOut := os.Pipe()
	diagnostics, stderr, errStderr := os.Pipe()
	p.in = in
	p.outputs = []*os.File{out, diagnostics}
	err := errors.Join(errIn, errOut, errStderr)

	if err == nil {
		p.cmd = exec.Command(l.Command[0], l.Command[1:]...)
		p.cmd.Env = l.environment()
		p.cmd.Stdin = stdin
		p.cmd.Stdout = stdout
		p.cmd.Stderr = stderr
		p.pid, p.lifeline, err = startGuarded(p.cmd)
	}
	for _, theirs := range []*os.File{stdin, stdout, stderr} {
		theirs.Close() // which may be nil
	}
	if err != nil {
		p.closeFiles()
	}
	return err
}

// ErrStart is the cause of errors about programs that cannot be started as they are.
var ErrStart = errors.New("it cannot be run")

// startError says why a program did not start, and what to do about it.
func startError(program string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		const step = "a script needs a first line such as #!/bin/sh, or its interpreter before it"
		return fmt.Errorf("starting %s: %w: %w: %s", program, ErrStart, err, step)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("starting %s: %w: %w", program, ErrStart, err)
	}
	return fmt.Errorf("starting %s: %w", program, err)
}

// closeFiles closes this process's ends of all pipes: then nothing waits for them.
func (p *Child) closeFiles() {
	for _, file := range append(p.outputs, p.in) {
		file.Close() // which may be nil, or closed already
	}
}

// release has the guardian kill what is left of the program, and signals nothing any more.
func (p *Child) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
	_ = p.lifeline.Close() // it may be closed already
}

// readOutput has each line of standard output heard.
func (p *Child) readOutput(hear func(Output)) {
	readLines(p.outputs[0], &p.unended, func(line string, cut bool) {
		hear(Output{From: p, Line: line, Cut: cut})
	})
}

// lastLines is how many lines of standard error are shown with a failure.
const lastLines = 20

// readStderr keeps the last lines of standard error.
func (p *Child) readStderr(l Launch) {
	readLines(p.outputs[1], nil, func(line string, _ bool) {
		_, _ = fmt.Fprintln(cmp.Or(l.Stderr, io.Discard), l.Name+": "+line)

		p.mu.Lock()
		p.stderr = append(p.stderr, line)
		p.stderr = p.stderr[max(0, len(p.stderr)-lastLines):]
		p.mu.Unlock()
		p.noteFirst.Do(func() { close(p.firstLine) })
	})
	p.noteFirst.Do(func() { close(p.firstLine) })
}

// Unheard reports whether the program has said something that was not read yet.
func (p *Child) Unheard() bool { return unread(p.outputs[0]) }

// tellLimit is how long Tell waits for a program that does not read.
const tellLimit = time.Second

// Tell writes a request to the program. It ignores a failed write: the end of a program
// is heard of anyway, and so is the silence of one that does not read.
func (p *Child) Tell(request string) {
	_ = p.in.SetWriteDeadline(time.Now().Add(tellLimit))
	_, _ = fmt.Fprintln(p.in, request)
}

// firstLineLimit is how long LastLines waits for a first line: what a program has written
// before its answer may be read after it.
const firstLineLimit = time.Second / 2

// LastLines are what it has said without the end of a line, and the last lines of its
// standard error, as the end of an error's text.
func (p *Child) LastLines() string {
	select {
	case <-p.firstLine:
	case <-time.After(firstLineLimit):
	}

	text := p.unended.explanation()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stderr) == 0 {
		return text
	}

	text += "; its last lines are"
	for _, line := range p.stderr {
		text += "\n\t" + wording.Excerpt(line, wording.ExcerptBytes/4)
	}
	return text
}

// waitLimit is how long Wait waits: longer than a guardian takes.
const waitLimit = 10 * time.Second

// Wait returns when the program has ended, and nobody holds its output open any more. It
// gives up what cannot be killed.
func (p *Child) Wait() {
	select {
	case <-p.ended:
		return
	case <-time.After(waitLimit):
	}

	p.closeFiles()
	_ = p.cmd.Process.Kill() // it may have ended
	select {
	case <-p.ended:
	case <-time.After(time.Second): // which comes after hear, and that may wait for somebody
	}
}

// Close ends the program, and all that it has started.
func (p *Child) Close() {
	p.Kill()
	_ = p.in.Close() // it may be closed already
	p.Wait()
}
