package wire

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A Direction is one of the two in which a connection carries bytes.
type Direction int

// The directions.
const (
	Up   Direction = iota // what clients send
	Down                  // what the server answers
)

// A Fault is what happens to the bytes of one direction. If several are set, Hold comes first.
type Fault struct {
	// Hold lets nothing pass. What was sent arrives when the fault ends.
	Hold bool
	// Drop loses what is sent, and nobody notices. All connections are closed when the fault ends, because TCP
	// never delivers a stream with a part missing.
	Drop bool
	// End ends a connection at the first byte, which is lost. An end of what clients send is a client that hangs up: the
	// server answers what has passed, and the answers are delivered. An end of what the server answers closes both sides at
	// once.
	End bool
}

// errEnd is returned where a fault has ended a direction.
var errEnd = errors.New("the connection has passed all that it may")

// stream is one direction of a connection.
type stream struct {
	conn      *conn
	direction Direction
	from, to  net.Conn

	writing sync.Mutex
}

// Read reads from the side that speaks.
func (s *stream) Read(b []byte) (int, error) { return s.from.Read(b) }

// pass does with b what the fault of its direction says. An error says that no more can pass, errEnd that this is
// because of the fault.
func (s *stream) pass(b []byte) error {
	for len(b) > 0 {
		if !s.await() {
			return net.ErrClosed
		}
		n, err := s.try(b)
		if b = b[n:]; err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	return nil
}

// await returns when nothing is held back any more. It reports false when the connection was cut.
func (s *stream) await() bool {
	for {
		fault, changed := s.conn.proxy.fault(s.direction)
		if !fault.Hold {
			return !s.conn.isCut()
		}
		select {
		case <-changed:
		case <-s.conn.done:
			return false
		}
	}
}

// try deals with as much of b as the fault allows at this moment.
func (s *stream) try(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	fault, _ := s.conn.proxy.fault(s.direction)
	switch {
	case fault.Hold: // since await
		return 0, nil
	case fault.Drop:
		return len(b), nil
	case fault.End:
		return 0, errEnd
	}
	return s.to.Write(b)
}

// settle returns when a write that had begun is over. One that waits for a peer which does not read is interrupted, and
// reads the fault again before it goes on.
func (s *stream) settle() {
	_ = s.to.SetWriteDeadline(time.Unix(1, 0)) // it fails on a closed connection, which nothing passes
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.to.SetWriteDeadline(time.Time{})
}
