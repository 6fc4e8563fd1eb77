package wire_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

// A scriptedServer is a server whose test says when a gate gets its connection, what comes and
// what it answers.
type scriptedServer struct {
	*testing.T
	gate   *wire.Proxy
	asked  chan bool // the gate connects, per value
	admit  chan bool // and is let in
	ours   net.Conn
	reads  *bufio.Reader
	client net.Conn
}

func newScriptedServer(t *testing.T) *scriptedServer {
	t.Helper()
	ours, theirs := net.Pipe()
	s := &scriptedServer{
		T: t, asked: make(chan bool, 1), admit: make(chan bool), ours: ours, reads: bufio.NewReader(ours),
	}
	s.gate = testkit.Must(wire.StartGate(func() (net.Conn, error) {
		s.asked <- true
		<-s.admit
		return theirs, nil
	}))(t)
	t.Cleanup(func() {
		_ = ours.Close()
		testkit.Succeeds(t, s.gate.Close())
	})
	return s
}

// connect has a client connect to the gate.
func (s *scriptedServer) connect() {
	s.Helper()
	s.client = testkit.Must(net.Dial("tcp", s.gate.Addr()))(s)
	s.Cleanup(func() { _ = s.client.Close() })
}

// sends has the client send a command without arguments.
func (s *scriptedServer) sends(command string) {
	s.Helper()
	testkit.Must(io.WriteString(s.client, "*1\r\n$"+string(rune('0'+len(command)))+"\r\n"+command+"\r\n"))(s)
}

// reaches returns when a command has reached the server.
func (s *scriptedServer) reaches(command string) {
	s.Helper()
	for line := ""; !strings.Contains(line, command); {
		line = testkit.Must(s.reads.ReadString('\n'))(s)
	}
}

// settles waits until nothing is on its way.
func (s *scriptedServer) settles(after string) {
	s.Helper()
	for end := time.Now().Add(soon); s.gate.Underway(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("something is still on its way after %s", after)
		}
	}
}

// stays checks that something is on its way, and does not come to its end by itself.
func (s *scriptedServer) stays(while string) {
	s.Helper()
	const looks = 30
	for n := range looks {
		if !s.gate.Underway() {
			s.Fatalf("look %d: nothing is on its way while %s", n, while)
		}
		time.Sleep(time.Millisecond)
	}
}

// A connection that waits for the server, and a command whose reply comes by itself, are on
// their way. What the gate holds, and what may block, is not.
func TestUnderway(t *testing.T) {
	t.Parallel()
	s := newScriptedServer(t)
	s.settles("the start")

	s.connect()
	<-s.asked // it may be missed until then, see Underway
	s.stays("the gate connects to the server")
	s.admit <- true
	s.settles("it has connected")

	s.sends("PING")
	s.reaches("PING")
	s.stays("the reply to PING is awaited")
	testkit.Must(io.WriteString(s.ours, "+PONG\r\n"))(t)
	s.settles("the reply")

	s.sends("BLPOP")
	s.reaches("BLPOP")
	s.settles("a command that may block")
	testkit.Must(io.WriteString(s.ours, "*-1\r\n"))(t)

	arrived := make(chan *wire.Held, 1)
	s.gate.Gate(func(h *wire.Held) { arrived <- h })
	s.sends("INCR")
	h := <-arrived
	s.settles("a command that is held")
	h.Open()
	s.reaches("INCR")
}
