package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// childEnv makes the test binary be marketsim, so that it can be interrupted and killed.
const childEnv = "MARKETSIM_TEST_CHILD"

func TestMain(m *testing.M) {
	fault.ServeChild(catalogue.Full) // of scenarios that are played in this process
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	redisconn.QuietLogs()
	for _, name := range []string{"REDIS_URL", "REDIS_PASSWORD", "NO_COLOR"} {
		os.Unsetenv(name)
	}
	os.Setenv("NODE_PATH", "/usr/share/nodejs") // where Debian has the libraries of TestExec
	testkit.MaxParallel(8)                      // they mostly wait
	testkit.VerifyNoLeaks(m)
}

// outcome is what a user gets from a command.
type outcome struct {
	stdout, stderr string
	code           int
	took           time.Duration
}

// marketsim runs a command in this process, as main does.
func marketsim(t testing.TB, args ...string) outcome {
	t.Helper()
	return marketsimUntil(t.Context(), args...)
}

func marketsimUntil(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	start := time.Now()
	err := run(ctx, args, strings.NewReader(""), &stdout, &stderr)
	if err != nil {
		fmt.Fprintf(&stderr, "marketsim: %v\n", err)
	}
	return outcome{stdout.String(), stderr.String(), exitCode(err), time.Since(start)}
}

// exits checks the exit code.
func (o outcome) exits(t testing.TB, code int) outcome {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", o.code, code, o.stdout, o.stderr)
	}
	return o
}

// says checks that the user is told all of texts, on stdout or stderr.
func (o outcome) says(t testing.TB, texts ...string) outcome {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("nothing says %q\nstdout:\n%s\nstderr:\n%s", text, o.stdout, o.stderr)
		}
	}
	return o
}

// silent checks that none of the texts is said.
func (o outcome) silent(t testing.TB, texts ...string) outcome {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(o.stdout+o.stderr, text) {
			t.Errorf("something says %q\nstdout:\n%s\nstderr:\n%s", text, o.stdout, o.stderr)
		}
	}
	return o
}

// refusedAddr is an address where nothing listens: no server is given port 1, while a port
// that was free a moment ago may be another test's by now.
func refusedAddr(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:1"
}

// patience is how long a test waits for what should happen soon, on a busy machine too.
// What has to end at once would otherwise take longer than this.
const patience = time.Minute

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// child is marketsim as a process of its own, to be interrupted or killed.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr transcript
	exited chan struct{}
}

// startChild starts marketsim in a process group of its own, as a shell does.
func startChild(t testing.TB, args ...string) *child {
	t.Helper()
	return startChildIn(t, nil, args...)
}

// startChildIn is startChild with more environment variables, so that a test that
// needs them can run beside others.
func startChildIn(t testing.TB, env []string, args ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], args...), exited: make(chan struct{})}
	c.cmd.Env = append(append(os.Environ(), childEnv+"=1"), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	ownGroup(c.cmd)
	testkit.Succeeds(t, c.cmd.Start())

	go func() {
		_ = c.cmd.Wait() // how it ended is in ProcessState
		close(c.exited)
	}()

	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
	})
	return c
}

// awaitStderr waits until the child has written a text to stderr, and returns all it has written.
func (c *child) awaitStderr(text string) string {
	c.t.Helper()
	eventually(c.t, "the child says "+text, func() bool { return strings.Contains(c.stderr.String(), text) })
	return c.stderr.String()
}

// end waits for the child's end.
func (c *child) end() outcome {
	c.t.Helper()
	start := time.Now()
	select {
	case <-c.exited:
	case <-time.After(patience):
		c.t.Fatalf("the child has not ended after %s; it said\n%s", patience, c.stderr.String())
	}
	return outcome{c.stdout.String(), c.stderr.String(), c.cmd.ProcessState.ExitCode(), time.Since(start)}
}

// kill ends the child as a crash would.
func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	<-c.exited
}

// transcript is a buffer that may be read while it is written to.
type transcript struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *transcript) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(b)
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}
