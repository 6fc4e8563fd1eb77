package fault

import (
	"context"
	"time"

	"github.com/marketsim/marketsim/market/backend/sentinel"
)

// failoverLease outlasts a failover.
const failoverLease = 30 * time.Second

func failover() Scenario {
	return Scenario{
		Name:    "failover",
		Title:   "the master of the locks dies, and Sentinel promotes a replica that had not received the lock",
		Needs:   "redis-server",
		Lease:   failoverLease,
		Applies: needsOneRedis,
		play: func(s *Stage) (Verdict, string) {
			trio := s.trio()
			return besideHolder(s, func() {
				s.do(trio.KillMaster)
				s.do(func() error {
					ctx, cancel := context.WithTimeout(s.ctx, patience)
					defer cancel()
					master, err := trio.AwaitFailover(ctx)
					where := at(master)
					s.cast.Locks = &where // of who comes now
					return err
				})
			}, "the lock was never replicated: another gets in beside the holder")
		},
	}
}

// trio starts a master and a replica that no longer follows it, for the locks of this stage alone.
func (s *Stage) trio() (trio *sentinel.Trio) {
	s.do(func() (err error) {
		trio, err = sentinel.Start(s.ctx)
		return err
	})
	if trio == nil {
		return nil
	}
	s.own(trio)
	s.do(func() error { return trio.CutReplication(s.ctx) })
	s.do(func() error {
		master, err := trio.Master(s.ctx)
		where := at(master)
		s.cast.Locks = &where
		return err
	})
	return trio
}
