package session

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// agreed is the time-out of the sessions of these tests.
const agreed = 12 * time.Second

// over reports whether a term's context has ended, once nothing more happens
// without time passing.
func over(t *term) bool {
	synctest.Wait()
	return t.ctx.Err() != nil
}

func TestSilenceEndsTheTermBeforeTheServerCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerm(time.Now(), agreed)

		time.Sleep(agreed / 3)
		asked := time.Now()
		time.Sleep(agreed / 3)
		term.proven(asked, agreed) // late: the server may have been silent since it was asked

		time.Sleep(agreed*5/12 - time.Nanosecond)
		if over(term) {
			t.Fatal("the term has ended less than three quarters of the time-out after the last proof")
		}

		time.Sleep(time.Nanosecond)
		if !over(term) || !errors.Is(context.Cause(term.ctx), lock.ErrLost) {
			t.Errorf("three quarters of the time-out after the last proof "+
				"the term has ended with %v, want ErrLost",
				context.Cause(term.ctx))
		}
	})
}

// A proof that comes too late does not save a term by being faster than the timer.
func TestLateProofSavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerm(time.Now(), agreed)
		term.timer.Stop() // it has not run yet
		time.Sleep(agreed * 3 / 4)
		if term.proven(time.Now(), agreed) || term.ctx.Err() == nil {
			t.Error("a term that is over goes on")
		}
	})
}

// greeted is a ZooKeeper session that a server has granted.
func greeted() *zooClient {
	s := &zooClient{locker: &locker{}, term: newTerm(time.Time{}, 0)}
	s.greeting(time.Now(), agreed)
	return s
}

// Neither another connection nor a silence ends a term, if there is an answer in time.
// New leases are well after it.
func TestZooKeeperIsHeardOfInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := greeted()
		term := s.current()

		for range 10 {
			time.Sleep(agreed * 7 / 12)
			s.greeting(time.Now(), agreed)
		}
		if over(term) || s.current() != term {
			t.Error("the term has ended, and its session was heard of in time")
		}

		time.Sleep(agreed)
		s.answered(time.Now())
		if next := s.current(); next == term || over(next) {
			t.Error("there is no new term, and the session is still there")
		}

		time.Sleep(agreed * 3 / 4)
		if !over(s.current()) {
			t.Error("nobody watches the new term")
		}
	})
}

func TestZooKeeperSaysThatTheSessionHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := greeted()
		term := s.current()

		// ZooKeeper greets a client with a time-out of 0 when its session has expired.
		s.greeting(time.Now(), 0)
		if !over(term) || !errors.Is(context.Cause(term.ctx), lock.ErrLost) {
			t.Errorf("the term has ended with %v, want ErrLost", context.Cause(term.ctx))
		}

		s.greeting(time.Now(), agreed)
		if over(s.current()) {
			t.Error("there is no new term, and there is another session")
		}

		s.term.finish(nil)
	})
}

// packet is one of ZooKeeper's, of 20 bytes after its length.
func packet(number int32, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, 20)
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	return append(b, make([]byte, 12)...)
}

// Answers come in pieces of any size, and are read in others. An event is no answer.
func TestZooKeeperIsCountedFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := [][]byte{packet(0, agreed), packet(-1, 0), packet(7, 0), packet(-1, 0), packet(-2, 0)}
		proves := []int{1, 1, 2, 2, 3} // requests that were answered

		for size := 1; size < 50; size++ {
			client, server := net.Pipe()
			s := &zooClient{locker: &locker{}, term: newTerm(time.Time{}, 0)}
			c := s.wrap(client)
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
				if _, err := c.Write([]byte("a request")); err != nil {
					t.Fatal(err)
				}
			}
			go func() {
				for piece := range slices.Chunk(slices.Concat(said...), size) {
					server.Write(piece)
				}
				server.Close()
			}()

			for i, packet := range said {
				for read := 0; read < len(packet); {
					n := testkit.Must(c.Read(make([]byte, min(50-size, len(packet)-read))))(t)
					read += n
				}
				if proof := s.current().proof; !proof.Equal(sent[proves[i]-1]) || s.timeout != agreed {
					t.Errorf("in pieces of %d: packet %d proves %v until %s, want %v",
						size, i, proof, s.timeout, sent[proves[i]-1])
				}
			}

			client.Close()
			s.term.finish(nil)
		}
	})
}

