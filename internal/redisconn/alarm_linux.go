package redisconn

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// near is how long before its time a sleep is left to a timer of the kernel.
const near = 2 * time.Millisecond

// kernelAlarm leaves the last two milliseconds to a timerfd, about 0.05 ms late. Go's
// timers wake an idle process by epoll_wait, which counts in milliseconds: half a
// millisecond late in the median, as long as a purchase takes.
type kernelAlarm struct {
	Alarm
	fd   int
	file *os.File // of fd, so that waiting for it blocks no thread
	in   unix.ItimerSpec
	read [8]byte
}

// NewAlarm makes an alarm. Without a timer of the kernel's it is as exact as Go's.
func NewAlarm() Alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return NewTimerAlarm()
	}
	return &kernelAlarm{Alarm: NewTimerAlarm(), fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
}

func (a *kernelAlarm) Sleep(d time.Duration, done <-chan struct{}) {
	if d > near {
		a.Alarm.Sleep(d-near, done)
		return
	}
	a.in.Value = unix.NsecToTimespec(max(1, int64(d))) // 0 would mean never
	err := unix.TimerfdSettime(a.fd, 0, &a.in, nil)
	if err == nil {
		_, err = a.file.Read(a.read[:])
	}
	if err != nil {
		a.Alarm.Sleep(d, done)
	}
}

func (a *kernelAlarm) Close() {
	a.Alarm.Close()
	_ = a.file.Close()
}
