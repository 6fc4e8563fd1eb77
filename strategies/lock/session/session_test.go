package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
)

func TestMain(m *testing.M) {
	testkit.StartJavaQuickly()
	parallel := 40 // they mostly wait
	if testkit.Raced {
		parallel = 16 // the detector makes each of them slow, and sessions do not wait for that
	}
	testkit.MaxParallel(parallel)
	testkit.VerifyNoLeaks(m)
}

const name = "item"

// The tests of one product share a server, and wait at the same time.
func TestOneServer(t *testing.T) {
	t.Parallel()
	common := map[string]func(*testing.T, *bench){
		"fence is the server's":              fenceIsTheServers,
		"holder is not let in again":         holderIsNotLetInAgain,
		"names that begin alike":             namesThatBeginAlike,
		"cancelled wait leaves nothing":      cancelledWaitLeavesNothing,
		"cancelled creation leaves nothing":  cancelledCreationLeavesNothing,
		"session expiry cancels the lease":   sessionExpiryCancelsTheLease,
		"left session expires":               leftSessionExpires,
		"short cut is survived":              shortCutIsSurvived,
		"muted holder lets go before others": mutedHolderLetsGoBeforeTheServerDoes,
	}

	for _, p := range products {
		t.Run(p.kind.Name, func(t *testing.T) {
			t.Parallel()
			addrs := p.start(t, 1).Addrs()

			for _, tests := range []map[string]func(*testing.T, *bench){common, p.tests} {
				for name, test := range tests {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						test(t, newBench(t, p, addrs))
					})
				}
			}
		})
	}
}

func fenceIsTheServers(t *testing.T, b *bench) {
	l := b.open(b.env())
	var last int64
	for range 3 {
		held := b.acquire(l)
		line := b.line(name)
		if len(line) != 1 || line[0].fence != held.Fence || held.Fence <= last {
			t.Errorf("the fence is %d after %d, and in line are %v", held.Fence, last, line)
		}
		last = held.Fence
		b.release(held)
	}
}

func holderIsNotLetInAgain(t *testing.T, b *bench) {
	l := b.open(b.env())
	lease := b.acquire(l)
	if _, err := l.Try(t.Context(), name); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the holder's Try: %v, want %v", err, lock.ErrHeld)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, name)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrTimeout) {
		t.Errorf("the holder's Acquire: %v, want %v", err, context.DeadlineExceeded)
	}

	b.release(lease)
	b.release(b.acquire(l))
}

func namesThatBeginAlike(t *testing.T, b *bench) {
	l, other := b.open(b.env()), b.open(b.env())
	for _, names := range [][2]string{{"a", "a/b"}, {"a/", "a"}, {"", "/"}} {
		first := testkit.Must(l.Try(t.Context(), names[0]))(t)
		second, err := other.Try(t.Context(), names[1])
		if err != nil {
			t.Fatalf("%q excludes %q: %v", names[0], names[1], err)
		}
		b.release(first)
		b.release(second)
	}
}

func cancelledWaitLeavesNothing(t *testing.T, b *bench) {
	lease := b.acquire(b.open(b.env()))
	ctx, cancel := context.WithCancel(t.Context())
	done := b.queue(ctx, b.open(b.env()))
	b.until(2)
	cancel()
	if r := <-done; !errors.Is(r.err, context.Canceled) {
		t.Errorf("Acquire: %v, want %v", r.err, context.Canceled)
	}
	b.until(1)
	b.release(lease)
	b.inLine(0, "after the release")
}

// The reply to the creation of the place is lost, and the caller does not wait for it.
func cancelledCreationLeavesNothing(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	p.HoldReplies()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(ctx, name)
		done <- err
	}()

	b.until(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Try: %v, want %v", err, context.Canceled)
	}

	p.Cut()
	p.Heal()
	b.until(0)
}

