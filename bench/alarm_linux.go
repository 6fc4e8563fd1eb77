package bench

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// near is how long before its time an order is left to a timer of the kernel.
const near = 2 * time.Millisecond

// kernelAlarm is an alarm that uses a timer of the kernel for the last two milliseconds. On Linux, Go's own timers wake a
// process in which nothing else runs by epoll_wait, which counts in milliseconds: orders would begin half a millisecond
// late in the median, which is as long as a whole purchase takes. With a timerfd it is about 0.05 ms.
type kernelAlarm struct {
	alarm
	fd   int
	file *os.File // of fd, so that waiting for it blocks no thread
	in   unix.ItimerSpec
	read [8]byte
}

// newAlarm makes an alarm. Where the kernel has no timer for it, it is as exact as Go's.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	return &kernelAlarm{alarm: newTimerAlarm(), fd: fd, file: os.NewFile(uintptr(fd), "timerfd")}
}

func (a *kernelAlarm) sleep(d time.Duration, done <-chan struct{}) {
	if d > near {
		a.alarm.sleep(d-near, done)
		return
	}
	a.in.Value = unix.NsecToTimespec(max(1, int64(d))) // 0 would mean never
	err := unix.TimerfdSettime(a.fd, 0, &a.in, nil)
	if err == nil {
		_, err = a.file.Read(a.read[:])
	}
	if err != nil {
		a.alarm.sleep(d, done)
	}
}

func (a *kernelAlarm) close() {
	a.alarm.close()
	_ = a.file.Close()
}
