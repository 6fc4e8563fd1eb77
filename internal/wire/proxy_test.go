package wire_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A client that does not read fills the connection; a partition has to begin all the same.
func TestPartitionDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	text := strings.Repeat("x", 16<<20)
	server := serve(t, func(c net.Conn) {
		io.WriteString(c, text)
	})
	proxy := forward(t, server)
	c := testkit.Must(net.Dial("tcp", proxy.Addr()))(t)
	defer c.Close()
	testkit.Must(io.ReadFull(c, make([]byte, 1)))(t)

	begun := make(chan struct{})
	go func() {
		proxy.Partition()
		close(begun)
	}()
	select {
	case <-begun:
	case <-time.After(soon):
		t.Fatal("Partition did not return")
	}

	proxy.Heal()
	c.SetReadDeadline(time.Now().Add(soon))
	if rest, err := io.ReadAll(c); err != nil || len(rest) != len(text)-1 {
		t.Errorf("%d bytes of %d came, %v", len(rest)+1, len(text), err)
	}
}

func TestForwardsAnyProtocol(t *testing.T) {
	server := serve(t, func(c net.Conn) {
		io.Copy(c, c) // until the client has said all
	})
	c := testkit.Must(net.Dial("tcp", forward(t, server).Addr()))(t)
	defer c.Close()
	testkit.Must(io.WriteString(c, "no\x00RESP"))(t)
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(soon))
	if echo, err := io.ReadAll(c); err != nil || string(echo) != "no\x00RESP" {
		t.Errorf("it came back as %q, %v", echo, err)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	nobody := serve(t, func(net.Conn) {})
	nobody.Close()
	c := testkit.Must(net.Dial("tcp", forward(t, nobody).Addr()))(t)
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(soon))
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a connection to nobody: %v", err)
	}
}

// serve answers each connection with handle, and then closes it.
func serve(t *testing.T, handle func(net.Conn)) net.Listener {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})

	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return l
}

func forward(t *testing.T, server net.Listener) *wire.Proxy {
	t.Helper()
	p := testkit.Must(wire.Start(server.Addr().String()))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// What a client of any protocol says in one piece can be held; pieces of Redis's
// are named by their commands.
func TestHoldsAPieceOfAnyProtocol(t *testing.T) {
	proxy := forward(t, serve(t, func(c net.Conn) {
		io.Copy(c, c)
	}))
	c := testkit.Must(net.Dial("tcp", proxy.Addr()))(t)
	defer c.Close()
	proxy.Record()
	trap := proxy.Hold(wire.Match{Nth: 2})
	go func() {
		<-trap.Reached()
		trap.Open()
	}()

	for _, piece := range []string{"no RESP", "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nexec\r\n"} {
		io.WriteString(c, piece)
		c.SetReadDeadline(time.Now().Add(soon))
		testkit.Must(io.ReadFull(c, make([]byte, len(piece))))(t)
	}

	<-trap.Reached()
	if got := proxy.Commands(); len(got) != 2 || got[0] != "" || got[1] != "ping exec" {
		t.Errorf("it saw %q", got)
	}
}
