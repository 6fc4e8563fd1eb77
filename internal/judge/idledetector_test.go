package judge

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

// A program that was given something is busy until it has run. One that ran before it was
// given that, and after the last look, passes for one that has run since.
func TestIdleDetector(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		testkit.Require(t, "proc", err.Error())
	}

	said := make(chan program.Output, 10)
	// It needs nothing but a shell: there may be no other program.
	const echoes = `while read -r line; do echo "$line"; done`
	launch := program.Launch{Command: []string{"/bin/sh", "-c", echoes}}
	p := testkit.Must(launch.Start(func(o program.Output) { said <- o }))(t)
	defer p.Close()

	gate := testkit.Must(wire.StartGate(func() (net.Conn, error) {
		return nil, net.ErrClosed
	}))(t)
	defer gate.Close()

	idle := newIdleDetector(1)
	reacts := func() bool {
		idle.busy(0, p, gate)
		return idle.clients[0].reacts
	}

	echo := func() { // returns when it has written a line, and waits for the next
		p.Tell("x")
		if o := <-said; o.Line != "x" {
			t.Fatalf("it says %+v", o)
		}
		for _, waits := p.Activity(); !waits; _, waits = p.Activity() {
			time.Sleep(lookEvery)
		}
	}

	echo()
	idle.reacts(0, true)
	if reacts() {
		t.Error("one that ran after the last look is still waited for")
	}

	idle.reacts(0, true)
	for range 2 * enoughLooks {
		if !reacts() || !idle.busy(0, p, gate) {
			t.Error("one that has not run is not waited for")
		}
	}

	echo()
	if reacts() {
		t.Error("one that has run is still waited for")
	}
}
