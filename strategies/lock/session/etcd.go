package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var (
	etcdTTL = param.Duration("ttl", 10*time.Second, time.Second,
		"how long a dead holder keeps the lock, in whole seconds; the server may make it longer").As(param.Lease)
	releaseParam = param.OneOf("release", "delete only the key of this acquisition, or unlock as the library does: "+
		"by the key's name, and again at the next acquisition if there was no answer", "compare", unlock)
)

const unlock = "unlock"

// Etcd is the Mutex of etcd's client library. A session is an etcd lease. The worker puts
// a key of its own, bound to it, under the lock's prefix: the key that was created first
// holds the lock, and everybody else watches the one created before its own. To release
// is to delete the key. The fence is the revision in which the key was created.
//
// What breaks it: what the package comment says. With release=unlock a lock is
// released by the library's Unlock, which deletes the key by its name. All
// acquisitions of a session have the same key. If the reply to an Unlock is lost
// and it is sent again after the session has taken the lock again, it deletes the
// newer key, and the holder does not notice (etcd-io/etcd#22082). Source: etcd's
// client library, package concurrency.
func Etcd() lock.Kind {
	return complete(lock.Kind{
		Name:    "etcd",
		Summary: "the Mutex of etcd's client library: a key a waiter, bound to a session; the oldest holds the lock",
		Source:  "go.etcd.io/etcd/client/v3, package concurrency",

		Promises:     promises,
		PromisesWith: func(v param.Values, p *lock.Promises) { p.OwnerRelease = v.Text(releaseParam) != unlock },
		Params:       []param.Param{etcdTTL, lock.TimeoutParam, releaseParam},
		Check: func(v param.Values) error {
			if ttl := v.Duration(etcdTTL); ttl%time.Second != 0 { // etcd counts no others
				return fmt.Errorf("ttl=%s is not in whole seconds", ttl)
			}
			return nil
		},
		Variants: []string{":" + releaseParam.Name + "=" + unlock}, // as the library has it
		Needs:    lock.NeedsEtcd,
	}, func(s lock.Servers) []string { return s.Etcd }, joinEtcd)
}

// etcdClient is a worker's client of etcd with one session.
type etcdClient struct {
	*locker
	client *clientv3.Client

	unlocks    bool     // see release=unlock
	unanswered sync.Map // each *concurrency.Mutex of which no answer said that it is unlocked

	mu      sync.Mutex
	session *etcdSession // the worker changes it
}

func joinEtcd(l *locker, servers []string, patience time.Duration) (client, error) {
	// After this long a silence the client tests the connection and, if nothing answers,
	// closes it. gRPC allows no less.
	const keepAlive, keepAliveAnswer = 10 * time.Second, 2 * time.Second
	c := &etcdClient{locker: l, unlocks: l.env.Params.Text(releaseParam) == unlock}
	var err error
	c.client, err = clientv3.New(clientv3.Config{
		Endpoints: servers, Logger: zap.NewNop(),
		DialTimeout: connectTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveAnswer,
		DialOptions: []grpc.DialOption{
			grpc.WithChainStreamInterceptor(c.timeKeepAlives), grpc.WithStatsHandler(etcdCounter(l.env.Traffic)),
		},
	})
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.begin(ctx); err != nil {
		return nil, errors.Join(err, c.client.Close())
	}
	return c, nil
}

type etcdSession struct {
	*concurrency.Session
	id   clientv3.LeaseID
	term *term
	// Of each lock that was asked for, a channel that is full while this session
	// has its key in the line.
	busy sync.Map
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
	c.mu.Unlock()

	s.Session, err = concurrency.NewSession(c.client, concurrency.WithLease(granted.ID))
	if err != nil {
		s.term.finish(lock.ErrLost) // the servers let it expire
		return err
	}
	context.AfterFunc(s.Ctx(), func() { s.term.finish(lock.ErrLost) })

	if former != nil {
		_ = c.end(former) // it is lost
	}
	return nil
}

// end ends a session and, if a server answers soon, what is bound to it.
func (c *etcdClient) end(s *etcdSession) error {
	s.term.finish(context.Canceled)
	if s.Session != nil {
		s.Orphan()
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_, err := c.client.Revoke(ctx, s.id)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, context.DeadlineExceeded) {
		return nil // it is over, or will be soon
	}
	return err
}

func (c *etcdClient) leave() error {
	c.session.term.finish(context.Canceled)
	c.session.Orphan()
	return c.client.Close()
}

func (c *etcdClient) close() error { return errors.Join(c.end(c.session), c.client.Close()) }

func (c *etcdClient) place(name string, calls *calls) place {
	return &etcdPlace{client: c, calls: calls, name: name}
}

// etcdPlace is the key of a session in the line of a lock.
type etcdPlace struct {
	client  *etcdClient
	calls   *calls
	name    string
	session *etcdSession       // in which the key is; nil: none
	exit    func()             // lets the session's next place in
	mutex   *concurrency.Mutex // which has made the key
	fence   int64              // of the holder
}

