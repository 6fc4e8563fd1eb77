package purchasers

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// fakeTB is a test that may fail: it notes its errors and runs its own cleanups.
type fakeTB struct {
	testing.TB // for what is not overridden

	ctx      context.Context
	mu       sync.Mutex
	errors   []string
	failed   bool
	cleanups []func()
}

// try runs f as a test in a goroutine of its own and returns what it failed with.
func try(t *testing.T, f func(t testing.TB)) (failed bool, messages string) {
	ctx, cancel := context.WithCancel(t.Context())
	fake := &fakeTB{TB: t, ctx: ctx}
	fake.goexits(func() { f(fake) })
	cancel()
	for len(fake.cleanups) > 0 {
		last := len(fake.cleanups) - 1
		cleanup := fake.cleanups[last]
		fake.cleanups = fake.cleanups[:last]
		fake.goexits(cleanup)
	}
	return fake.failed, strings.Join(fake.errors, "\n")
}

// goexits runs what may end its goroutine, as FailNow does.
func (*fakeTB) goexits(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func (f *fakeTB) Context() context.Context { return f.ctx }
func (f *fakeTB) Cleanup(c func())         { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Helper()                  {}
func (f *fakeTB) Log(...any)               {}
func (f *fakeTB) Logf(string, ...any)      {}

func (f *fakeTB) Fail() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
}

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fakeTB) FailNow() {
	f.Fail()
	runtime.Goexit()
}

func (f *fakeTB) Errorf(format string, args ...any) {
	f.Fail()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Error(args ...any) { f.Errorf("%s", fmt.Sprintln(args...)) }

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatal(args ...any) {
	f.Error(args...)
	runtime.Goexit()
}