func TestZooKeepersPaths(t *testing.T) {
	key := func(name string) string {
		return "m:{a/b}:lock:" + name
	}
	root := zooRoot(key)
	seen := map[string]string{}
	for _, name := range []string{
		"", ".", "..", "...", "%", "%2F", "/", "a/b", "a%2Fb", "a b", "é", "users:1", "a\x00b",
	} {
		dir := zooDir(key, name)
		if other, ok := seen[dir]; ok {
			t.Errorf("%q and %q share %s", name, other, dir)
		}
		seen[dir] = name

		rest := strings.TrimPrefix(dir, root+"/")
		if strings.Contains(rest, "/") || slices.Contains([]string{"", ".", ".."}, rest) {
			t.Errorf("the path of %q is %s", name, dir)
		}
	}

	if n := strings.Count(root, "/"); n != 1 {
		t.Errorf("the root is %s", root)
	}
}

// lateStream is a stream of etcd whose replies come when they are let through.
type lateStream struct {
	grpc.ClientStream
	replies chan *etcdserverpb.LeaseKeepAliveResponse
}

func (lateStream) SendMsg(any) error { return nil }

func (s lateStream) RecvMsg(m any) error {
	reply := <-s.replies
	answer := m.(*etcdserverpb.LeaseKeepAliveResponse)
	answer.ID = reply.ID
	answer.TTL = reply.TTL
	return nil
}

// A reply that was held up proves only that the server had the session when the
// request was sent.
func TestEtcdIsCountedFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &etcdSession{id: 7, term: newTerm(time.Now(), agreed)}
		late := lateStream{replies: make(chan *etcdserverpb.LeaseKeepAliveResponse, 1)}
		client := &etcdClient{sessions: map[clientv3.LeaseID]*etcdSession{s.id: s}}
		answer := func(
			context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return late, nil
		}
		stream, err := client.timeKeepAlives(t.Context(), nil, nil,
			"/etcdserverpb.Lease/LeaseKeepAlive", answer)
		if err != nil {
			t.Fatal(err)
		}

		begin := time.Now()
		for range 3 {
			time.Sleep(time.Second)
			_ = stream.SendMsg(&etcdserverpb.LeaseKeepAliveRequest{ID: 7})
		}

		for i, c := range []struct {
			id    clientv3.LeaseID
			ttl   int64
			proof time.Duration // after the begin
		}{{7, 12, time.Second}, {8, 12, time.Second}, {7, 0, time.Second}, {7, 12, time.Second}} {
			late.replies <- &etcdserverpb.LeaseKeepAliveResponse{ID: int64(c.id), TTL: c.ttl}
			_ = stream.RecvMsg(&etcdserverpb.LeaseKeepAliveResponse{})
			if proof := s.term.proof.Sub(begin); proof != c.proof {
				t.Errorf("after reply %d the last proof is of %s, want %s", i+1, proof, c.proof)
			}
		}

		<-s.term.ctx.Done()
		if lasted := time.Since(begin); lasted != time.Second+agreed*3/4 {
			t.Errorf("it ended %s after its begin, and the last request that was answered "+
				"was sent after 1s", lasted)
		}
	})
}

func TestServersAreNeeded(t *testing.T) {
	t.Parallel()
	joins := []func(*locker, []string, time.Duration) (client, error){joinZoo, joinEtcd}
	for i, p := range products {
		k := p.kind
		if _, err := k.New(lock.Env{}); !errors.Is(err, lock.ErrServers) {
			t.Errorf("%s without servers: %v, want %v", k.Name, err, lock.ErrServers)
		}

		impatient := func(l *locker, servers []string, _ time.Duration) (client, error) {
			return joins[i](l, servers, 50*time.Millisecond)
		}

		silent := []string{testkit.Relay(t, "127.0.0.1:1").Addr()}
		env := lock.Env{Key: func(name string) string {
			return name
		}}
		_, err := complete(k, func(lock.Servers) []string {
			return silent
		}, impatient).New(env)
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), silent[0]) {
			t.Errorf("%s without an answer: %v, want %v and the address", k.Name, err, ErrUnreachable)
		}
	}
}

func TestEtcdCountsWholeSeconds(t *testing.T) {
	for value, ok := range map[string]bool{"1500ms": false, "1s": true, "1m0s": true} {
		if err := Etcd().Check(param.Values{"ttl": value}); (err == nil) != ok {
			t.Errorf("ttl=%s: %v", value, err)
		}
	}
}
