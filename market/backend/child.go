package backend

import (
	"context"
	"fmt"
	"net"
	"os/exec"
)

// A Child is the process of a server that is not Redis, treated as [Local] treats one: in a process group of its
// own, ended with this process on Linux however that ends, its last output kept for error messages.
type Child struct{ process *process }

// StartChild starts program in folder, which stays the caller's.
func StartChild(program, folder string, args []string) (*Child, error) {
	return StartChildWith(program, folder, args, func(*exec.Cmd) {})
}

// StartChildWith is StartChild for a process that needs more than arguments: prepare may change its environment, its
// input and its output, which is then not in Log.
func StartChildWith(program, folder string, args []string, prepare func(*exec.Cmd)) (*Child, error) {
	p, err := startProcess(program, folder, args, prepare)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return &Child{process: p}, nil
}

// PID is its process id.
func (c *Child) PID() int { return c.process.pid() }

// Kill ends it as a crash would and returns when it is gone.
func (c *Child) Kill() error { return c.process.kill() }

// Close asks it to end, kills it if it does not, and returns when it is gone.
func (c *Child) Close() error { return c.process.close() }

// Exited is closed when it is gone.
func (c *Child) Exited() <-chan struct{} { return c.process.exited }

// Log is the end of what it wrote, about 2 KB.
func (c *Child) Log() string {
	c.process.log.mu.Lock()
	defer c.process.log.mu.Unlock()
	return string(c.process.log.kept)
}

// FreePorts returns n different ports of 127.0.0.1 that nobody listens on. Another process may take one before it is
// used: a caller has to be ready to try again.
func FreePorts(ctx context.Context, n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		// Each is held until all are found, or one could be found twice.
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close()
		if _, ports[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			return nil, err
		}
	}
	return ports, nil
}
