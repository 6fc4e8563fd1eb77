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

		Promises: promises,
		PromisesWith: func(v param.Values, p *lock.Promises) {
			p.OwnerRelease = v.Text(releaseParam) != unlock
		},
		Params: []param.Param{etcdTTL, lock.TimeoutParam, releaseParam},
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

// etcdClient is a worker's client of etcd with one session, and what is still held in former ones.
type etcdClient struct {
	*locker
	client *clientv3.Client

	unlocks    bool     // see release=unlock
	unanswered sync.Map // each *concurrency.Mutex of which no answer said that it is unlocked

	mu       sync.Mutex
	session  *etcdSession                      // of what is acquired next; the worker changes it
	sessions map[clientv3.LeaseID]*etcdSession // all that are kept alive
}

func joinEtcd(l *locker, servers []string, patience time.Duration) (client, error) {
	// After this long a silence the client tests the connection and, if nothing answers,
	// closes it. gRPC allows no less.
	const keepAlive, keepAliveAnswer = 10 * time.Second, 2 * time.Second

	c := &etcdClient{
		locker:   l,
		unlocks:  l.env.Params.Text(releaseParam) == unlock,
		sessions: map[clientv3.LeaseID]*etcdSession{},
	}

	var err error
	c.client, err = clientv3.New(clientv3.Config{
		Endpoints: servers, Logger: zap.NewNop(),
		DialTimeout: connectTimeout, DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveAnswer,
		DialOptions: []grpc.DialOption{
			grpc.WithChainStreamInterceptor(c.timeKeepAlives),
			grpc.WithStatsHandler(etcdCounter(l.env.Traffic)),
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
	late    string             // a key that a request of the mutex may still make or delete; empty: none
	fence   int64              // of the holder
}

// take implements place. It begins another session if there is none that can get a new
// place, and again whenever one is lost before the lock is held. It does not announce
// step.Waiting, since the Mutex does not say that it waits: package fault allows for that.
func (p *etcdPlace) take(ctx context.Context, until time.Time) (*term, int64, error) {
	lockMutex := (*concurrency.Mutex).TryLock
	if !until.IsZero() {
		lockMutex = (*concurrency.Mutex).Lock
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}

	for {
		if p.client.session.over() {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			err := p.client.begin(ctx)
			cancel()
			if err != nil {
				return nil, 0, err
			}
		}

		s := p.client.session // read without mu: the worker, which is here, changes it
		exit, err := s.enter(ctx, p.name, !until.IsZero())
		if err == nil {
			mutex := concurrency.NewMutex(s.Session, url.PathEscape(p.client.env.Key(p.name)))
			p.session = s
			p.exit = exit
			p.mutex = mutex
			p.late = ""

			// Beside the worker: when ctx ends, the Mutex deletes its key without a
			// bound on the time. leave reads p.late only when no call is under way.
			err = p.calls.await(ctx, func() (err error) {
				p.late, err = repeatUntilKeyIsMade(ctx, mutex, lockMutex)
				return err
			})
		}

		if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, concurrency.ErrSessionExpired) {
			s.term.finish(lock.ErrLost)
		}
		switch {
		case s.term.over() || errors.Is(err, errFormer):
			continue // even if err is nil: the place has ended with its session
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
// repeated, because they may delete the key, late. It returns the key if a request that makes
// or deletes it had no answer, and may still come.
func repeatUntilKeyIsMade(
	ctx context.Context, m *concurrency.Mutex,
	lockMutex func(*concurrency.Mutex, context.Context) error,
) (late string, err error) {
	for end := time.Now().Add(abandonTimeout); ; {
		err := lockMutex(m, ctx)
		if err == nil {
			return late, nil
		}
		if m.Key() != deletedKey {
			late = m.Key()
		}

		// Whether the server was lost is said by gRPC, or by the server that still answered. The
		// Mutex knows its key's revision once a request that made it was answered.
		var answer rpctypes.EtcdError
		lost := status.Code(err) == codes.Unavailable ||
			errors.As(err, &answer) && answer.Code() == codes.Unavailable
		owner := m.IsOwner()
		keyIsMade := owner.GetCompare().GetCreateRevision() > 0

		if !lost || keyIsMade || time.Now().After(end) {
			return late, err
		}
		if locking.Sleep(ctx, retryEvery, nil) != nil {
			return late, err
		}
	}
}

// deletedKey is what a Mutex calls its key once etcd has told it that it is deleted.
const deletedKey = "\x00"

// leave implements place. A place that may have a request under way goes with its session.
func (p *etcdPlace) leave() error {
	s := p.session
	if s == nil {
		return lock.ErrLost
	}
	defer p.exit() // last: the next place has a key of the same name

	var err error
	held := p.fence != 0
	unsure := p.late != ""
	switch {
	case unsure && !held: // the key may come later
	case held && p.client.unlocks:
		err = p.unlock()
	default:
		err = p.remove()
	}

	var later error
	last := s.leavePlace(unsure)
	switch {
	case last:
		later = p.client.end(s, errEmpty)
	case unsure: // other places keep the session, and with it a key that comes late
		later = p.client.keepRemoved(s, p.late)
	}

	if held || later == nil { // without an answer the servers let the session of a holder expire
		return err
	}
	return later
}

// unlock gives up the key of a holder as the library does.
func (p *etcdPlace) unlock() error {
	ctx, cancel := context.WithTimeout(p.client.closing, abandonTimeout)
	defer cancel()
	err := p.mutex.Unlock(ctx)
	if err != nil {
		p.client.unanswered.Store(p.mutex, nil)
	}
	return err
}

// remove deletes the key that the Mutex has made, and no later one of this name. The end of
// the session deletes it, too.
func (p *etcdPlace) remove() error {
	key := p.mutex.Key()
	if key == "" || key == deletedKey {
		return lock.ErrLost
	}

	asked := false
	err := p.client.repeat(p.session.term.ctx, func(ctx context.Context) error {
		deletesOwn := p.client.client.Txn(ctx).If(p.mutex.IsOwner()).Then(clientv3.OpDelete(key))
		answer, err := deletesOwn.Commit()
		if err == nil && !answer.Succeeded && !asked {
			return lock.ErrLost
		}
		asked = true // an earlier request may have deleted it
		return err
	})
	if err != nil && p.session.term.over() {
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
