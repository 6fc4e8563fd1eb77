package fault

import (
	"fmt"
	"time"
)

// lookEvery is how often a stillness looks at the clock.
const lookEvery = 5 * time.Millisecond

// A stillness measures for how long the machine stood still while a scenario was played: a virtual machine that is
// paused, or a program that is stopped with its clients, lets leases run out that a scenario counts on.
type stillness struct {
	ask     chan bool // whether that was the last look
	longest chan time.Duration
}

func watchStillness(every time.Duration) stillness {
	s := stillness{make(chan bool), make(chan time.Duration)}
	last := time.Now() // before the goroutine begins, which a machine that stands still delays
	go func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		var longest time.Duration
		for ends := false; !ends; {
			asked := false
			select {
			case <-ticks.C:
			case ends = <-s.ask:
				asked = true
			}
			now := time.Now()
			longest, last = max(longest, now.Sub(last)-every), now
			if asked {
				s.longest <- longest
			}
		}
	}()
	return s
}

// soFar is the longest time that passed between two looks.
func (s stillness) soFar() time.Duration {
	s.ask <- false
	return <-s.longest
}

// end is soFar, and ends the watch.
func (s stillness) end() time.Duration {
	s.ask <- true
	return <-s.longest
}

// A stoodStill is an errLate: the machine stood still for so long that nothing follows from what was seen.
type stoodStill time.Duration

func (s stoodStill) Error() string {
	return fmt.Sprintf("the machine stood still for %s", time.Duration(s).Round(100*time.Millisecond))
}

func (stoodStill) Unwrap() error { return errLate }
