package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/lock"
)

// etcdSession is an etcd lease that is kept alive, with the keys that are bound to it.
//
// A request whose answer nobody has seen, because its caller gave it up or a connection
// broke, may be executed later than any request that is sent after it: the client sends
// each to another server, and a server executes those of one connection side by side. So
// no deletion makes up for a put that is late, and its key would keep everybody out for as
// long as the session lasts. Nor may the session use the name of that key again, which
// the Mutex deletes by its name, late as well. Only the end of the lease is final: etcd
// refuses a put that is bound to a lease which has ended. Therefore a session with such
// a request gets no new place, and ends when the last place in it has been given up.
type etcdSession struct {
	*concurrency.Session
	id   clientv3.LeaseID
	term *term
	// Of each lock that was asked for, a channel that is full while this session
	// has its key in the line.
	busy sync.Map

	mu     sync.Mutex
	places int  // in it
	unsure bool // a request may still come
}

// errFormer is why a session gets no new place.
var errFormer = errors.New("the session may have a request under way")

// over reports whether the worker needs another session.
func (s *etcdSession) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure || s.term.over()
}

// begin begins another session. ctx bounds only the beginning.
func (c *etcdClient) begin(ctx context.Context) error {
	asked := time.Now()
	granted, err := c.client.Grant(ctx, int64(c.env.Params.Duration(etcdTTL)/time.Second))
	if err != nil {
		return err
	}

	s := &etcdSession{id: granted.ID, term: newTerm(asked, time.Duration(granted.TTL)*time.Second)}
	former := c.session
	c.mu.Lock()
	c.session = s // before it is first kept alive
	c.sessions[s.id] = s
	c.mu.Unlock()

	s.Session, err = concurrency.NewSession(c.client, concurrency.WithLease(granted.ID))
	if err != nil {
		s.term.finish(lock.ErrLost) // the servers let it expire, and take begins another
		return err
	}
	context.AfterFunc(s.Ctx(), func() { s.term.finish(lock.ErrLost) })

	// A former one that lasts ends with the last place in it: see leavePlace.
	lost := former != nil && former.term.over()
	if lost {
		_ = c.end(former, lock.ErrLost)
	}
	return nil
}

// all are the sessions that have not ended.
func (c *etcdClient) all() []*etcdSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.sessions))
}

// end ends a session for a cause and, if a server answers soon, what is bound to it.
func (c *etcdClient) end(s *etcdSession, cause error) error {
	c.forsake(s, cause)
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_, err := c.client.Revoke(ctx, s.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, context.DeadlineExceeded) {
		return nil // it is over, or will be soon
	}
	return err
}

// forsake no longer keeps a session alive.
func (c *etcdClient) forsake(s *etcdSession, cause error) {
	s.term.finish(cause)
	if s.Session != nil {
		s.Orphan()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, s.id)
}

func (c *etcdClient) leave() error {
	for _, s := range c.all() {
		c.forsake(s, context.Canceled)
	}
	return c.client.Close()
}

func (c *etcdClient) close() (err error) {
	for _, s := range c.all() {
		err = errors.Join(err, c.end(s, context.Canceled))
	}
	return errors.Join(err, c.client.Close())
}

// enter counts a place once this session has no key in a lock's line; without wait it is
// ErrHeld if there is one. A second key would have the same name as the first, and the Mutex
// would let both in. exit is called once, when the place is left, and never after an error.
func (s *etcdSession) enter(ctx context.Context, name string, wait bool) (exit func(), err error) {
	kept, _ := s.busy.LoadOrStore(name, make(chan struct{}, 1))
	line := kept.(chan struct{})
	exit = func() { <-line }
	select {
	case line <- struct{}{}:
		return exit, s.admit(exit)
	default:
		if !wait {
			return nil, lock.ErrHeld
		}
	}

	select {
	case line <- struct{}{}:
		return exit, s.admit(exit)
	case <-s.term.ctx.Done():
		return nil, concurrency.ErrSessionExpired
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// admit counts a place, or has it exit.
func (s *etcdSession) admit(exit func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsure {
		exit()
		return errFormer
	}
	s.places++
	return nil
}

// leavePlace counts a place that has been given up, of which a request may still come if unsure.
// It reports whether the session is to end now.
func (s *etcdSession) leavePlace(unsure bool) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places--
	s.unsure = s.unsure || unsure
	return s.unsure && s.places == 0
}

// keepRemoved deletes a key, which a session may have or get late. It goes on beside the
// worker until the session ends, each time that the key is made.
func (c *etcdClient) keepRemoved(s *etcdSession, key string) error {
	removed, err := c.removeKey(s.term.ctx, key)
	if err != nil {
		return err
	}

	c.work.Go(func() {
		ctx, cancel := context.WithCancel(c.closing)
		defer cancel()
		defer context.AfterFunc(s.term.ctx, cancel)()
		for ctx.Err() == nil {
			c.awaitPut(ctx, key, removed+1)
			if revision, err := c.removeKey(ctx, key); err == nil {
				removed = revision
			}
			_ = locking.Sleep(ctx, retryEvery, nil) // a watch may fail at once, each time
		}
	})
	return nil
}

// removeKey deletes a key and returns the revision after that. It tries until over ends.
func (c *etcdClient) removeKey(over context.Context, key string) (revision int64, err error) {
	err = c.repeat(over, func(ctx context.Context) error {
		answer, err := c.client.Delete(ctx, key)
		if err == nil {
			revision = answer.Header.Revision
		}
		return err
	})
	return revision, err
}

// awaitPut waits until a key is made at a revision or later. It may return before.
func (c *etcdClient) awaitPut(ctx context.Context, key string, revision int64) {
	ctx, cancel := context.WithCancel(ctx) // ends the watch
	defer cancel()
	<-c.client.Watch(ctx, key, clientv3.WithRev(revision), clientv3.WithFilterDelete())
}
