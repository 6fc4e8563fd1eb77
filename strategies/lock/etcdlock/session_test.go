package etcdlock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/marketsim/marketsim/strategies/lock"
)

const ttl = 4 * time.Second

// lateStream is a stream whose replies come when they are let through.
type lateStream struct {
	grpc.ClientStream
	replies chan *etcdserverpb.LeaseKeepAliveResponse
}

func (lateStream) SendMsg(any) error { return nil }

func (s lateStream) RecvMsg(m any) error {
	reply := <-s.replies
	m.(*etcdserverpb.LeaseKeepAliveResponse).ID, m.(*etcdserverpb.LeaseKeepAliveResponse).TTL = reply.ID, reply.TTL
	return nil
}

// A reply that was held up proves only that the server had the session when the request was sent.
func TestALeaseIsCountedFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begun := newSession(ttl), time.Now()
		l := &locker{sessions: map[clientv3.LeaseID]*session{7: s}}
		late := lateStream{replies: make(chan *etcdserverpb.LeaseKeepAliveResponse)}
		opened, err := l.timeKeepAlives(t.Context(), nil, nil, "/etcdserverpb.Lease/LeaseKeepAlive",
			func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				return late, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		s.watch.Go(func() { s.listen(begun, nil) })
		go func() { // as the client library does
			for range 2 {
				_ = opened.RecvMsg(&etcdserverpb.LeaseKeepAliveResponse{})
			}
		}()
		time.Sleep(time.Second)
		_ = opened.SendMsg(&etcdserverpb.LeaseKeepAliveRequest{ID: 7})
		time.Sleep(time.Second)
		_ = opened.SendMsg(&etcdserverpb.LeaseKeepAliveRequest{ID: 7})
		time.Sleep(900 * time.Millisecond)
		late.replies <- &etcdserverpb.LeaseKeepAliveResponse{ID: 7, TTL: 4} // to the first
		<-s.ctx.Done()
		if lasted := time.Since(begun); lasted != time.Second+ttl*3/4 || !errors.Is(context.Cause(s.ctx), lock.ErrLost) {
			t.Errorf("it ended %s after its begin with %v, and the last request that was answered was sent after 1s",
				lasted, context.Cause(s.ctx))
		}
		late.replies <- &etcdserverpb.LeaseKeepAliveResponse{ID: 8, TTL: 4} // of a session that was left
	})
}

// A server that no longer has the session answers, too.
func TestAnExpiredSessionIsNotProven(t *testing.T) {
	var proofs []clientv3.LeaseID
	replies := make(chan *etcdserverpb.LeaseKeepAliveResponse, 3)
	k := &keepAlives{
		ClientStream: lateStream{replies: replies},
		answered:     func(id clientv3.LeaseID, _ time.Time) { proofs = append(proofs, id) },
	}
	for id := range int64(2) {
		_ = k.SendMsg(&etcdserverpb.LeaseKeepAliveRequest{ID: id})
		replies <- &etcdserverpb.LeaseKeepAliveResponse{ID: id, TTL: id}
	}
	replies <- &etcdserverpb.LeaseKeepAliveResponse{ID: 2, TTL: 2} // a reply without a request
	for range 3 {
		_ = k.RecvMsg(&etcdserverpb.LeaseKeepAliveResponse{})
	}
	if !slices.Equal(proofs, []clientv3.LeaseID{1}) {
		t.Errorf("proven are %d, want 1 alone", proofs)
	}
}
