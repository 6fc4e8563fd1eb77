package fault

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/marketsim/marketsim/market/backend/etcd"
	"github.com/marketsim/marketsim/market/backend/zookeeper"
	"github.com/marketsim/marketsim/strategies/lock"
)

// ensembleLease outlasts an election.
const ensembleLease = 10 * time.Second

func sessionExpires() Scenario {
	return Scenario{
		Name:    "session-expires",
		Title:   "the holder sleeps until its session has expired, wakes and writes",
		Needs:   "ZooKeeper or etcd, Unix signals",
		Applies: needsSession,
		play:    func(s *Stage) (Verdict, string) { return takenOver(s, (*Actor).stop, (*Actor).wake) },
	}
}

func leaderKilled() Scenario {
	return Scenario{
		Name:    "leader-killed",
		Title:   "the leader of three lock servers is killed while the lock is held",
		Needs:   "ZooKeeper or etcd",
		Lease:   ensembleLease,
		Promise: "survives node loss",
		Applies: needsSession,
		play: func(s *Stage) (Verdict, string) {
			servers := s.ensemble()
			return besideHolder(s, func() {
				s.do(func() error { return killLeader(s.ctx, servers) })
			}, "the lock was lost with its leader")
		},
	}
}

// An ensemble is several servers that elect a leader.
type ensemble interface {
	io.Closer
	Addrs() []string
	Leader(ctx context.Context) (int, error)
	Kill(i int) error
}

// etcdEnsemble is an etcd cluster as an ensemble.
type etcdEnsemble struct{ *etcd.Cluster }

func (e etcdEnsemble) Kill(i int) error {
	e.Cluster.Kill(i)
	return nil
}

// ensemble starts three servers for this stage alone.
func (s *Stage) ensemble() (servers ensemble) {
	s.do(func() (err error) {
		if s.need() == lock.NeedsZooKeeper {
			var e *zookeeper.Ensemble
			if e, err = zookeeper.Start(s.ctx, 3); err == nil {
				servers, s.cast.ZooKeeper = e, e.Addrs()
			}
			return err
		}
		var c *etcd.Cluster
		if c, err = etcd.Start(s.ctx, 3); err == nil {
			servers, s.cast.Etcd = etcdEnsemble{c}, c.Addrs()
		}
		return err
	})
	if servers != nil {
		s.own(servers)
	}
	return servers
}

// killLeader kills the leader and waits for the next.
func killLeader(ctx context.Context, servers ensemble) error {
	old, err := servers.Leader(ctx)
	if err != nil {
		return err
	}
	if err := servers.Kill(old); err != nil {
		return err
	}
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		if next, err := servers.Leader(ctx); err == nil && next != old {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the servers elected no new leader")
}

// needsSession keeps out locks that no session holds.
func needsSession(s Subject) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if s.Lock.Needs != lock.NeedsZooKeeper && s.Lock.Needs != lock.NeedsEtcd {
		return "no session holds its lock"
	}
	return ""
}
