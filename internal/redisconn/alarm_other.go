//go:build !linux

package redisconn

// NewAlarm makes an alarm. Here it is as exact as Go's timers.
func NewAlarm() Alarm { return NewTimerAlarm() }
