package redisconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const late = 10 * time.Millisecond // the delay in these tests

// inDelay runs f with the two ends of a connection, the first of which hears everything
// late, on a clock of its own. No goroutine may be left afterwards.
func inDelay(t *testing.T, f func(t *testing.T, here, there net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		here := delayed(near, late, NewTimerAlarm)
		defer here.Close()
		defer far.Close()
		f(t, here, far)
	})
}

// say writes from a goroutine of its own, as an operating system would.
func say(t *testing.T, conn net.Conn, text string) {
	go func() {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Errorf("say %q: %v", text, err)
		}
	}()
	synctest.Wait()
}

// hear reads text, which has to come that long after start and not earlier or later.
func hear(t *testing.T, conn net.Conn, text string, start time.Time, after time.Duration) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v; want %q", got, err, text)
	}
	if took := time.Since(start); took != after {
		t.Errorf("%q came after %s, want %s", text, took, after)
	}
}

// What is sent is not late, so that a round trip takes one delay.
func TestDelayOfARoundTrip(t *testing.T) {
	inDelay(t, func(t *testing.T, here, there net.Conn) {
		go func() {
			_, _ = io.Copy(there, there)
		}()
		start := time.Now()
		for n := range 100 {
			say(t, here, "ping")
			hear(t, here, "ping", start, time.Duration(n+1)*late)
		}
	})
}

// Full duplex: who sends on without waiting hears everything in order, each
// piece late by the same.
func TestDelayOfAStream(t *testing.T) {
	inDelay(t, func(t *testing.T, here, there net.Conn) {
		const pieces = 1000
		start := time.Now()

		var sender sync.WaitGroup
		sender.Go(func() {
			for i := range pieces {
				if _, err := there.Write(bytes.Repeat([]byte{byte(i)}, 300)); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Microsecond)
			}
		})

		for i := range pieces {
			piece := string(bytes.Repeat([]byte{byte(i)}, 300))
			hear(t, here, piece, start, late+time.Duration(i)*100*time.Microsecond)
		}
		sender.Wait()

		time.Sleep(time.Second) // a silence makes nothing earlier
		start = time.Now()
		say(t, there, "last")
		hear(t, here, "last", start, late)
	})
}

// The end of a connection is as late as what came before it, and comes after that.
func TestDelayOfTheEnd(t *testing.T) {
	inDelay(t, func(t *testing.T, here, there net.Conn) {
		start := time.Now()
		say(t, there, "last")
		there.Close()
		got, err := io.ReadAll(here)
		if took := time.Since(start); string(got) != "last" || err != nil || took != late {
			t.Errorf("%q, %v after %s; want %q and the end after %s", got, err, took, "last", late)
		}
	})
}

// A deadline ends a Read if nothing has come until then, and what comes later
// is there afterwards.
func TestDelayAndDeadlines(t *testing.T) {
	inDelay(t, func(t *testing.T, here, there net.Conn) {
		for _, after := range []time.Duration{5 * time.Second, 0} { // it stays so
			start := time.Now()
			if after > 0 {
				here.SetDeadline(start.Add(after))
			}

			n, err := here.Read(make([]byte, 8))

			var timeout net.Error
			if n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != after {
				t.Errorf("%d bytes, %v after %s; want a time-out after %s", n, err, time.Since(start), after)

			}
		}
		if _, err := here.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write after its deadline: %v", err)
		}
		start := time.Now()
		say(t, there, "late")
		here.SetDeadline(time.Time{})
		hear(t, here, "late", start, late)
	})
}

// Close ends a Read that waits for something to come, or for something to be
// due, and is no harm twice.
func TestDelayCloses(t *testing.T) {
	for name, on := range map[string]string{"nothing": "", "something": "on its way"} {

		inDelay(t, func(t *testing.T, here, there net.Conn) {
			if on != "" {
				say(t, there, on)
			}
			time.AfterFunc(late/2, func() { here.Close() })

			start := time.Now()
			n, err := here.Read(make([]byte, 8))
			if n != 0 || !errors.Is(err, net.ErrClosed) || time.Since(start) != late/2 {
				t.Errorf("%s: %d bytes, %v after %s; want %v", name, n, err, time.Since(start), net.ErrClosed)
			}
			if n, err := here.Read(make([]byte, 8)); n != 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: then %d bytes, %v", name, n, err)
			}
			here.Close()
		})
	}
}
