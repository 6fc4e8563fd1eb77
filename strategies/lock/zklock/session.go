package zklock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/marketsim/marketsim/strategies/lock"
)

const (
	connectTimeout = 5 * time.Second
	bufferSize     = 256 << 10 // enough for a list of thousands of waiters; the default is 1.5 MB, twice for each worker
)

// session is a connection to ZooKeeper that knows for how long what it made there surely exists. The client under it opens
// another session by itself when one has expired.
type session struct {
	conn  *zk.Conn
	ready chan struct{} // closed when there is a session for the first time

	mu       sync.Mutex
	life     *life
	timeout  time.Duration // on which client and server agreed
	proof    time.Time     // when the server surely had the session
	greeting greeting
	there    bool // a connection has the session
	closed   bool
	watch    *time.Timer // calls expire
	said     string      // what the client said last
	opened   sync.Once
}

// greeting is what a server said when it was connected to, of a session that may have expired.
type greeting struct {
	sent    time.Time // the request for it
	timeout time.Duration
}

// life is how long a session is known to last. Its context is the one of all leases in it.
type life struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func newLife() *life {
	l := &life{}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// connect opens a session and waits for it.
func connect(servers []string, timeout, patience time.Duration) (*session, error) {
	s := &session{ready: make(chan struct{}), life: newLife()}
	conn, _, err := zk.Connect(servers, timeout,
		zk.WithDialer(s.dial), zk.WithEventCallback(s.observe), zk.WithLogger(s), zk.WithLogInfo(true),
		zk.WithMaxConnBufferSize(bufferSize), zk.WithMaxBufferSize(bufferSize))
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, strings.Join(servers, ","), err)
	}
	s.conn = conn
	select {
	case <-s.ready:
		return s, nil
	case <-time.After(patience):
		conn.Close()
		return nil, fmt.Errorf("%w at %s within %s: %s", ErrUnreachable, strings.Join(servers, ","), patience, s.lastSaid())
	}
}

// Printf implements zk.Logger, quietly.
func (s *session) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = fmt.Sprintf(format, args...)
}

func (s *session) lastSaid() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

// observe is told of each event by the client, which waits meanwhile.
func (s *session) observe(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.timeout, s.there = s.greeting.timeout, true
		s.proven(s.greeting.sent)
		s.opened.Do(func() { close(s.ready) })
	case zk.StateDisconnected:
		s.there = false
	case zk.StateExpired:
		s.there = false
		s.life.end(lock.ErrLost)
	}
}

// greeted is told of the first answer on a connection. What it is worth, the client says by its next event.
func (s *session) greeted(sent time.Time, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting = greeting{sent, timeout}
}

// answered is told when a request was sent that the server has answered.
func (s *session) answered(sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.there {
		s.proven(sent)
	}
}

// proven notes that the server had the session at a time. One whose leases were ended in doubt, and that is still there,
// begins a new life: for new leases only.
func (s *session) proven(at time.Time) {
	if at.After(s.proof) {
		s.proof = at
	}
	left := s.left()
	if left <= 0 {
		s.life.end(lock.ErrLost)
		return
	}
	switch {
	case s.watch == nil:
		s.watch = time.AfterFunc(left, s.expire)
	case s.life.ctx.Err() != nil:
		s.life = newLife()
		s.watch.Reset(left)
	}
}

// left is how long the session surely lasts: three quarters of its timeout since the last proof. The server counts from
// later, when it got the request, and counts the whole timeout. The quarter is for what it does not count: in an ensemble
// the leader, who lets sessions expire, may not have been told of the last half tick by a server that then died.
func (s *session) left() time.Duration { return time.Until(s.proof.Add(s.timeout * 3 / 4)) }

// expire ends the life if there has been no proof for too long, and otherwise looks again when that may be so.
func (s *session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.ctx.Err() != nil {
		return
	}
	if left := s.left(); left > 0 {
		s.watch.Reset(left)
		return
	}
	s.life.end(lock.ErrLost)
}

// current is the life of the session as far as is known now.
func (s *session) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left() <= 0 { // and expire has not been called yet
		s.life.end(lock.ErrLost)
	}
	return s.life
}

// close ends the session, and with it all that is ephemeral in it.
func (s *session) close() {
	s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there, s.closed = false, true
	s.life.end(context.Canceled)
	if s.watch != nil {
		s.watch.Stop()
	}
}