func sessionExpiryCancelsTheLease(t *testing.T, b *bench) {
	// Of which a quarter is what a busy machine may take to notice.
	l, p := b.proxied(b.env("ttl", "8s"))
	lease := b.acquire(l)
	next := b.queue(t.Context(), b.open(b.env("timeout", soon.String())))
	b.until(2)
	if lease.Context().Err() != nil {
		t.Error("the lease has ended before the connection was lost")
	}

	p.Disconnect()
	successor := <-next
	if lease.Context().Err() == nil {
		t.Error("someone else has the lock, and its holder does not know")
	}
	if successor.err != nil {
		t.Fatal(successor.err)
	}

	if successor.lease.Fence <= lease.Fence {
		t.Errorf("the successor's fence is %d, after %d", successor.lease.Fence, lease.Fence)
	}

	b.lost(lease)
	b.release(successor.lease)
}

// A session that its worker has left keeps the lock until it expires, and its
// worker begins another one.
func leftSessionExpires(t *testing.T, b *bench) {
	l := b.open(b.env("ttl", "8s", "timeout", soon.String()))
	other := b.open(b.env("timeout", soon.String()))
	lease := b.acquire(l)
	lease.Leave()

	next := b.queue(t.Context(), other)
	b.until(2)
	successor := <-next
	if successor.err != nil {
		t.Fatal(successor.err)
	}
	if lease.Context().Err() == nil {
		t.Error("someone else has the lock, and the lease of who has left it goes on")
	}

	b.release(successor.lease)
	b.release(b.acquire(l))
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

// A lease that ends late is tried again with a longer TTL: the machine may stop for
// about as long as the margin.
func mutedHolderLetsGoBeforeTheServerDoes(t *testing.T, b *bench) {
	for ttl := 3 * time.Second; ; ttl *= 3 {
		l, p := b.proxied(b.env("ttl", ttl.String()))
		lease := b.acquire(l)
		muted := time.Now()
		p.HoldReplies()
		<-lease.Context().Done()
		took := time.Since(muted)

		p.Cut()
		p.Heal()
		b.lost(lease)
		b.release(b.acquire(l)) // by the same worker, in the same session or another

		if took <= ttl*7/8 {
			return
		}
		if ttl > 20*time.Second {
			t.Fatalf("the lease ended %v after the last answer at the latest; "+
				"the session may expire after %v", took, ttl)
		}
	}
}

// Fences grow although ZooKeeper's sequence numbers start again.
func sequenceStartsAgain(t *testing.T, b *bench) {
	l, dir := b.open(b.env()), zooDir(b.keys.Lock, name)
	first := b.acquire(l)
	b.release(first)
	testkit.Succeeds(t, b.zoo.Delete(dir, -1))
	lease := b.acquire(l)
	if n := number(b.children(dir)[0]); n != "0000000000" || lease.Fence <= first.Fence {
		t.Errorf("the number of the first node of a new parent is %s, and its fence %d, after %d",
			n, lease.Fence, first.Fence)
	}
	b.release(lease)
}

// The reply to the creation of the node is lost, with the connection.
func lostReplyIsFoundAgain(t *testing.T, b *bench) {
	l, p := b.proxied(b.env("timeout", soon.String()))
	p.HoldReplies()
	done := b.queue(t.Context(), l)
	b.until(1)
	p.Cut()
	p.Heal()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	b.inLine(1, "after one has entered")
	b.release(r.lease)
}

// A silence that ends in time costs nothing, though a reply was lost in it.
func shortSilenceOfAServerIsSurvived(t *testing.T, b *bench) {
	l, p := b.proxied(b.env())
	lease := b.acquire(l)

	p.HoldReplies()
	done := make(chan error, 1)
	go func() {
		_, err := l.Try(t.Context(), name)
		done <- err
	}()
	b.until(2)

	p.Cut()
	p.Heal()
	<-done // held, or not known because of the cut
	if lease.Context().Err() != nil {
		t.Error("the lease was cancelled")
	}

	b.release(lease)
}

// Its holder, a waiter and who comes later end soon, and say why.
func onlyServerIsStopped(t *testing.T, b *bench) {
	env := b.env("timeout", soon.String())
	l, p := b.proxied(env)
	env.Servers = b.at([]string{p.Addr()})
	waiter := b.open(env)
	for _, l := range []*locker{l, waiter} {
		l.client.(*zooClient).only.bears(silence)
	}

	lease := b.acquire(l)
	waits := b.queue(t.Context(), waiter)
	b.until(2)

	p.HoldReplies()
	began := time.Now()
	if err := lease.Release(context.Background()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("release: %v, want %v", err, ErrUnreachable)
	}
	_, err := l.Try(t.Context(), name)
	_, errAgain := l.Acquire(t.Context(), name)
	// a busy machine has time for it
	if took := time.Since(began); took > silence+env.Params.Duration(zooTTL)/3 {
		t.Errorf("it took %s", took)
	}

	for _, err := range []error{err, errAgain, (<-waits).err} {
		isUnreachable := errors.Is(err, ErrUnreachable) && !errors.Is(err, lock.ErrTimeout)
		if !isUnreachable || !strings.Contains(err.Error(), p.Addr()) {
			t.Errorf("Acquire: %v, want %v at %s", err, ErrUnreachable, p.Addr())
		}
	}

	p.Heal()
	for { // it goes on as soon as there is an answer
		if lease, err := l.Acquire(t.Context(), name); err == nil {
			b.release(lease)
			return
		}
	}
}

// A try whose term has ended meanwhile looks again.
func tryLooksAgain(t *testing.T, b *bench) {
	l := b.open(b.env())
	l.client.(*zooClient).current().finish(lock.ErrLost)
	b.release(testkit.Must(l.Try(t.Context(), name))(t))
}

// A worker whose session was revoked begins another.
func revokedSession(t *testing.T, b *bench) {
	l := b.open(b.env("ttl", "9s")) // of which it takes a third to notice
	lease := b.acquire(l)
	if _, err := b.etcd.Revoke(t.Context(), clientv3.LeaseID(b.line(name)[0].session)); err != nil {
		t.Fatal(err)
	}
	<-lease.Context().Done()
	again := b.acquire(l)
	if again.Context().Err() != nil {
		t.Error("the new lease has ended")
	}
	b.lost(lease)
	b.release(again)
}

// The library's Unlock, sent again, deletes the newer key (etcd-io/etcd#22082).
func releaseWithoutAnswer(t *testing.T, b *bench) {
	for how, left := range map[string]int{"compare": 1, "unlock": 0} {
		l, p := b.proxied(b.env("release", how))
		lease := b.acquire(l)

		p.HoldReplies()
		released := make(chan error)
		go func() {
			released <- lease.Release(context.Background())
		}()

		b.until(0)
		p.Cut()
		p.Heal()
		if err := <-released; (err != nil) != (how == unlock) {
			t.Errorf("release=%s: %v", how, err)
		}

		again := b.acquire(l)
		b.inLine(left, "release="+how+": after the holder has taken it again")
		_ = again.Release(context.Background())
	}
}

// A leader that was lost during the first request costs no order.
func TestFirstRequestIsRepeated(t *testing.T) {
	calls := 0
	answers := []error{
		status.Error(codes.Unavailable, "no leader"), rpctypes.ErrNoLeader, concurrency.ErrLocked,
	}
	lockMutex := func(*concurrency.Mutex, context.Context) error {
		calls++
		return answers[calls-1]
	}

	_, err := repeatUntilKeyIsMade(t.Context(), concurrency.NewMutex(nil, name), lockMutex)
	if calls != 3 || !errors.Is(err, concurrency.ErrLocked) {
		t.Errorf("after %d calls: %v", calls, err)
	}
}
