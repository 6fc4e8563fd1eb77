package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// stop pauses its process, as a long garbage collection or a sleeping laptop does.
func (a *Actor) stop() { a.signal(pause) }

// wake lets a stopped process run on.
func (a *Actor) wake() { a.signal(resume) }

func (a *Actor) signal(send func(pid int) error) {
	if a.stage.failed() {
		return
	}
	if err := send(a.child.PID()); err != nil {
		a.stage.fail(fmt.Errorf("signal client %s: %w", a.name, err))
	}
}

// kill ends its process at once. What became of its operation is not known.
func (a *Actor) kill() {
	if a.dead {
		return
	}
	a.dead = true
	if err := a.child.Kill(); err != nil {
		a.stage.fail(fmt.Errorf("kill client %s: %w", a.name, err))
	}
	a.in.Close()
	for e := range a.events { // what it said before it died counts
		if e.Done != nil {
			a.op.done, a.op.outcome = true, *e.Done
		}
	}
	if a.op != nil && !a.op.done {
		a.op.done, a.op.outcome = true, Outcome{Error: errVanished.Error()}
	}
}

// startActor starts a child and casts it. It is ready when the event says so.
func startActor(s *Stage, name string, account market.UserID, cast casting) (*Actor, error) {
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
	child, err := backend.StartChildWith(program, s.lab.folder, nil, func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), childEnv+"=1")
		cmd.Stdin, cmd.Stdout = childIn, childOut
	})
	childIn.Close()
	childOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	a := &Actor{
		stage: s, name: name, account: account, child: child, in: in, tell: json.NewEncoder(in), events: make(chan event, 16),
	}
	go a.read(out)
	if err := a.tell.Encode(cast); err != nil {
		a.kill()
		return nil, fmt.Errorf("cast client %s: %w", name, err)
	}
	return a, nil
}

// read passes on what the child reports until it ends.
func (a *Actor) read(out io.ReadCloser) {
	defer close(a.events)
	defer out.Close()
	lines := json.NewDecoder(out)
	for {
		var e event
		if lines.Decode(&e) != nil {
			return
		}
		a.events <- e
	}
}
