package program_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/testkit"
)

// burn has a shell run until it has used 20 ticks, 0.2 s, of processor time, as the kernel
// counts it.
const burn = "t=0 s=0; while [ $((t+s)) -lt 20 ]; do " +
	"read -r a b c d e f g h i j k l m t s rest </proc/self/stat; done"

// TestCPUOfTheWholeTree: what a program has used is known, once, whichever of its processes
// did, and also when that has ended.
func TestCPUOfTheWholeTree(t *testing.T) {
	t.Parallel()
	const last = "; echo done; read -r end"
	for name, script := range map[string]string{
		"itself":                        burn + last,
		"a child that is there":         "(" + burn + "; echo done; sleep 1000) & read -r end",
		"a child that has ended":        "(" + burn + ")" + last,
		"a child's child, both ended":   "sh -c '(" + burn + "); true'" + last,
		"one in a session of its own":   "setsid sh -c '" + burn + "' & wait" + last,
		"an orphan that ends":           "(sh -c '" + burn + "; echo done' &); read -r end",
		"an orphan's child, both ended": "(sh -c '(" + burn + "); echo done' &); read -r end",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan program.Output, 10)
			launch := program.Launch{Name: "py", Command: []string{"/bin/sh", "-c", script}}
			p := testkit.Must(launch.Start(func(o program.Output) {
				done <- o
			}))(t)
			defer p.Close()
			before, _ := p.CPU()
			if o := <-done; o.Line != "done" {
				t.Fatalf("it says %q: %s", o.Line, p.LastLines())
			}

			const atLeast, twice = 200 * time.Millisecond, 400 * time.Millisecond
			used, known := p.CPU()
			if !known || used < atLeast || used-before >= twice {
				t.Errorf("it used %s, and %s before: known is %t; want %s, once", used, before, known, atLeast)
			}

			p.Close()
			if used, known := p.CPU(); known {
				t.Errorf("after its end it is known that it used %s", used)
			}
		})
	}
}
