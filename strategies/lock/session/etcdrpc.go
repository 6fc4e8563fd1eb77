package session

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/marketsim/marketsim/strategies/lock"
)

// timeKeepAlives is a grpc.StreamClientInterceptor that notes when each request was
// sent that kept a session alive.
func (c *etcdClient) timeKeepAlives(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil || method != etcdserverpb.Lease_LeaseKeepAlive_FullMethodName {
		return stream, err
	}
	return &keepAlives{ClientStream: stream, client: c}, nil
}

// keepAlives is the grpc.ClientStream of requests that keep sessions alive, and
// of the replies.
type keepAlives struct {
	grpc.ClientStream
	client *etcdClient
	sent   unanswered
}

func (k *keepAlives) SendMsg(m any) error {
	k.sent.send()
	return k.ClientStream.SendMsg(m)
}

func (k *keepAlives) RecvMsg(m any) error {
	if err := k.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	reply := m.(*etcdserverpb.LeaseKeepAliveResponse)
	sent, _, ok := k.sent.answer() // for every reply, or later ones would get its time

	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	s := k.client.sessions[clientv3.LeaseID(reply.ID)]
	has := reply.TTL > 0 // else the server has not got the session
	if ok && has && s != nil {
		s.term.proven(sent, time.Duration(reply.TTL)*time.Second)
	}
	return nil
}

// etcdCounter is a stats.Handler that counts requests and replies: those that
// keep a session alive in the background. Bytes are those of the messages,
// without HTTP/2's headers.
type etcdCounter lock.ExchangeObservers

type statsKey struct{} // under which the context of a call holds what counts it

func (c etcdCounter) TagRPC(ctx context.Context, call *stats.RPCTagInfo) context.Context {
	into := c.Servers
	if call.FullMethodName == etcdserverpb.Lease_LeaseKeepAlive_FullMethodName {
		into = c.Background
	}
	return context.WithValue(ctx, statsKey{}, into)
}

func (etcdCounter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	into, _ := ctx.Value(statsKey{}).(func(lock.Exchange))
	if into == nil {
		return
	}
	switch message := event.(type) {
	case *stats.OutPayload:
		into(lock.Exchange{RoundTrips: 1, Commands: 1, BytesSent: int64(message.WireLength)})
	case *stats.InPayload:
		into(lock.Exchange{BytesReceived: int64(message.WireLength)})
	}
}

func (etcdCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (etcdCounter) HandleConn(context.Context, stats.ConnStats) {}
