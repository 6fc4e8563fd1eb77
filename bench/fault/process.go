package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/marketsim/marketsim/market/backend"
)

// childEnv marks a process that startProcess has started: this program once more, as a client in a scenario, because only a
// process can be paused or killed with everything that runs in it. The two talk in lines of JSON.
const childEnv = "MARKETSIM_CHILD"

// A process is a child, seen from its parent. On Linux it dies with its parent however that ends; elsewhere its input
// ends, and serveProcess with it.
type process struct {
	*backend.Process
	in, out *os.File
	receive *json.Decoder

	mu   sync.Mutex
	send *json.Encoder
}

// startProcess starts this program in a folder, as a client.
func startProcess(folder string) (*process, error) {
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
	p := &backend.Process{
		Program: program, Folder: folder, Env: append(os.Environ(), childEnv+"=1"), Stdin: childIn, Stdout: childOut,
	}
	err = p.Start(context.Background())
	childIn.Close()
	childOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &process{Process: p, in: in, out: out, receive: json.NewDecoder(out), send: json.NewEncoder(in)}, nil
}

// tell sends the child a value. It is safe for concurrent use.
func (p *process) tell(value any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.send.Encode(value)
}

// hear waits for the child's next value. It returns an error when there are no more, and is then not called again.
// One goroutine has to call it until then.
func (p *process) hear(value any) error {
	err := p.receive.Decode(value)
	if err != nil {
		p.out.Close()
	}
	return err
}

// Kill ends the child at once, paused or not, and returns when it is gone. It may be called more than once.
func (p *process) Kill() error {
	err := p.Process.Kill()
	p.in.Close()
	return err
}

// serveProcess plays a client if this process was started for it, and then ends the process. In any other process it returns at
// once. The function gets what the parent sends, and writes what the parent receives, until its input ends.
func serveProcess(serve func(in io.Reader, out io.Writer) error) {
	if os.Getenv(childEnv) == "" {
		return
	}
	backend.QuietLogs()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
