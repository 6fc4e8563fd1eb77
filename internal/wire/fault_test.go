package wire_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
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
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	p := &pair{TB: t, proxy: forward(t, l), listener: l}
	p.client, p.server = p.connect()
	return p
}

// connect makes another connection, over which a byte has passed each way.
func (p *pair) connect() (client, server net.Conn) {
	p.Helper()
	client = testkit.Must(net.Dial("tcp", p.proxy.Addr()))(p)
	p.Cleanup(func() {
		client.Close()
	})
	server = testkit.Must(p.listener.Accept())(p)
	p.Cleanup(func() {
		server.Close()
	})

	say(p, client, "?")
	hear(p, server, "?")
	say(p, server, "!")
	hear(p, client, "!")
	return client, server
}

// say sends text.
func say(t testing.TB, c net.Conn, text string) {
	t.Helper()
	testkit.Must(io.WriteString(c, text))(t)
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

// What a fault holds back arrives when it ends, and what it does not concern passes.
func TestHeldIsDeliveredLate(t *testing.T) {
	for _, c := range []struct {
		name     string
		begin    func(*wire.Proxy)
		up, down bool // what is held
	}{
		{"partition", (*wire.Proxy).Partition, true, true},
		{"hold replies", (*wire.Proxy).HoldReplies, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t)
			c.begin(p.proxy)
			say(p, p.client, "up")
			say(p, p.server, "down")
			if !c.up {
				hear(p, p.server, "up")
			}
			hearNothing(p, p.client)
			hearNothing(p, p.server)
			fresh := testkit.Must(net.Dial("tcp", p.proxy.Addr()))(t)
			say(p, fresh, "further")
			fresh.Close() // what it said is on its way

			p.proxy.Heal()
			if c.up {
				hear(p, p.server, "up")
			}
			further := testkit.Must(p.listener.Accept())(t)
			defer further.Close()
			hearEnd(p, further, "further")
			hear(p, p.client, "down")

			c.begin(p.proxy)
			say(p, p.server, "last")
			p.server.Close()
			hearNothing(p, p.client)
			p.proxy.Heal()
			hearEnd(p, p.client, "last")
		})
	}
}

// While a proxy is disconnected, a new connection ends as soon as anything is
// said on it, and nothing passes.
func TestDisconnectUntilHealed(t *testing.T) {
	p := newPair(t)
	p.proxy.Disconnect()
	hearEnd(p, p.client, "")
	hearEnd(p, p.server, "")

	client := testkit.Must(net.Dial("tcp", p.proxy.Addr()))(t)
	defer client.Close()
	say(p, client, "lost")
	server := testkit.Must(p.listener.Accept())(t)
	hearEnd(p, server, "")
	server.Close()
	hearEnd(p, client, "")

	p.proxy.Heal()
	p.connect()
}

// Faults may come and go while much passes, and nothing of it is lost or out of order.
func TestFaultsWhileTrafficFlows(t *testing.T) {
	p := newPair(t)
	const pieces = 50
	text := strings.Repeat("0123456789", 10_000)
	came := make(chan string)
	for _, c := range []net.Conn{p.client, p.server} {
		c.SetReadDeadline(time.Time{})
		go func() {
			_, _ = io.WriteString(c, strings.Repeat(text, pieces))
		}()
		go func() {
			for range pieces {
				got := make([]byte, len(text))
				n, _ := io.ReadFull(c, got)
				came <- string(got[:n])
			}
		}()
	}

	for range 2 * pieces {
		changes := []func(){p.proxy.Partition, p.proxy.Heal, p.proxy.HoldReplies, p.proxy.Heal}
		for _, change := range changes {
			change()
		}
		if got := <-came; got != text {
			t.Errorf("%d bytes came, want %d as they were sent", len(got), len(text))
		}
	}
}
