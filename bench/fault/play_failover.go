package fault

import (
	"context"
	"errors"
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
			return besideHolderAfter(s, func() {
				s.do(func() error { return trio.CutReplication(s.ctx) })
			}, func() {
				s.do(func() error { return inTime(trio.KillMaster()) })
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

// inTime tells a slow machine from other failures: a replica is promoted only within seconds of the cut.
func inTime(err error) error {
	if errors.Is(err, sentinel.ErrLate) {
		return errLate
	}
	return err
}

// trio starts a master and its replica for the locks of this stage alone.
func (s *Stage) trio() (trio *sentinel.Trio) {
	s.do(func() (err error) {
		trio, err = sentinel.Start(s.ctx)
		return err
	})
	if trio == nil {
		return nil
	}
	s.own(trio)
	s.do(func() error {
		master, err := trio.Master(s.ctx)
		where := at(master)
		s.cast.Locks = &where
		return err
	})
	return trio
}
