//go:build !linux

package alarm

// New makes an alarm. Here it is as exact as Go's timers.
func New() Alarm { return NewTimer() }
