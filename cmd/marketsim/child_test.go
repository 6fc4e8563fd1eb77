package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

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
	c := &child{t: t, cmd: exec.Command(os.Args[0], args...), exited: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	ownGroup(c.cmd)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
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

// told waits until the child has written a text to stderr, and returns all it has written.
func (c *child) told(text string) string {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all := c.stderr.String()
		if strings.Contains(all, text) {
			return all
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the child did not say %q but\n%s", text, all)
		}
	}
}

// end waits for the child's end.
func (c *child) end() outcome {
	c.t.Helper()
	start := time.Now()
	select {
	case <-c.exited:
	case <-time.After(30 * time.Second):
		c.t.Fatalf("the child has not ended after 30 s; it said\n%s", c.stderr.String())
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
