package fault

import (
	"sync"
	"time"
)

// lookEvery is how often a stillness looks at the clock.
const lookEvery = 5 * time.Millisecond

// A stillness measures for how long the machine stood still while a scenario was played: a virtual machine that is
// paused, or a program that is stopped with its clients, lets leases run out that a scenario counts on.
type stillness struct {
	every time.Duration
	over  chan struct{}

	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func watchStillness(every time.Duration) *stillness {
	s := &stillness{every: every, over: make(chan struct{}), last: time.Now()}
	go func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				s.soFar()
			case <-s.over:
				return
			}
		}
	}()
	return s
}

// soFar is the longest time that passed between two looks, of which this is one.
func (s *stillness) soFar() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.longest, s.last = max(s.longest, now.Sub(s.last)-s.every), now
	return s.longest
}

// end is soFar, and ends the watch.
func (s *stillness) end() time.Duration {
	close(s.over)
	return s.soFar()
}
