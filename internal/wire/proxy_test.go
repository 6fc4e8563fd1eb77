package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
)

func TestPartitionDelaysWhatIsSent(t *testing.T) {
	onEach(t, func(b bench) {
		patient, hasty := b.dial(), b.dial()
		b.proxy.Partition()
		done := b.incr(patient)
		ctx, cancel := context.WithTimeout(b.Context(), 50*time.Millisecond)
		defer cancel()
		if err := hasty.Incr(ctx, b.key).Err(); !isTimeout(err) {
			b.Errorf("a client that waits 50 ms got %v", err)
		}
		hasty.Close()
		fresh, err := net.Dial("tcp", b.proxy.Addr())
		if err != nil {
			b.Fatalf("a further connection: %v", err)
		}
		defer fresh.Close()
		if _, err := io.WriteString(fresh, incrWords(b.key)); err != nil {
			b.Fatal(err)
		}
		fresh.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := fresh.Read(make([]byte, 1)); !isTimeout(err) {
			b.Errorf("a further connection heard %v, want silence", err)
		}
		b.wantCount("partitioned", 0)
		b.proxy.Heal()
		if err := within(b, "healed", done); err != nil {
			b.Errorf("a client that waited: %v", err)
		}
		fresh.SetReadDeadline(time.Now().Add(soon))
		if line, err := bufio.NewReader(fresh).ReadString('\n'); err != nil || line[0] != ':' {
			b.Errorf("a further connection heard %q, %v", line, err)
		}
		b.awaitCount("that of the client that had gone is delivered late, too", 3)
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestPartitionHoldsReplies(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		trap := b.proxy.HoldReply(wire.Match{Command: "incr"})
		done := b.incr(through)
		within(b, "the reply", trap.Reached())
		b.proxy.Partition()
		trap.Open()
		select {
		case err := <-done:
			b.Errorf("partitioned, but INCR returned %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		b.proxy.Heal()
		if err := within(b, "healed", done); err != nil {
			b.Error(err)
		}
	})
}

func TestCut(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		trap := b.proxy.Hold(wire.Match{Command: "incr"})
		done := b.incr(through)
		within(b, "the command", trap.Reached())
		b.proxy.Cut()
		if err := within(b, "cut", done); err == nil {
			b.Error("a cut command was answered")
		}
		trap.Open()
		if err := through.Incr(b.Context(), b.key).Err(); err != nil {
			b.Errorf("a further connection: %v", err)
		}
		b.wantCount("after a cut", 1)
	})
}

func TestDisconnectUntilHealed(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		b.proxy.Disconnect()
		if err := through.Incr(b.Context(), b.key).Err(); err == nil {
			b.Error("a disconnected proxy passed a command")
		}
		if c, err := net.Dial("tcp", b.proxy.Addr()); err == nil {
			io.WriteString(c, incrWords(b.key))
			c.SetReadDeadline(time.Now().Add(soon))
			if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
				b.Errorf("a further connection is not closed at its first byte: %v", err)
			}
			c.Close()
		}
		b.proxy.Heal()
		b.dial()
		b.wantCount("disconnected", 0)
	})
}

func TestDropUntilHealed(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		b.proxy.SetFault(wire.Down, wire.Fault{Drop: true})
		done := b.incr(through)
		b.awaitCount("its reply is dropped", 1)
		b.proxy.Heal()
		if err := within(b, "healed", done); err == nil {
			b.Error("a reply came that was dropped")
		}
		if err := through.Incr(b.Context(), b.key).Err(); err != nil {
			b.Errorf("a further connection: %v", err)
		}
	})
}

// A client that does not read fills the connection; a partition has to begin all the same.
func TestPartitionDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	text := strings.Repeat("x", 16<<20)
	server := serve(t, func(c net.Conn) { io.WriteString(c, text) })
	proxy := forward(t, server)
	c, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	go func() { proxy.Partition(); close(begun) }()
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
	server := serve(t, func(c net.Conn) { io.Copy(c, c) }) // until the client has said all
	c, err := net.Dial("tcp", forward(t, server).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "no\x00RESP"); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(soon))
	if echo, err := io.ReadAll(c); err != nil || string(echo) != "no\x00RESP" {
		t.Errorf("it came back as %q, %v", echo, err)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	nobody := serve(t, func(net.Conn) {})
	nobody.Close()
	c, err := net.Dial("tcp", forward(t, nobody).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(soon))
	if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("a connection to nobody: %v", err)
	}
}

// serve answers each connection with handle, and then closes it.
func serve(t *testing.T, handle func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	t.Cleanup(func() { l.Close(); <-ended })
	return l
}

func forward(t *testing.T, server net.Listener) *wire.Proxy {
	t.Helper()
	p, err := wire.Start(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
