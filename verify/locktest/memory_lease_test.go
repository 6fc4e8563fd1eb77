package locktest

import (
	"context"
	"slices"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// memoryLease is one entry of a holder.
type memoryLease struct {
	locker  *memoryLocker
	name    string
	reading bool
	fence   int64
	expires time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

// end cancels a lease that is lost.
func (l *memoryLease) end() {
	switch l.locker.m.fault {
	case noticesNothing:
	case givesNoCause:
		l.cancel(nil)
	default:
		l.cancel(lock.ErrLost)
	}
}

func (l *memoryLease) Release(ctx context.Context) error {
	m := l.locker.m
	m.mu.Lock()
	defer m.mu.Unlock()

	r := m.room(l.name)
	at := slices.Index(r.holders, l)
	switch m.fault {
	case ignoresReleases:
		if ctx.Err() != nil {
			return nil
		}
	case freesAnyones:
		r.holders = nil
		return nil
	case freesAReader:
		if at < 0 && len(r.holders) > 0 && l.reading && r.holders[0].reading {
			at = 0
		}
	case forgetsEntries:
		if at >= 0 {
			r.holders = nil
			return nil
		}
	}

	if at < 0 {
		return lock.ErrLost
	}
	r.holders = slices.Delete(r.holders, at, at+1)
	return nil
}

func (l *memoryLease) Renew(context.Context) error {
	m := l.locker.m
	m.mu.Lock()
	defer m.mu.Unlock()

	if holders := m.room(l.name).holders; !slices.Contains(holders, l) {
		if m.fault == renewsAnyones || m.fault == renewsTheEnded && len(holders) == 0 {
			return nil
		}
		return lock.ErrLost
	}

	if m.fault != renewsNothing {
		l.expires = l.locker.now().Add(l.locker.TTL)
	}
	return nil
}
