// Package process starts programs of this machine, waits until they serve, and ends them:
// servers, and programs that are judged or that take part in a scenario. Each has a
// folder of its own, which the next start removes if this process is killed.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// A busy machine is slow, and so is a disk when a server reads what it wrote.
	readyTimeout = time.Minute
	readyPoll    = 5 * time.Millisecond
	stopGrace    = 2 * time.Second // how long a process may take to end on request before it is killed
	logBytes     = 2048
	logLines     = 6
)

// ErrUnavailable says that this machine lacks a program, or a server a command.
var ErrUnavailable = errors.New("not available")

// errEnded is returned by [Process.Start] for a process that ended instead of serving.
var errEnded = errors.New("the server ended as soon as it was started")

// A Process is a program that runs for this one, in a process group of its own,
// so that the terminal's Ctrl-C does not reach it. On Linux it dies with this
// process however that ends. It may be started again, but not after Close. The
// methods are safe for concurrent use; those for a process that runs may be
// called once Start has returned nil.
type Process struct {
	Name    string // what it is, in the name of its folder
	Program string
	Args    []string
	Env     []string // in place of this process's; nil: that
	// Which it reads from its standard input each time it starts; nobody else sees it.
	Input         string
	Stdin, Stdout *os.File // nil: Input, and the log
	// In which it runs, and whose mark it inherits; nil: one of its own, which
	// Close removes.
	Folder *Folder

	// Ready says why the process with this id does not serve yet. If it is nil, it serves at
	// once. It is called with mu locked: it must not call methods of its Process.
	Ready func(ctx context.Context, pid int) error

	mu   sync.Mutex
	run  *run // the last one; nil: none
	owns bool // Folder is its own
}

type run struct {
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{} // closed when the process has been reaped
}

// MakeFolder makes the folder of its own, if there is no folder yet.
func (p *Process) MakeFolder() (err error) {
	if p.Folder != nil {
		return nil
	}
	p.Folder, err = MakeFolder(p.Name)
	p.owns = err == nil
	return err
}

// Start starts the process and returns when it serves, within a minute. The error holds
// the end of its log if it ends. After another error it may still run, until Close.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(); err != nil || p.Ready == nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := Await(ctx, readyPoll, func() error {
		err := p.Ready(ctx, p.run.cmd.Process.Pid)
		// Asked after Ready: a process that has ended does not serve, whatever Ready has found.
		select {
		case <-p.run.exited:
			return p.run.ended()
		default:
			return err
		}
	})

	if err == nil || errors.Is(err, errEnded) {
		return err
	}
	return fmt.Errorf("the server did not answer: %w; the end of its log:\n%s", err, p.run.log)
}

// Run runs the process to its end, and kills it when the context ends. The error holds
// the end of its log if it failed. Kill and Close wait until it has ended.
func (p *Process) Run(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(); err != nil {
		return err
	}

	select {
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.run.kill())
	case <-p.run.exited:
	}

	if state := p.run.cmd.ProcessState; !state.Success() {
		return fmt.Errorf("%s: %v; the end of its log:\n%s", p.Program, state, p.run.log)
	}
	return nil
}

// begin starts the process in its folder. Its caller holds p.mu. After an error p.run is as
// it was.
func (p *Process) begin() error {
	if err := p.MakeFolder(); err != nil {
		return err
	}

	r := &run{cmd: exec.Command(p.Program, p.Args...), log: &tail{}, exited: make(chan struct{})}
	r.cmd.Dir, r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = p.Folder.Path, p.Env, r.log, r.log
	r.cmd.Stdin = strings.NewReader(p.Input)
	if p.Stdin != nil { // then Stdout is set, too: a nil *os.File would be no nil io.Writer
		r.cmd.Stdin, r.cmd.Stdout = p.Stdin, p.Stdout
	}
	r.cmd.WaitDelay = stopGrace // a child of its own that keeps its output open must not delay Wait
	detach(r.cmd, p.Folder.mark)

	started := make(chan error)
	go r.wait(started)
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", p.Program, err)
	}
	p.run = r
	return nil
}

// wait starts the process and waits for it on one operating system thread. On Linux the
// child is killed when the thread that started it ends, not when the process does, so the
// thread has to live as long as the child.
func (r *run) wait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = r.cmd.Wait() // how it ended matters only to ended, which asks cmd
	close(r.exited)
}

func (p *Process) last() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// PID is its process id.
func (p *Process) PID() int { return p.last().cmd.Process.Pid }

// Log is the end of its output: the last lines, of 2 KB at most.
func (p *Process) Log() string { return p.last().log.String() }

// Kill ends the process as a crash would and returns when its ports are free.
// Close must still be called.
func (p *Process) Kill() error { return p.last().kill() }

func (r *run) kill() error {
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.exited
	return nil
}

// Restart kills the process if it still runs and starts it again with the same
// arguments. A server finds what it wrote to disk: a backend.Local nothing, unless
// its arguments say otherwise.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Kill(); err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return fmt.Errorf("starting %s again: %w", p.Program, err)
	}
	return nil
}

// Pause stops the process where it is (SIGSTOP). The error wraps [ErrUnavailable]
// where the system cannot do that.
func (p *Process) Pause() error { return pause(p.last().cmd.Process) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return resume(p.last().cmd.Process) }

// Close asks the process to end, kills it after two seconds, and returns when it is
// gone and so is its own folder.
func (p *Process) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		err = p.run.close()
	}
	if p.owns {
		err = errors.Join(err, p.Folder.Remove())
	}
	return err
}

func (r *run) close() error {
	if err := terminate(r.cmd.Process); err != nil {
		return r.kill()
	}
	select {
	case <-r.exited:
		return nil
	case <-time.After(stopGrace):
		return r.kill()
	}
}

// ended says why the process ended, in its own words.
func (r *run) ended() error {
	log := r.log.String()
	if strings.Contains(strings.ToLower(log), "address already in use") {
		return fmt.Errorf("%w: its port was taken by another process", errEnded)
	}
	return fmt.Errorf("%w (%v); the end of its log:\n%s", errEnded, r.cmd.ProcessState, log)
}

// Find finds the first of several programs in PATH. The error wraps [ErrUnavailable] and
// names pack, a Debian package.
func Find(pack string, programs ...string) (string, error) {
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %s in PATH (apt-get install %s): %w", strings.Join(programs, " or "), pack, ErrUnavailable)
}

// Await calls check until it returns nil. When the context ends, the error wraps its
// cause and what check said last.
func Await(ctx context.Context, every time.Duration, check func() error) error {
	for {
		err := check()
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(every):
		}
	}
}

// tail is an io.Writer that keeps the last lines written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-logBytes):]
	return len(b), nil
}

// String returns the last lines, without Java's stack traces, which would fill them.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Collect(strings.Lines(strings.TrimSpace(string(t.kept))))
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "\tat ") })
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-logLines):], ""))
}
