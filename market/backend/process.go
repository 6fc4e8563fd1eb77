package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

const (
	stopGrace = 2 * time.Second // how long a process may take to end on request before it is killed
	portTries = 5
	logBytes  = 2048
	logLines  = 6
)

// errEnded is returned by [Process.Await] for a process that ended instead of serving.
var errEnded = errors.New("the server ended as soon as it was started")

// A Process is a child process in a process group of its own, so that the terminal's Ctrl-C does not reach it. On Linux
// it dies with this process however that ends. The end of its output is kept for error messages.
type Process struct {
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{}    // closed when the process has been reaped
	state  *os.ProcessState // set before exited is closed
}

// StartProcess starts a program in a folder, which stays the caller's. If prepare is not nil, it may change the
// process's environment, its input and its output, which is then not kept for error messages.
func StartProcess(program, folder string, args []string, prepare func(*exec.Cmd)) (*Process, error) {
	log := &tail{}
	p := &Process{cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	p.cmd.Dir = folder
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A child that outlives its killer's pipe must not delay Wait.
	p.cmd.WaitDelay = stopGrace
	detach(p.cmd)
	if prepare != nil {
		prepare(p.cmd)
	}

	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return p, nil
}

// run starts the process and waits for it on one operating system thread. On Linux the child is killed when the
// thread that started it ends, not when the process does, so the thread has to live as long as the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.cmd.Wait() // how it ended matters only to ended, through state
	p.state = p.cmd.ProcessState
	close(p.exited)
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as a crash would and returns when it is gone, so that its ports are free.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// Pause stops the process where it is (SIGSTOP), until Resume. The error wraps [ErrUnavailable] where the operating
// system cannot do that.
func (p *Process) Pause() error { return pause(p.cmd.Process) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return resume(p.cmd.Process) }

// Close asks the process to end, kills it after two seconds if it has not ended, and returns when it is gone.
func (p *Process) Close() error {
	if err := terminate(p.cmd.Process); err != nil {
		return p.Kill()
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopGrace):
		return p.Kill()
	}
}

// Log is the end of its output, about 2 KB.
func (p *Process) Log() string { return p.log.String() }

// Await calls check again and again until it returns nil, which means that the process serves. It returns an error when
// the process ends instead or when the context ends.
func (p *Process) Await(ctx context.Context, every time.Duration, check func() error) error {
	err := Await(ctx, every, func() error {
		err := check()
		select {
		case <-p.exited:
			return p.ended()
		default:
			return err
		}
	})
	if err == nil || errors.Is(err, errEnded) {
		return err
	}
	return fmt.Errorf("the server did not answer: %w; the end of its log:\n%s", err, p.log.end())
}

// ended says why the process ended, in its own words.
func (p *Process) ended() error {
	log := p.log.end()
	if strings.Contains(strings.ToLower(log), "address already in use") {
		return fmt.Errorf("%w: its port was taken by another process", errEnded)
	}
	return fmt.Errorf("%w (%v); the end of its log:\n%s", errEnded, p.state, log)
}

// Await calls check until it returns nil, and waits between two calls. When the context ends, the error wraps the
// context's cause and what check returned last.
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

// OnFreePorts calls start with n different ports of 127.0.0.1 on which nobody listens. Another process may take one
// before it is used: when a server that start waited for with [Process.Await] has ended at once, OnFreePorts tries
// again with other ports.
func OnFreePorts(ctx context.Context, n int, start func(ports []string) error) error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ports, err := freePorts(ctx, n)
		if err != nil {
			return fmt.Errorf("finding a free port: %w", err)
		}
		if err = start(ports); !errors.Is(err, errEnded) || try == portTries {
			return err
		}
	}
}

func freePorts(ctx context.Context, n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		// Each is held until all are found, or one could be found twice.
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		if _, ports[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			return nil, err
		}
	}
	return ports, nil
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
	if over := len(t.kept) - logBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// String returns what was kept, without Java's stack traces, which would fill the end of it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	for line := range strings.Lines(string(t.kept)) {
		if !strings.HasPrefix(line, "\tat ") {
			text.WriteString(line)
		}
	}
	return strings.TrimSpace(text.String())
}

// end returns the last lines.
func (t *tail) end() string {
	lines := strings.Split(t.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-logLines):], "\n")
}
