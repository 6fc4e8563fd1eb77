package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

func TestSetPXPausedHolderDoesNotNoticeItsLoss(t *testing.T) {
	eachServer(t, func(t *testing.T, b *bench) {
		paused := b.try(b.worker("set-px", setting{}))
		b.expire()
		next := b.try(b.worker("set-px", setting{}))
		if paused.Context().Err() != nil {
			t.Error("the paused holder was told, which it was not promised")
		}
		wants(t, "the late release", paused.Release(t.Context()), lock.ErrLost)
		wants(t, "the next one's release", next.Release(t.Context()), nil)
	})
}

func TestSetPXSlowClockHardlyTakesTheLock(t *testing.T) {
	for _, expiry := range []string{"pxat", "exat"} {
		t.Run(expiry, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				slow := setting{now: showing(time.Now().Add(-hour)), params: param.Values{"expiry": expiry}}
				one := b.try(b.worker("set-px", slow))
				other := b.try(b.worker("set-px", setting{}))
				wants(t, "release by the slow clock", one.Release(t.Context()), lock.ErrLost)
				wants(t, "the other's release", other.Release(t.Context()), nil)
			})
		})
	}
}

func TestSetPXFastClockHoldsTheLockTooLong(t *testing.T) {
	for _, expiry := range []string{"pxat", "exat"} {
		t.Run(expiry, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				w := b.worker("set-px", setting{now: showing(time.Now().Add(hour)), params: param.Values{"expiry": expiry}})
				b.try(w)
				if ttl := b.ttl(); ttl < hour || w.Promises().ClockIndependent {
					t.Errorf("it expires in %s, want more than an hour; clock-independent: %v", ttl, w.Promises().ClockIndependent)
				}
			})
		})
	}
}

func TestSetPXRelativeExpiryNeedsNoClock(t *testing.T) {
	for _, expiry := range []string{"px", "ex"} {
		t.Run(expiry, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				w := b.worker("set-px", setting{now: showing(time.Now().Add(hour)), params: param.Values{"expiry": expiry}})
				b.try(w)
				if ttl := b.ttl(); ttl > 10*time.Second || ttl < time.Second || !w.Promises().ClockIndependent {
					t.Errorf("it expires in %s, want about 10s; clock-independent: %v", ttl, w.Promises().ClockIndependent)
				}
			})
		})
	}
}
