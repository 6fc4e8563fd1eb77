// Package child starts this program once more, as a process that works for it: only a process can be paused or killed
// with everything that runs in it. The two talk in lines of JSON.
//
// The main function of the program, or TestMain in tests, must first call [Serve] with each role that it may play.
package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/marketsim/marketsim/market/backend"
)

// env marks a process that was started by Start, and holds its role.
const env = "MARKETSIM_CHILD"

// A Process is a child, seen from its parent. On Linux it dies with its parent however that ends; elsewhere its input
// ends, and Serve with it.
type Process struct {
	*backend.Process
	in, out *os.File
	receive *json.Decoder

	mu   sync.Mutex
	send *json.Encoder
}

// Start starts this program in a folder to play a role.
func Start(role, folder string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	process, err := backend.StartProcess(program, folder, nil, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), env+"="+role)
		cmd.Stdin, cmd.Stdout = childIn, childOut
	})
	childIn.Close()
	childOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &Process{Process: process, in: in, out: out, receive: json.NewDecoder(out), send: json.NewEncoder(in)}, nil
}

// Send sends the child a value. It is safe for concurrent use.
func (p *Process) Send(value any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.send.Encode(value)
}

// Receive waits for the child's next value. It returns an error when there are no more, and is then not called again.
// One goroutine has to call it until then.
func (p *Process) Receive(value any) error {
	err := p.receive.Decode(value)
	if err != nil {
		p.out.Close()
	}
	return err
}

// Kill ends the child at once, paused or not, and returns when it is gone. It may be called more than once.
func (p *Process) Kill() error {
	err := p.Process.Kill()
	p.in.Close()
	return err
}

// Serve plays a role if this process was started for it, and then ends the process. In any other process it returns at
// once. The function gets what the parent sends, and writes what the parent receives, until its input ends.
func Serve(role string, serve func(in io.Reader, out io.Writer) error) {
	if os.Getenv(env) != role {
		return
	}
	backend.QuietLogs()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
