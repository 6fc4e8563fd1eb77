package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/marketsim/marketsim/market/backend"
)

// childEnv marks a process that startProcess has started: this program once more, as a client in a scenario, because
// only a process can be paused or killed with everything that runs in it. The two talk in lines of JSON.
const childEnv = "MARKETSIM_CHILD"

// A process is a child, seen from its parent. On Linux it dies with its parent however that ends; elsewhere its input
// ends, and ServeChild with it.
type process struct {
	*backend.Process
	in, out *os.File
	receive *json.Decoder
	send    *json.Encoder
}

// startProcess starts this program in a folder, as a client.
func startProcess(folder *backend.Folder) (*process, error) {
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

// Kill ends the child at once, paused or not, and returns when it is gone. It may be called more than once.
func (p *process) Kill() error {
	err := p.Process.Kill()
	p.in.Close()
	return err
}
