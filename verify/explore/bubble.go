package explore

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// An ending is how a schedule ended.
type ending struct {
	world *world
	found []verify.Violation
	err   error
}

// schedule plays one schedule. The world that it returns is never nil; it is empty if the
// schedule was given up.
func (e *explorer) schedule(choose search.Chooser) (*world, []verify.Violation, error) {
	if e.redis == nil {
		for range 1 + e.program.LockServers {
			e.redis = append(e.redis, backend.Memory(e.scripts...))
		}
	}
	e.pools.emptyIfWaited()

	e.realTime = time.Now().UnixNano() // which no bubble knows
	done := make(chan ending, 1)       // room for one: await may have given up
	go func() {
		end := ending{world: &world{}, err: errors.New("a client has ended the goroutine that searches")}
		defer func() { done <- end }() // even then
		end = e.inBubble(choose)
	}()

	end := e.await(done)
	if e.chance.misled() { // whatever came of it
		end.err = search.ErrAgain
	}
	if end.err == nil && end.world.unsupported != "" {
		end.err = fmt.Errorf("the server in memory does not know the command %s, or waits in it, "+
			"so that nothing can be concluded", end.world.unsupported)
	}

	// New servers are started for the next schedule if goroutines of this one may still use
	// these, or if these have learned a script that it should not begin with.
	wasted := end.err != nil && !errors.Is(end.err, search.ErrMerged)
	if wasted || len(end.world.scripts) > len(e.scripts) {
		e.redis = nil
	}
	return end.world, end.found, end.err
}

// inBubble plays a schedule in virtual time. The testing.T is a new one, so that this works in
// any program: it has no name and no output, and needs none.
func (e *explorer) inBubble(choose search.Chooser) (end ending) {
	end.world = &world{} // which is looked at whatever happens
	defer func() {       // synctest.Test panics if only goroutines are left that nothing wakes
		if stuck := recover(); stuck != nil {
			end.err = fmt.Errorf("a client left goroutines behind that do not end with its life, "+
				"the context that it has, or never returns itself (%v): %s", stuck, end.world.leftBehind())
		}
	}()

	synctest.Test(new(testing.T), func(*testing.T) {
		end.world = newWorld(e)
		end.err = e.goThrough(end.world, choose)
		if errors.Is(end.err, search.ErrMerged) {
			end.world.leave()
		} else {
			end.found = end.world.finish()
		}
	})
	return end
}

// await waits for the end of a schedule, and gives it up if nothing can happen in it any
// more, or nothing has happened for long: a bubble in which somebody waits for a real
// socket does not end. The goroutines of such a bubble stay.
func (e *explorer) await(done <-chan ending) ending {
	// All this is real time, outside the bubble: whether it moves is seen by the count of steps,
	// and whether it ever can by what its goroutines wait for.
	const look = 20 * time.Millisecond
	last := e.progress.Load()
	for since := time.Now(); time.Since(since) <= e.silence; {
		select {
		case end := <-done:
			return end
		case <-time.After(look):
		}

		if now := e.progress.Load(); now != last {
			last = now
			since = time.Now()
			continue
		}
		if waiting, where := e.heldUp(); where != "" {
			e.waiting = waiting // they stay, and are no news from now on
			// At the first such stop the schedule is played again, and each rest looks for mutexes:
			// one that is held over a request is no deadlock, see settle.
			if !e.mutexes {
				e.mutexes = true
				return ending{world: &world{}, err: search.ErrAgain}
			}
			return ending{world: &world{}, err: fmt.Errorf("%w: %s", search.ErrHeldUp, where)}
		}
	}

	// below 0, goThrough ends should it ever come back
	e.progress.Store(math.MinInt64)
	return ending{world: &world{}, err: fmt.Errorf("nothing has happened for %s of real time: "+
		"a client is spinning, or dialled without the given dialer, so nothing can be concluded: %s",
		e.silence, e.running.Load().leftBehind())}
}

// heldUp counts the goroutines that wait for a mutex, if no goroutine can go on but the
// one that asks. It returns the frames of one, unless all are of schedules that were
// given up. Package synctest lets time pass only if all goroutines of its bubble wait for
// something of the bubble, which a mutex is not.
func (e *explorer) heldUp() (waiting int, where string) {
	if runnable() > 0 {
		return 0, ""
	}
	waiting, callers := waitForMutexes()
	if waiting <= e.waiting {
		return waiting, ""
	}

	frames := runtime.CallersFrames(callers) // all but the last, which is runtime.goexit
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		where += fmt.Sprintf("\n%s\n\t%s:%d", frame.Function, frame.File, frame.Line)
	}
	return waiting, where
}

// waitForMutexes counts the goroutines of the process that do, and returns the
// callers of the last of them.
func waitForMutexes() (waiting int, callers []uintptr) {
	all := make([]runtime.StackRecord, runtime.NumGoroutine()+10)
	n, _ := runtime.GoroutineProfile(all)
	for i := range all[:n] {
		const wait = 3 // frames of the runtime above it: gopark and two that call it
		stack := all[i].Stack()
		if len(stack) > wait && forMutex.MatchString(runtime.FuncForPC(stack[wait]).Name()) {
			waiting++
			callers = stack[wait+1:]
		}
	}
	return waiting, callers
}

var forMutex = regexp.MustCompile(`sync\.runtime_Semacquire(RW)?Mutex`)

// runnable is how many goroutines of the process could go on, and do not run. That only the one
// that asks runs is afterFirst's doing, by GOMAXPROCS.
func runnable() uint64 {
	of := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(of)
	return of[0].Value.Uint64()
}

// comeToRest lets the others of the bubble go on until each of them waits for something.
// No time passes. It reports whether one waits for a mutex.
func (e *explorer) comeToRest() bool {
	for yields := 0; yields == 0 || runnable() > 0 && yields < mostYields; yields++ {
		runtime.Gosched()
	}
	_, where := e.heldUp()
	return where != ""
}

// mostYields bounds how often it lets others go on: some may be of no schedule,
// and compute without end.
const mostYields = 10_000
