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

	mu      sync.Mutex
	life    *life
	doubt   *time.Timer // ends the life if the connection does not come back; nil while it is there
	timeout time.Duration
	said    string // what the client said last
	opened  sync.Once
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
	s := &session{ready: make(chan struct{}), timeout: timeout, life: newLife()}
	conn, _, err := zk.Connect(servers, timeout,
		zk.WithEventCallback(s.observe), zk.WithLogger(s), zk.WithLogInfo(true),
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

// Printf implements zk.Logger, quietly. It is also the only way in which the client tells the timeout on which it agreed
// with the server.
func (s *session) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(format, "authenticated:") && len(args) == 2 {
		if ms, ok := args[1].(int32); ok {
			s.timeout = time.Duration(ms) * time.Millisecond
		}
	}
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
	switch e.State {
	case zk.StateHasSession:
		if s.doubt != nil {
			s.doubt.Stop()
			s.doubt = nil
		}
		if s.life.ctx.Err() != nil {
			s.life = newLife()
		}
		s.opened.Do(func() { close(s.ready) })
	case zk.StateDisconnected:
		if s.doubt == nil {
			l := s.life
			s.doubt = time.AfterFunc(s.timeout/3, func() { l.end(lock.ErrLost) })
		}
	case zk.StateExpired:
		s.life.end(lock.ErrLost)
	}
}

// current is the life of the session as far as is known now.
func (s *session) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// close ends the session, and with it all that is ephemeral in it.
func (s *session) close() {
	s.conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubt != nil {
		s.doubt.Stop()
	}
	s.life.end(context.Canceled)
}
