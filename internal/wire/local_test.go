package wire_test

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
)

// What the client writes is told at once, what is received is read, deadlines hold, and a
// connection that is cut is broken.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := wire.NewLocal()
		var sent [][]string
		closed := false
		c.Sent = func(commands [][]string) {
			sent = append(sent, commands...)
		}
		c.Closed = func() {
			closed = true
		}

		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n*1\r\n$4")); err != nil || len(sent) != 1 {
			t.Errorf("%q was sent (%v), want one command", sent, err)
		}

		go func() {
			time.Sleep(time.Second)
			c.Receive([]byte("+PONG\r\n"))
		}()
		p := make([]byte, 10)

		if err := c.SetDeadline(time.Now().Add(time.Second / 2)); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("before anything is received %d bytes are read (%v)", n, err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		if n, err := c.Read(p); string(p[:n]) != "+PONG\r\n" {
			t.Errorf("%q is read (%v)", p[:n], err)
		}

		go func() {
			time.Sleep(time.Second)
			_ = c.SetReadDeadline(time.Now())
		}()
		if n, err := c.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read whose deadline passes meanwhile reads %d bytes (%v)", n, err)
		}
		_ = c.SetReadDeadline(time.Time{})

		go func() {
			time.Sleep(time.Second)
			c.Cut()
		}()
		if _, err := c.Read(p); !errors.Is(err, io.EOF) || !c.Broken() {
			t.Errorf("a connection that is cut reads with %v", err)
		}
		if _, err := c.Write(p); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that is cut writes with %v", err)
		}
		if err := c.Close(); err != nil || !closed {
			t.Errorf("closed: %t, %v", closed, err)
		}
	})
}

func TestValues(t *testing.T) {
	replies := "+OK\r\n$3\r\n-40\r\n$-1\r\n*2\r\n:-1\r\n_\r\n-ERR no\r\n%0\r\n$4\r\n+a\r\n\r\n$0\r\n\r\n=7\r\ntxt:a:b\r\n"
	want := []string{"OK", "-40", "nil", "-1", "nil", "ERR no", "+a\r\n", "", "a:b"}
	if values := wire.Texts(replies); !slices.Equal(values, want) {
		t.Errorf("the values are %q, want %q", strings.Join(values, ","), want)
	}
}
