package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
)

// lateKV is a client's KV of which one transaction or deletion comes to the server when the
// test has it come. Its caller hears nothing, or that the connection was lost.
type lateKV struct {
	clientv3.KV

	mu      sync.Mutex
	catches func(deletes bool) bool // the next request; nil: none
	fails   error                   // what the caller hears; nil: nothing until its context ends
	send    func() error            // the request that was caught
	caught  chan struct{}           // closed when one was
}

// late puts a lateKV before the servers of a locker.
func late(l *locker, fails error, catches func(deletes bool) bool) *lateKV {
	c := l.client.(*etcdClient).client
	kv := &lateKV{KV: c.KV, fails: fails, catches: catches, caught: make(chan struct{})}
	c.KV = kv
	return kv
}

func puts(deletes bool) bool { return !deletes }

func deletes(deletes bool) bool { return deletes }

// take answers a request in the server's place, if it is the one that is caught.
func (kv *lateKV) take(
	ctx context.Context, deletes bool, send func() error) (caught bool, err error) {

	kv.mu.Lock()
	caught = kv.catches != nil && kv.catches(deletes)
	if caught {
		kv.catches, kv.send = nil, send
		close(kv.caught)
	}
	kv.mu.Unlock()

	if caught && kv.fails == nil {
		<-ctx.Done()
		return true, ctx.Err()
	}
	return caught, kv.fails
}

// come has the request come to the server, and returns what that answers.
func (kv *lateKV) come() error {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	return kv.send()
}

func (kv *lateKV) Delete(
	ctx context.Context, key string, opts ...clientv3.OpOption,
) (*clientv3.DeleteResponse, error) {
	caught, err := kv.take(ctx, true, func() error {
		_, err := kv.KV.Delete(context.Background(), key, opts...)
		return err
	})
	if caught {
		return nil, err
	}
	return kv.KV.Delete(ctx, key, opts...)
}

func (kv *lateKV) Txn(ctx context.Context) clientv3.Txn {
	return &lateTxn{kv: kv, ctx: ctx, now: kv.KV.Txn(ctx), later: kv.KV.Txn(context.Background())}
}

// lateTxn is one transaction, twice: for now and for later.
type lateTxn struct {
	kv         *lateKV
	ctx        context.Context
	now, later clientv3.Txn
}

func (t *lateTxn) If(c ...clientv3.Cmp) clientv3.Txn {
	t.now.If(c...)
	t.later.If(c...)
	return t
}

func (t *lateTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.now.Then(ops...)
	t.later.Then(ops...)
	return t
}

func (t *lateTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.now.Else(ops...)
	t.later.Else(ops...)
	return t
}

func (t *lateTxn) Commit() (*clientv3.TxnResponse, error) {
	caught, err := t.kv.take(t.ctx, false, func() error {
		_, err := t.later.Commit()
		return err
	})
	if caught {
		return nil, err
	}
	return t.now.Commit()
}

var errNoConnection = status.Error(codes.Unavailable, "the connection is lost")

// giveUp has a locker try to take a lock, and give up once its request is caught.
func (b *bench) giveUp(l *locker, name string, kv *lateKV) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	tried := make(chan error, 1)
	go func() {
		_, err := l.Try(ctx, name)
		tried <- err
	}()
	<-kv.caught
	cancel()
	if err := <-tried; !errors.Is(err, context.Canceled) {
		b.Errorf("Try, given up: %v, want %v", err, context.Canceled)
	}
}

// comesToNothing checks that etcd refuses what a session has asked for that has ended.
func (b *bench) comesToNothing(kv *lateKV, when string) {
	b.Helper()
	if err := kv.come(); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		b.Errorf("the put that came %s: %v, want %v", when, err, rpctypes.ErrLeaseNotFound)
	}
	b.inLine(0, "after a put that came "+when)
}

// sessionOf is the session that l acquires the next lock in.
func sessionOf(l *locker) clientv3.LeaseID { return clientv3.LeaseID(session(l.client)) }