// take implements place. It begins another session if there is none.
func (p *etcdPlace) take(ctx context.Context, until time.Time) (*term, int64, error) {
	lockMutex := (*concurrency.Mutex).TryLock
	if !until.IsZero() {
		lockMutex = (*concurrency.Mutex).Lock
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}

	for {
		if p.client.session.term.over() {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			err := p.client.begin(ctx)
			cancel()
			if err != nil {
				return nil, 0, err
			}
		}

		s := p.client.session
		exit, err := s.enter(ctx, p.name, !until.IsZero())
		if err == nil {
			mutex := concurrency.NewMutex(s.Session, url.PathEscape(p.client.env.Key(p.name)))
			p.session, p.exit, p.mutex = s, exit, mutex
			// Beside the worker: when ctx ends, the Mutex deletes its key without a
			// bound on the time.
			err = p.calls.await(ctx, func() error { return repeatUntilKeyIsMade(ctx, mutex, lockMutex) })
		}

		if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, concurrency.ErrSessionExpired) {
			s.term.finish(lock.ErrLost)
		}
		switch {
		case s.term.over():
			continue
		case errors.Is(err, concurrency.ErrLocked):
			return nil, 0, lock.ErrHeld
		case err != nil:
			return nil, 0, err
		}

		owner := p.mutex.IsOwner() // the only place where the library gives the revision
		p.fence = owner.GetCompare().GetCreateRevision()
		p.client.unlockAgain(ctx)
		return s.term, p.fence, nil
	}
}

// repeatUntilKeyIsMade locks a Mutex, again if a leader or a server was lost during the first
// request, which makes the Mutex's key: it is the same key again. Later requests are not
// repeated, because they may delete the key, late.
func repeatUntilKeyIsMade(
	ctx context.Context, m *concurrency.Mutex, lockMutex func(*concurrency.Mutex, context.Context) error,
) error {
	for end := time.Now().Add(abandonTimeout); ; {
		err := lockMutex(m, ctx)
		if err == nil {
			return nil
		}

		var answer rpctypes.EtcdError
		lost := status.Code(err) == codes.Unavailable || errors.As(err, &answer) && answer.Code() == codes.Unavailable
		owner := m.IsOwner()
		keyIsMade := owner.GetCompare().GetCreateRevision() > 0

		if !lost || keyIsMade || time.Now().After(end) {
			return err
		}
		if locking.Sleep(ctx, retryEvery, nil) != nil {
			return err
		}
	}
}

// enter waits until this session has no key in a lock's line, because the next one would
// have the same name: within a session the Mutex lets its holder in again.
func (s *etcdSession) enter(ctx context.Context, name string, wait bool) (exit func(), err error) {
	kept, _ := s.busy.LoadOrStore(name, make(chan struct{}, 1))
	line := kept.(chan struct{})
	exit = func() { <-line }
	select {
	case line <- struct{}{}:
		return exit, nil
	default:
		if !wait {
			return nil, lock.ErrHeld
		}
	}

	select {
	case line <- struct{}{}:
		return exit, nil
	case <-s.term.ctx.Done():
		return nil, concurrency.ErrSessionExpired
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave implements place. The end of the session deletes the key, too.
func (p *etcdPlace) leave() error {
	s := p.session
	if s == nil {
		return lock.ErrLost
	}
	defer p.exit()

	if p.fence != 0 && p.client.unlocks {
		ctx, cancel := context.WithTimeout(p.client.closing, abandonTimeout)
		defer cancel()
		err := p.mutex.Unlock(ctx)
		if err != nil {
			p.client.unanswered.Store(p.mutex, nil)
		}
		return err
	}

	key := p.mutex.Key()
	if key == "" || key == "\x00" { // which it is when the Mutex has deleted it
		return lock.ErrLost
	}
	var mine []clientv3.Cmp
	if p.fence != 0 {
		mine = append(mine, clientv3.Compare(clientv3.CreateRevision(key), "=", p.fence))
	}

	asked := false
	err := p.client.repeat(s.term.ctx, func(ctx context.Context) error {
		answer, err := p.client.client.Txn(ctx).If(mine...).Then(clientv3.OpDelete(key)).Commit()
		if err == nil && !answer.Succeeded && !asked {
			return lock.ErrLost
		}
		asked = true // an earlier request may have deleted it
		return err
	})

	if err != nil && s.term.over() {
		return lock.ErrLost
	}
	return err
}

// unlockAgain unlocks once more, now that the server answers, what it did not answer about.
func (c *etcdClient) unlockAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, abandonTimeout)
	defer cancel()
	for m := range c.unanswered.Range {
		_ = m.(*concurrency.Mutex).Unlock(ctx) // nobody waits for it
	}
	c.unanswered.Clear()
}
