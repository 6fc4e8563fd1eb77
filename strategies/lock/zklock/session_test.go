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

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
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

func sessionExpiryCancelsTheLease(t *testing.T, b *bench) {
	env := b.env()
	env.Params = param.Values{"ttl": "8s"} // of which a quarter is what a busy machine may take to notice
	l, p := b.proxied(env)
	lease := b.acquire(l)
	next := make(chan lock.Lease, 1)
	waiting := step.Hold(step.Waiting)
	waiting.Open()
	env = b.env()
	env.Steps = waiting.Observe
	other := b.open(env)
	go func() {
		lease, err := other.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	<-waiting.Reached()
	if lease.Context().Err() != nil {
		t.Error("the lease has ended before the connection was lost")
	}
	p.Disconnect()
	var successor lock.Lease
	select {
	case <-lease.Context().Done():
	case successor = <-next:
		if lease.Context().Err() == nil {
			t.Fatal("someone else has the lock, and its holder does not know")
		}
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the lease ended because of %v, want %v", cause, lock.ErrLost)
	}
	if successor == nil {
		successor = <-next
	}
	if fence(successor) <= fence(lease) {
		t.Errorf("the successor's fence is %d, after %d", fence(successor), fence(lease))
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want %v", err, lock.ErrLost)
	}
	b.release(successor)
}

// A connection that comes back in time costs nothing.
func shortCutIsSurvived(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	lease := b.acquire(l)
	p.Cut()
	b.release(lease) // the client connects again
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
}

// The server goes on hearing the holder, who hears nothing: that is worth as little as a connection that was cut. A lease
// that ends late is tried again with a longer TTL, because the machine may stop for about as long as the margin.
func mutedHolderLetsGoBeforeTheServerDoes(t *testing.T, b *bench) {
	for ttl := 3 * time.Second; ; ttl *= 3 {
		env := b.env()
		env.Params = param.Values{"ttl": ttl.String()}
		l, p := b.proxied(env)
		lease := b.acquire(l)
		muted := time.Now()
		p.SetFault(wire.Down, wire.Fault{Drop: true})
		<-lease.Context().Done()
		took := time.Since(muted)
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("it ended because of %v, want %v", cause, lock.ErrLost)
		}
		p.Heal()
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want %v", err, lock.ErrLost)
		}
		b.release(b.acquire(l)) // by the same worker, in the same session or another
		if took <= ttl*7/8 {
			return
		}
		if ttl > 20*time.Second {
			t.Fatalf("the lease ended %v after the last answer at the latest; the session may expire after %v", took, ttl)
		}
	}
}

// A silence that ends in time costs nothing, though a reply was lost in it.
func shortSilenceOfAServerIsSurvived(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	lease := b.acquire(l)
	p.SetFault(wire.Down, wire.Fault{Drop: true})
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(t.Context(), name)
		done <- err
	}()
	until(t, "the place is taken", func() bool { return b.line() == 2 })
	p.Heal()
	<-done // held, or not known because of the cut
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}
	b.release(lease)
}
