package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// childEnv makes the test binary be marketsim, so that it can be interrupted and killed.
const childEnv = "MARKETSIM_TEST_CHILD"

func TestMain(m *testing.M) {
	serveClient() // of scenarios that are played in this process
	if os.Getenv(childEnv) != "" {
		main()
		return
	}
	backend.QuietLogs()
	for _, name := range []string{"REDIS_URL", "REDIS_PASSWORD", "NO_COLOR"} {
		os.Unsetenv(name)
	}
	backendtest.VerifyNoLeaks(m)
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

// refusedAddr is an address where nothing listens.
func refusedAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}
