package etcdlock

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/marketsim/marketsim/strategies/lock"
)

// life is a session and how long it is known to last. Its context is the one of all leases in it.
type life struct {
	session *concurrency.Session
	ctx     context.Context
	end     context.CancelCauseFunc
	watch   sync.WaitGroup
}

// begin opens a session. ctx bounds that only.
func begin(ctx context.Context, client *clientv3.Client, ttl time.Duration) (*life, error) {
	granted, err := client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithLease(granted.ID))
	if err != nil {
		return nil, err // the lease expires
	}
	l := &life{session: session}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	// A second listener: the session's own tells nobody when it last heard from the server.
	alive, err := client.KeepAlive(l.ctx, granted.ID)
	if err != nil {
		l.end(err)
		session.Orphan()
		return nil, err
	}
	l.watch.Go(func() { l.listen(alive, time.Duration(granted.TTL)*time.Second*3/4) })
	return l, nil
}

// listen ends the life when the server has not been heard for too long, or says that the lease is gone.
func (l *life) listen(alive <-chan *clientv3.LeaseKeepAliveResponse, patience time.Duration) {
	silence := time.NewTimer(patience)
	defer silence.Stop()
	for {
		select {
		case _, ok := <-alive:
			if !ok {
				l.end(lock.ErrLost)
				return
			}
			silence.Reset(patience)
		case <-silence.C:
			l.end(lock.ErrLost)
			return
		}
	}
}

// close ends the session and, if the server answers soon, what is bound to it.
func (l *life) close() error {
	l.end(context.Canceled)
	l.watch.Wait()
	l.session.Orphan()
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	_, err := l.session.Client().Revoke(ctx, l.session.Lease())
	return err
}
