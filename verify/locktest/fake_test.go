package locktest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// fakeTB is a test that may fail: it records its errors and runs its own cleanups.
type fakeTB struct {
	testing.TB // for what is not overridden

	ctx             context.Context
	mu              sync.Mutex
	errors          []string
	failed, skipped bool
	cleanups        []func()
}

// try runs f as a test in a goroutine of its own and returns what it failed with.
func try(t *testing.T, f func(t testing.TB)) (messages string) {
	ctx, cancel := context.WithCancel(t.Context())
	fake := &fakeTB{TB: t, ctx: ctx}
	fake.untilExit(func() { f(fake) })
	cancel()
	for last := fake.lastCleanup(); last != nil; last = fake.lastCleanup() {
		fake.untilExit(last)
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	return strings.Join(fake.errors, "\n")
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

// untilExit runs what may end its goroutine, as FailNow does.
func (*fakeTB) untilExit(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (f *fakeTB) Unwrap() testing.TB       { return f.TB }
func (f *fakeTB) Context() context.Context { return f.ctx }
func (f *fakeTB) Helper()                  {}

func (f *fakeTB) Cleanup(c func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, c)
}

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fakeTB) Skipped() bool { return f.skipped }

func (f *fakeTB) Skip(...any) {
	f.skipped = true
	runtime.Goexit()
}

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
