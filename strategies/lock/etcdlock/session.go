package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/lock"
)

// session is a session of the client library and how long it is known to last. Its context is that of all its leases.
type session struct {
	*concurrency.Session
	ctx    context.Context
	end    context.CancelCauseFunc
	lasts  time.Duration  // after the last proof
	proofs chan time.Time // holds the last moment, not seen yet, at which the server is known to have had the session
	watch  sync.WaitGroup
}

func newSession(ttl time.Duration) *session {
	s := &session{lasts: ttl * 3 / 4, proofs: make(chan time.Time, 1)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	return s
}

// begin opens a session. ctx bounds only the opening.
func (l *locker) begin(ctx context.Context) (*session, error) {
	asked := time.Now()
	granted, err := l.client.Grant(ctx, int64(l.ttl/time.Second))
	if err != nil {
		return nil, err
	}
	s := newSession(time.Duration(granted.TTL) * time.Second)
	l.mu.Lock()
	l.sessions[granted.ID] = s
	l.mu.Unlock()
	s.Session, err = concurrency.NewSession(l.client, concurrency.WithLease(granted.ID))
	if err != nil {
		l.forget(granted.ID)
		return nil, err // the lease expires
	}
	s.watch.Go(func() { s.listen(asked, s.Done()) })
	return s, nil
}

// listen ends the session when the last proof is too old, or when the client library has ended it.
func (s *session) listen(proof time.Time, gone <-chan struct{}) {
	over := time.NewTimer(time.Until(proof.Add(s.lasts)))
	defer over.Stop()
	for {
		select {
		case proof := <-s.proofs:
			over.Reset(time.Until(proof.Add(s.lasts)))
		case <-over.C:
			s.end(lock.ErrLost)
			return
		case <-gone:
			s.end(lock.ErrLost)
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// proven notes that the server had the session at a time. One goroutine calls it.
func (s *session) proven(at time.Time) {
	select {
	case <-s.proofs: // an older one
	default:
	}
	s.proofs <- at
}

// leave ends a session and, if the server answers soon, what is bound to it.
func (l *locker) leave(s *session) error {
	s.end(context.Canceled)
	s.watch.Wait()
	s.Orphan()
	l.forget(s.Lease())
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_, err := l.client.Revoke(ctx, s.Lease())
	return err
}

func (l *locker) forget(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, id)
}

// timeKeepAlives is a grpc.StreamClientInterceptor that notes when each request was sent that kept a session alive. The
// client library reports only the arrival of the reply, which proves less: the reply may have been delayed on its way,
// and a lease that is counted from its arrival then outlives its session.
func (l *locker) timeKeepAlives(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != etcdserverpb.Lease_LeaseKeepAlive_FullMethodName {
		return stream, err
	}
	return &keepAlives{ClientStream: stream, answered: l.answered}, nil
}

// answered notes that the server had a session when it answered a request, and when that was sent.
func (l *locker) answered(id clientv3.LeaseID, sent time.Time) {
	l.mu.Lock()
	s := l.sessions[id]
	l.mu.Unlock()
	if s != nil {
		s.proven(sent)
	}
}

// keepAlives is the stream of requests that keep sessions alive, and of the replies.
type keepAlives struct {
	grpc.ClientStream
	answered func(id clientv3.LeaseID, sent time.Time)

	mu   sync.Mutex
	sent []time.Time // of unanswered requests, oldest first: a server answers in order
}

// SendMsg implements grpc.ClientStream.
func (k *keepAlives) SendMsg(m any) error {
	k.mu.Lock()
	k.sent = append(k.sent, time.Now())
	k.mu.Unlock()
	return k.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (k *keepAlives) RecvMsg(m any) error {
	if err := k.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sent) == 0 { // a reply without a request
		return nil
	}
	sent := k.sent[0]
	k.sent = k.sent[:copy(k.sent, k.sent[1:])]
	if reply := m.(*etcdserverpb.LeaseKeepAliveResponse); reply.TTL > 0 { // or the server has not got it
		k.answered(clientv3.LeaseID(reply.ID), sent)
	}
	return nil
}

// counter is a stats.Handler that counts requests and replies: those that keep a session alive in the background. Bytes
// are those of the messages, without HTTP/2's headers.
type counter lock.Traffic

// statsKey is the key under which the context of a call holds what counts it.
type statsKey struct{}

// TagRPC implements stats.Handler.
func (c counter) TagRPC(ctx context.Context, call *stats.RPCTagInfo) context.Context {
	into := c.Servers
	if call.FullMethodName == etcdserverpb.Lease_LeaseKeepAlive_FullMethodName {
		into = c.Background
	}
	return context.WithValue(ctx, statsKey{}, into)
}

// HandleRPC implements stats.Handler.
func (counter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	into, _ := ctx.Value(statsKey{}).(*backend.Stats)
	switch message := event.(type) {
	case *stats.OutPayload:
		into.Count(backend.Counts{RoundTrips: 1, Commands: 1, BytesSent: int64(message.WireLength)})
	case *stats.InPayload:
		into.Count(backend.Counts{BytesReceived: int64(message.WireLength)})
	}
}

// TagConn implements stats.Handler.
func (counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (counter) HandleConn(context.Context, stats.ConnStats) {}

// lease is a Mutex that is locked.
type lease struct {
	locker   *locker
	session  *session
	name     string
	key      string
	fence    int64
	released chan struct{}
}

func (l *locker) newLease(s *session, mutex *concurrency.Mutex, name string) *lease {
	owner := mutex.IsOwner() // the only place where the library gives the revision
	e := &lease{
		locker: l, session: s, name: name, key: mutex.Key(), fence: owner.GetCompare().GetCreateRevision(),
		released: make(chan struct{}),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = e.released
	return e
}

// Context implements lock.Lease: it ends with the session.
func (e *lease) Context() context.Context { return e.session.ctx }

// Fence implements lock.Fencer: the revision in which the key was created.
func (e *lease) Fence() int64 { return e.fence }

// Release implements lock.Lease. When ctx ends first, the key is deleted beside the worker. The end of the session
// deletes it, too.
func (e *lease) Release(ctx context.Context) error {
	done := make(chan error, 1)
	e.locker.work.Go(func() {
		err := e.delete()
		// Not before: a new Mutex of this session has the same key, which this deletion would remove.
		e.locker.free(e.name, e.released)
		done <- err
	})
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.session.ctx.Done():
	}
	if errors.Is(context.Cause(e.session.ctx), lock.ErrLost) {
		err = lock.ErrLost
	}
	if err != nil {
		return fmt.Errorf("release %s: %w", e.key, err)
	}
	return nil
}

// delete deletes the key if it is the lease's, until the server has answered or the session is over.
func (e *lease) delete() error {
	mine := clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.fence)
	asked := false
	return e.locker.repeat(e.session, func(ctx context.Context) error {
		answer, err := e.locker.client.Txn(ctx).If(mine).Then(clientv3.OpDelete(e.key)).Commit()
		if err == nil && !answer.Succeeded && !asked {
			return lock.ErrLost
		}
		asked = true // an earlier request may have deleted it
		return err
	})
}