// A put that comes after its caller has given up keeps nobody out.
func latePutComesToNothing(t *testing.T, b *bench) {
	l := b.open(b.env())
	kv := late(l, nil, puts)
	b.giveUp(l, name, kv)
	b.comesToNothing(kv, "after its caller had given up")
	b.release(b.acquire(b.open(b.env())))
	b.release(b.acquire(l))
}

// Nor does one that was repeated, since its connection was lost.
func latePutOfAHolderComesToNothing(t *testing.T, b *bench) {
	l := b.open(b.env())
	kv := late(l, errNoConnection, puts)
	lease := b.acquire(l)
	b.inLine(1, "when the put was repeated")
	b.release(lease)
	b.comesToNothing(kv, "after the release")
}

// Nor does that of a locker which finds the lock held when it repeats its put.
func latePutOfAWaiterComesToNothing(t *testing.T, b *bench) {
	held := b.acquire(b.open(b.env()))
	l := b.open(b.env())
	kv := late(l, errNoConnection, puts)
	if _, err := l.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("Try: %v, want %v", err, lock.ErrHeld)
	}
	b.release(held)
	b.comesToNothing(kv, "after a try")
}

// A session in which another lock is held goes on, and what comes late in it is deleted. The
// next lock is taken in another session, and the former ends with its last release.
func latePutBesideALeaseIsDeleted(t *testing.T, b *bench) {
	const other = "another item"
	l := b.open(b.env("timeout", soon.String()))
	beside := testkit.Must(l.Acquire(t.Context(), other))(t)
	former := sessionOf(l)
	kv := late(l, nil, puts)
	b.giveUp(l, name, kv)
	testkit.Succeeds(t, kv.come())
	b.until(0)

	lease := b.acquire(l)
	if sessionOf(l) == former {
		t.Error("the next lock was taken in the session that may have a request under way")
	}
	if _, err := l.Try(t.Context(), other); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("a lock that is held in the former session: %v, want %v", err, lock.ErrHeld)
	}
	if beside.Context().Err() != nil {
		t.Error("the lease of the other lock has ended")
	}

	b.release(beside)
	if left := testkit.Must(b.etcd.TimeToLive(t.Context(), former))(t); left.TTL > 0 {
		t.Errorf("the former session lasts %d s more after the last release in it", left.TTL)
	}
	b.release(lease)
}

// The lease of a lock in a former session lasts for as long as that is kept alive.
func formerSessionIsKeptAlive(t *testing.T, b *bench) {
	const ttl = 9 * time.Second // of which a quarter is what a busy machine may take
	l := b.open(b.env("ttl", ttl.String()))
	lease := b.acquire(l)
	b.giveUp(l, "another item", late(l, nil, puts))
	b.release(testkit.Must(l.Acquire(t.Context(), "a third item"))(t)) // begins another session

	s := l.client.(*etcdClient).sessions[clientv3.LeaseID(b.line(name)[0].session)]
	proof := func() time.Time {
		s.term.mu.Lock()
		defer s.term.mu.Unlock()
		return s.term.proof
	}
	for first := proof(); proof().Equal(first); {
		if lease.Context().Err() != nil {
			t.Fatal("the lease in a former session has ended")
		}
		time.Sleep(time.Millisecond)
	}
	b.release(lease)
}

// The deletion of one who gives up his wait is sent by the key's name. It does not delete the
// key of a later acquisition.
func lateDeletionDeletesNothingLater(t *testing.T, b *bench) {
	held := b.acquire(b.open(b.env()))
	l := b.open(b.env())
	kv := late(l, errNoConnection, deletes)
	if _, err := l.Try(t.Context(), name); err == nil {
		t.Error("two hold the lock")
	}
	b.release(held)
	lease := b.acquire(l)
	testkit.Succeeds(t, kv.come())
	b.inLine(1, "after the deletion of an earlier try")
	b.release(lease)
}
