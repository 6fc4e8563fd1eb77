package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
)

// agreed is the timeout of the sessions of these tests.
const agreed = 12 * time.Second

// begun is a session that the client library has just reported.
func begun(t *testing.T) *session {
	s := &session{ready: make(chan struct{}), validity: newValidity()}
	s.greeted(time.Now(), agreed)
	s.observe(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
	t.Cleanup(func() { s.watch.Stop() })
	return s
}

// over reports whether a validity has ended, once nothing more happens without time passing.
func over(l *validity) bool {
	synctest.Wait()
	return l.ctx.Err() != nil
}

func TestSilenceEndsTheLeaseBeforeTheServerCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begun(t)
		validity := s.current()
		time.Sleep(agreed / 3)
		asked := time.Now()
		time.Sleep(agreed / 3)
		s.answered(asked) // late: the server may have been silent since it was asked
		time.Sleep(agreed*5/12 - time.Nanosecond)
		if over(validity) {
			t.Fatal("the lease has ended less than three quarters of the timeout after the last proof")
		}
		time.Sleep(time.Nanosecond)
		if !over(validity) || !errors.Is(context.Cause(validity.ctx), lock.ErrLost) {
			t.Errorf("three quarters of the timeout after the last proof the lease's context has ended with %v, want ErrLost",
				context.Cause(validity.ctx))
		}
	})
}

// Neither a lost connection nor a silence ends a lease, if there is an answer in time.
func TestShortSilenceIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begun(t)
		validity := s.current()
		for range 10 {
			time.Sleep(agreed / 2)
			s.observe(zk.Event{Type: zk.EventSession, State: zk.StateDisconnected})
			s.greeted(time.Now(), agreed)
			time.Sleep(agreed / 12)
			s.observe(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
		}
		if over(validity) {
			t.Error("the lease has ended, and its session was heard of in time")
		}
	})
}

// A connection that came back too late does not save a lease by being faster than the timer; new leases are well.
func TestLateAnswerSavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begun(t)
		s.watch.Stop() // it has not run yet
		validity := s.current()
		time.Sleep(agreed * 3 / 4)
		if s.current(); validity.ctx.Err() == nil {
			t.Error("a lease that is over is given to a new holder")
		}
		s.answered(time.Now())
		if next := s.current(); next == validity || over(next) {
			t.Error("there is no new validity, and the session is still there")
		}
		time.Sleep(agreed * 3 / 4)
		if !over(s.current()) {
			t.Error("nobody watches the new validity")
		}
	})
}

func TestWhatComesAfterTheEndProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, state := range []zk.State{zk.StateExpired, zk.StateDisconnected} {
			s := begun(t)
			validity := s.current()
			time.Sleep(agreed / 2)
			s.observe(zk.Event{Type: zk.EventSession, State: state})
			s.answered(time.Now())
			time.Sleep(agreed / 4)
			if !over(validity) {
				t.Errorf("%s: an answer on the connection that was lost prolonged the lease", state)
			}
		}
	})
}

// packet is one of the server's, of 20 bytes after its length.
func packet(number int32, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, 20)
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	return append(b, make([]byte, 12)...)
}

// Answers come in pieces of any size, and an event is no answer.
func TestPulseTellsWhenAnsweredRequestsWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size := 1; size < 50; size++ {
			client, server := net.Pipe()
			var proofs []time.Time
			var timeout time.Duration
			p := &pulse{
				Conn: client, first: true,
				greeted:  func(at time.Time, agreed time.Duration) { proofs, timeout = append(proofs, at), agreed },
				answered: func(at time.Time) { proofs = append(proofs, at) },
			}
			go func() {
				for b := make([]byte, 9); ; {
					if _, err := server.Read(b); err != nil {
						return
					}
				}
			}()
			var sent []time.Time
			for range 4 {
				time.Sleep(time.Second)
				sent = append(sent, time.Now())
				if _, err := p.Write([]byte("a request")); err != nil {
					t.Fatal(err)
				}
			}
			said := slices.Concat(packet(0, agreed), packet(-1, 0), packet(7, 0), packet(-1, 0), packet(-2, 0))
			go func() {
				for piece := range slices.Chunk(said, size) {
					server.Write(piece)
				}
				server.Close()
			}()
			for b := make([]byte, 64); ; {
				if _, err := p.Read(b); err != nil {
					break
				}
			}
			if !slices.Equal(proofs, sent[:3]) || timeout != agreed {
				t.Errorf("in pieces of %d it reported %v and %v, want %v and %v", size, proofs, timeout, sent[:3], agreed)
			}
			client.Close()
		}
	})
}
