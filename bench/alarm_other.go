//go:build !linux

package bench

func newAlarm() alarm { return newTimerAlarm() }
