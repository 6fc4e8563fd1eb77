package program_test

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/testkit"
)

// heardOf are the outputs of a shell script, to its end.
func heardOf(t *testing.T, script string) (p *program.Child, all []program.Output) {
	t.Helper()
	heard := make(chan program.Output, 100)
	launch := program.Launch{Command: []string{"/bin/sh", "-c", script}}
	p = testkit.Must(launch.Start(func(o program.Output) {
		heard <- o
	}))(t)
	p.Wait()
	close(heard)
	for o := range heard {
		all = append(all, o)
	}
	return p, all
}

// A line that is too long is no answer, and what comes behind it is heard.
func TestLongLine(t *testing.T) {
	const long = `i=0; while [ $i -lt 70 ]; do printf %01024d 0; i=$((i+1)); done`
	_, all := heardOf(t, long+"; echo; echo acquired")
	if len(all) != 3 || !all[0].Cut || all[1].Line != "acquired" || all[1].Cut || !all[2].Ended {
		t.Fatalf("heard %d outputs, want a cut line, acquired and the end", len(all))
	}
	const says = `said a line of more than 64 KB: "0000`
	if err := all[0].Expect("acquired"); err == nil || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("a line of 70 KB: %v, want %s", err, says)
	}
}

// Who ends lines with a carriage return alone is told what was read.
func TestCarriageReturnEndsNoLine(t *testing.T) {
	p, all := heardOf(t, `printf 'released\r\nacquired\r'`)
	if len(all) != 3 || all[0].Line != "released" {
		t.Errorf("heard %+v, want released first", all)
	}
	const says = `; it has said "acquired\r" without the end of a line, which is "\n"`
	if text := p.LastLines(); text != says {
		t.Errorf("its silence is explained with %q, want %q", text, says)
	}
}

// Who does not read what it is told holds nobody up.
func TestTellOfWhoDoesNotRead(t *testing.T) {
	sleeps := program.Launch{Command: []string{"sleep", "1000"}}
	p := testkit.Must(sleeps.Start(func(program.Output) {}))(t)
	defer p.Close()
	began := time.Now()
	p.Tell(strings.Repeat("x", 1<<20))
	if took := time.Since(began); took > soon {
		t.Errorf("it took %s", took)
	}
}
