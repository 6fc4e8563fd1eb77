package wire

import (
	"errors"
	"math/rand/v2"
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

// A Fault is what happens to the bytes of one direction. If several are set, Hold and Latency come first, and then the
// first of Reset, Drop and End decides.
type Fault struct {
	// Hold lets nothing pass. What was sent arrives when the fault ends.
	Hold bool
	// Latency is by how much later what is sent arrives, plus or minus Jitter. When the fault ends, it arrives at once.
	Latency, Jitter time.Duration
	// Reset answers the first byte with a TCP reset to both sides. What was sent is lost.
	Reset bool
	// Drop loses what is sent, and nobody notices. All connections are closed when the fault ends, because TCP
	// never delivers a stream with a part missing.
	Drop bool
	// End ends a connection after it has passed After bytes since the fault began; with 0, at the first byte, which is
	// lost. An end of what clients send is a client that hangs up: the server answers what has passed, and the answers are
	// delivered. An end of what the server answers closes both sides at once.
	End   bool
	After int64
}

// delay is by how much the bytes that came together are late.
func (f *Fault) delay() time.Duration {
	if f.Jitter <= 0 {
		return f.Latency
	}
	return f.Latency - f.Jitter + rand.N(2*f.Jitter+1)
}

// errEnd is returned where a fault has ended a direction.
var errEnd = errors.New("the connection has passed all that it may")

// stream is one direction of a connection.
type stream struct {
	conn      *conn
	direction Direction
	from, to  net.Conn
	due       time.Time // until when what was read last is held back; used by the goroutine that reads and passes on

	writing sync.Mutex
	counted *Fault // during which passed was counted
	passed  int64
}

// Read reads from the side that speaks, and notes when what came is due.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	fault, _ := s.conn.proxy.fault(s.direction)
	s.due = time.Now().Add(fault.delay())
	return n, err
}

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
		var due <-chan time.Time
		if !fault.Hold {
			late := time.Until(s.due)
			if late <= 0 || fault.Latency == 0 {
				return !s.conn.isCut()
			}
			due = time.After(late)
		}
		select {
		case <-due:
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
	if fault != s.counted {
		s.counted, s.passed = fault, 0
	}
	switch {
	case fault.Hold: // since await
		return 0, nil
	case fault.Reset:
		s.conn.reset()
		return 0, errEnd
	case fault.Drop:
		return len(b), nil
	case fault.End:
		n, err := s.to.Write(b[:min(int64(len(b)), fault.After-s.passed)])
		if s.passed += int64(n); err == nil && s.passed == fault.After {
			err = errEnd
		}
		return n, err
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
