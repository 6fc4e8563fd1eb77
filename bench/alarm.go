package bench

import "time"

// An alarm wakes one worker of an open loop when an order is due. Using it allocates nothing.
type alarm interface {
	// sleep returns after so long, or earlier; once done is closed it returns within a few milliseconds.
	sleep(d time.Duration, done <-chan struct{})
	close()
}

// timerAlarm is an alarm that uses Go's timer.
type timerAlarm struct{ timer *time.Timer }

func newTimerAlarm() alarm { return timerAlarm{time.NewTimer(time.Hour)} }

func (a timerAlarm) sleep(d time.Duration, done <-chan struct{}) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-done:
	}
}

func (a timerAlarm) close() { a.timer.Stop() }
