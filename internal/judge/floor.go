package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify/explore"
)

// A shortfall is what the search of a program has left out below the floor of kept.
type shortfall struct {
	why    string        // empty: nothing
	within time.Duration // the time for all programs that may reach it; 0: time does not help
}

// belowFloor says what a search has left out of what a promise takes at least to be called
// kept: every schedule with one preemption and no fault, and every one with one fault of
// any kind that the program can hear, and no preemption. In lock-works nobody is
// preempted, and with a clock that is wrong no fault happens.
func (o Options) belowFloor(s ProgramResult) shortfall {
	name := o.program().Name
	missing := slices.DeleteFunc(Kinds(), func(kind explore.Fault) bool {
		return slices.Contains(s.kinds, kind)
	})

	// Bounds are raised from none, preemptions first: at one fault and one preemption both parts
	// of the floor lie behind. Stopped is empty at the last bounds, and would be after a harm, too:
	// so callers of Judge set Bounds.Exhaustive.
	reached := s.Stopped == "" || s.Faults > 1 || s.Faults == 1 && s.Preemptions > 0

	// Bounds below the floor come first: a search that came to their end counts as reached, too.
	switch {
	case name != works && o.Bounds.Preemptions < 1:
		return shortfall{why: "nobody was preempted: --preemptions 1 has that happen"}
	case !setsClock(name) && o.Bounds.Faults < 1:
		return shortfall{why: "no fault happened: --faults 1 has that happen"}
	case !setsClock(name) && len(missing) > 0:
		return shortfall{why: fmt.Sprintf("--of has left out %s", listed(missing))}
	case reached:
		return shortfall{}
	}

	left := shortfall{why: "stopped after " + english.Plural(s.Played, "schedule", "")}
	if s.Stopped == search.OutOfTime {
		left.within = longer(cmp.Or(o.wholeWithin, o.Within), s.Summary)
	} else {
		left.why += " by " + s.Stopped
	}
	return left
}

// longer is how long all searches may need at least, when one of them has come so far in some
// time: as much longer as schedules are known and not played, and twice the time at least, as
// those lead to more. It is in whole minutes, and above ten in steps of five.
func longer(within time.Duration, s search.Summary) time.Duration {
	const mostTimes = 20 // with next to nothing played, the ratio says little
	times := min(mostTimes, max(2, 1+float64(s.Left)/float64(max(1, s.Played))))
	need := time.Duration(times * float64(within))

	step := time.Minute
	if need > 10*time.Minute {
		step = 5 * time.Minute
	}
	return (need + step - 1).Truncate(step)
}

// leftOut names what the searches that bear on a promise have left out, and the time that may
// reach it; empty: nothing.
func (f judgement) leftOut(promise string) string {
	var all []string
	var within time.Duration
	for _, program := range (Options{}).programs() {
		left := f.unreached[program]
		if left.why != "" && bears(program, promise) {
			all = append(all, program+": "+left.why)
			within = max(within, left.within)
		}
	}

	if within > 0 {
		all = append(all, fmt.Sprintf("--within %dm may reach it", int(within.Minutes())))
	}
	return strings.Join(all, "; ")
}

// listed are faults in words.
func listed(kinds []explore.Fault) string {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = string(kind)
	}
	return english.OxfordWordSeries(words, "and")
}
