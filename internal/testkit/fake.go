package testkit

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Try runs f as a test that may fail, in a goroutine of its own, and then its cleanups. It
// returns what that failed with; empty: it passed, or was skipped. If f asks by [Require] for what
// is not there, t is skipped.
func Try(t testing.TB, f func(t testing.TB)) (messages string) {
	ctx, cancel := context.WithCancel(t.Context())
	fake := &fakeTB{TB: t, ctx: ctx}
	untilExit(func() { f(fake) })

	// As package testing does: the context ends before the cleanups, which may add others.
	cancel()
	for last := fake.lastCleanup(); last != nil; last = fake.lastCleanup() {
		untilExit(last)
	}

	fake.mu.Lock()
	missing := fake.missing
	messages = strings.Join(fake.errors, "\n")
	fake.mu.Unlock()

	if missing != "" && messages == "" {
		t.Skip(missing)
	}
	return messages
}

// untilExit runs what may end its goroutine, as FailNow does.
func untilExit(f func()) {
	var done sync.WaitGroup
	done.Go(f)
	done.Wait()
}

// fakeTB is a test that records its errors and leaves its cleanups to Try.
type fakeTB struct {
	testing.TB // for what is not overridden
	ctx        context.Context

	mu       sync.Mutex
	errors   []string
	skipped  bool
	missing  string // what the test needs and is not there
	cleanups []func()
}

// lastCleanup takes the last cleanup that is left; nil: there is none.
func (f *fakeTB) lastCleanup() (last func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.cleanups); n > 0 {
		f.cleanups, last = f.cleanups[:n-1], f.cleanups[n-1]
	}
	return last
}

func (f *fakeTB) Context() context.Context { return f.ctx }
func (f *fakeTB) Helper()                  {}
func (f *fakeTB) Log(...any)               {}
func (f *fakeTB) Logf(string, ...any)      {}

func (f *fakeTB) Cleanup(c func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, c)
}

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errors) > 0
}

func (f *fakeTB) Fail() { f.Errorf("failed") }

func (f *fakeTB) FailNow() {
	f.Fail()
	runtime.Goexit()
}

func (f *fakeTB) Skipped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.skipped
}

func (f *fakeTB) Skip(...any) { f.SkipNow() }

func (f *fakeTB) SkipNow() {
	f.mu.Lock()
	f.skipped = true
	f.mu.Unlock()
	runtime.Goexit()
}

// Skipf is what a test calls by Require: something is missing, and Try skips the real test.
func (f *fakeTB) Skipf(format string, args ...any) {
	f.mu.Lock()
	f.missing = fmt.Sprintf(format, args...)
	f.mu.Unlock()
	f.SkipNow()
}

func (f *fakeTB) Error(args ...any) { f.Errorf("%s", fmt.Sprintln(args...)) }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatal(args ...any) {
	f.Error(args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
