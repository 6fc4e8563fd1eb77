package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
)

// TestExitCode: a violation outranks every other error, and an interruption counts only
// alone.
func TestExitCode(t *testing.T) {
	environment := errors.New("the server died")
	usage := usageError{errors.New("no such flag")}
	violation := fmt.Errorf("%w: 2 accounts wrong", errViolation)
	interrupted := fmt.Errorf("%w: 1 of 2 rows", errInterrupted)

	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"environment", environment, 1},
		{"usage", usage, 2},
		{"violation", violation, 3},
		{"interrupted", interrupted, 130},
		{"joined alone", errors.Join(nil, interrupted, nil), 130},
		{"violation over environment", errors.Join(environment, violation), 3},
		{"violation over interrupted", errors.Join(interrupted, violation), 3},
		{"environment over interrupted", errors.Join(interrupted, environment), 1},
		{"environment wrapped with interrupted", fmt.Errorf("%w: %w", errInterrupted, environment), 1},
		{"all", errors.Join(interrupted, environment, violation), 3},
		{"reworded", reworded{"...", interrupted}, 130},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

// After a signal a reader that is slow gets everything, and one who has stopped
// holds nobody up.
func TestStoppableWriter(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	testkit.Succeeds(t, err)
	defer read.Close()
	const more = 300_000 // than a pipe holds

	w := newStoppableWriter(write)
	if w.waits != moment {
		t.Errorf("it waits for %s", w.waits)
	}

	w.waits = time.Minute
	(&program{stdout: w, stderr: io.Discard}).hurry()
	go func() {
		time.Sleep(moment / 10)
		_, _ = io.CopyN(io.Discard, read, more)
	}()
	if n, err := w.Write(make([]byte, more)); n != more || err != nil {
		t.Errorf("a slow reader: %d written, %v", n, err)
	}

	// The reader takes no more than the first write: this one finds it stopped.
	w.waits = moment / 10
	_, err = w.Write(make([]byte, more))
	if _, again := w.Write([]byte("more")); !isInterruption(err) || !isInterruption(again) {
		t.Errorf("the reader has stopped: %v, then %v", err, again)
	}
}
