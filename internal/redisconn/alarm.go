package redisconn

import "time"

// An Alarm wakes one goroutine at an exact time, on Linux to about 0.05 ms, even if nothing
// else runs. Using it allocates nothing.
type Alarm interface {
	// Sleep returns after so long or earlier, and a few milliseconds after done is
	// closed or holds a value.
	Sleep(d time.Duration, done <-chan struct{})
	// Close frees what the alarm holds. Nobody may sleep meanwhile or after it.
	Close()
}

type timerAlarm struct{ timer *time.Timer }

// NewTimerAlarm makes an alarm that is as exact as Go's timers.
func NewTimerAlarm() Alarm { return timerAlarm{time.NewTimer(time.Hour)} }

func (a timerAlarm) Sleep(d time.Duration, done <-chan struct{}) {
	a.timer.Reset(d)
	select {
	case <-a.timer.C:
	case <-done:
	}
}

func (a timerAlarm) Close() { a.timer.Stop() }
