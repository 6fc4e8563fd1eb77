package backend

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// stopGrace is how long a server may take to end on request before it is killed.
const stopGrace = 2 * time.Second

// process is a child process whose output is kept for error messages.
type process struct {
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{}    // closed when the process has been reaped
	state  *os.ProcessState // set before exited is closed
}

// startProcess starts program in folder, out of reach of the terminal's Ctrl-C.
func startProcess(program, folder string, args []string, prepare ...func(*exec.Cmd)) (*process, error) {
	log := &tail{}
	p := &process{cmd: exec.Command(program, args...), log: log, exited: make(chan struct{})}
	p.cmd.Dir = folder
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A child that outlives its killer's pipe must not delay Wait.
	p.cmd.WaitDelay = stopGrace
	detach(p.cmd)
	for _, prepare := range prepare {
		prepare(p.cmd)
	}

	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for it on one operating system thread. On Linux the child is killed when the
// thread that started it ends, not when the process does, so the thread has to live as long as the child.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.cmd.Wait() // how it ended matters only to exitError, through state
	p.state = p.cmd.ProcessState
	close(p.exited)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process as a crash would and returns when it is gone, so that its port is free.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	return nil
}

// close asks the process to end, and kills it if it does not.
func (p *process) close() error {
	if err := terminate(p.cmd.Process); err != nil {
		return p.kill()
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopGrace):
		return p.kill()
	}
}

// tail is an io.Writer that keeps the last lines written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 2048

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// String returns up to six whole lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}
