package wire_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
)

// pair is a client's end of a connection through a proxy and the server's end of it.
type pair struct {
	testing.TB
	proxy          *wire.Proxy
	listener       net.Listener
	client, server net.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &pair{TB: t, proxy: forward(t, l), listener: l}
	p.client, p.server = p.connect()
	return p
}

// connect makes another connection, over which a byte has passed each way.
func (p *pair) connect() (client, server net.Conn) {
	p.Helper()
	client, err := net.Dial("tcp", p.proxy.Addr())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { client.Close() })
	if server, err = p.listener.Accept(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { server.Close() })
	say(p, client, "?")
	hear(p, server, "?")
	say(p, server, "!")
	hear(p, client, "!")
	return client, server
}

// ends are the side that speaks in a direction and the side that listens.
func (p *pair) ends(d wire.Direction) (from, to net.Conn) {
	if d == wire.Up {
		return p.client, p.server
	}
	return p.server, p.client
}

// bothWays runs f for each direction of a new connection.
func bothWays(t *testing.T, f func(p *pair, d wire.Direction)) {
	for d, name := range []string{"up", "down"} {
		t.Run(name, func(t *testing.T) { f(newPair(t), wire.Direction(d)) })
	}
}

// say sends text.
func say(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads exactly text.
func hear(t testing.TB, c net.Conn, text string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(soon))
	got := make([]byte, len(text))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("%q came, %v; want %q", got[:n], err, text)
	}
}

// hearEnd reads what is left, which has to be text, and then the end of the connection.
func hearEnd(t testing.TB, c net.Conn, text string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(soon))
	got, err := io.ReadAll(c)
	if isTimeout(err) || string(got) != text {
		t.Errorf("%q came, and then %v; want %q and the end", got, err, text)
	}
}

// hearNothing reports an error if anything comes within a moment, the end included.
func hearNothing(t testing.TB, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Errorf("%d bytes came, %v; want silence", n, err)
	}
}

func TestHoldDeliversLate(t *testing.T) {
	bothWays(t, func(p *pair, d wire.Direction) {
		p.proxy.SetFault(d, wire.Fault{Hold: true})
		from, to := p.ends(d)
		say(p, from, "held ")
		say(p, to, "free")
		hear(p, from, "free") // the other direction
		hearNothing(p, to)
		from.Close()
		p.proxy.Heal()
		hearEnd(p, to, "held ")
	})
}

// A stream may not go on with a part of it missing.
func TestDropEndsTheConnection(t *testing.T) {
	bothWays(t, func(p *pair, d wire.Direction) {
		p.proxy.SetFault(d, wire.Fault{Drop: true})
		from, to := p.ends(d)
		say(p, from, "lost")
		say(p, to, "free")
		hear(p, from, "free")
		hearNothing(p, to)
		p.proxy.SetFault(d, wire.Fault{})
		hearEnd(p, to, "")
		hearEnd(p, from, "")
		p.connect()
	})
}

// A client whose connection ends has all answered that passed.
func TestEndOfWhatAClientSends(t *testing.T) {
	p := newPair(t)
	p.proxy.SetFault(wire.Up, wire.Fault{End: true})
	say(p, p.client, "lost")
	hearEnd(p, p.server, "")
	say(p, p.server, "answer")
	p.server.Close()
	hearEnd(p, p.client, "answer")
	p.proxy.Heal()
	p.connect()
}

// The server has what was sent before its answer was lost.
func TestEndOfWhatAServerAnswers(t *testing.T) {
	p := newPair(t)
	p.proxy.SetFault(wire.Down, wire.Fault{End: true})
	say(p, p.client, "question")
	hear(p, p.server, "question")
	say(p, p.server, "answer")
	hearEnd(p, p.client, "")
	hearEnd(p, p.server, "")
}

// Faults may come and go while much passes, and nothing of it is lost or out of order.
func TestFaultsWhileTrafficFlows(t *testing.T) {
	p := newPair(t)
	const pieces = 50
	text := strings.Repeat("0123456789", 10_000)
	came := make(chan string)
	for _, c := range []net.Conn{p.client, p.server} {
		c.SetReadDeadline(time.Time{})
		go func() { _, _ = io.WriteString(c, strings.Repeat(text, pieces)) }()
		go func() {
			for range pieces {
				got := make([]byte, len(text))
				n, _ := io.ReadFull(c, got)
				came <- string(got[:n])
			}
		}()
	}
	for range 2 * pieces {
		for _, f := range []wire.Fault{{Hold: true}, {}} {
			p.proxy.SetFault(wire.Up, f)
			p.proxy.SetFault(wire.Down, f)
		}
		if got := <-came; got != text {
			t.Errorf("%d bytes came, want %d as they were sent", len(got), len(text))
		}
	}
}
