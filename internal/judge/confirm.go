package judge

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// A harm that is seen once may be the machine's: it stood still, or a client was given no
// processor for so long that the others had to take it for kept out. So one that first comes
// has its schedule played again, with programs that are started anew, before it counts.

// A cause of a harm is what is confirmed: that a crash keeps others out shows nothing of a
// cancelled call, nor of a schedule without faults.
type cause struct {
	harm   verify.Harm
	breaks string // see keptOutBreaks; empty for other harms
}

// compare orders causes, so that what is said of several does not depend on chance.
func (c cause) compare(other cause) int {
	return cmp.Or(cmp.Compare(c.harm, other.harm), cmp.Compare(c.breaks, other.breaks))
}

// causeOf is the cause of a harm of a schedule.
func causeOf(harm verify.Harm, steps []search.Choice) cause {
	struck := slices.DeleteFunc(slices.Clone(steps), func(c search.Choice) bool {
		return !c.IsFault()
	})
	return causeStruck(harm, search.Words(struck))
}

// causeStruck is the cause of a harm of a schedule with these faults.
func causeStruck(harm verify.Harm, struck []string) cause {
	c := cause{harm: harm}
	if harm == verify.LockedOut {
		c.breaks = keptOutBreaks(struck)
	}
	return c
}

// mostReplays is how often a schedule is played again to confirm a harm.
const mostReplays = 3

// needs is how many of mostReplays have to show a harm again. What is seen because something
// did not happen in time is seen of any program that a busy machine starves: it takes two.
func needs(harm verify.Harm) int {
	switch harm {
	case verify.LockedOut, verify.NoLongerLocks, verify.DoesNotEnd:
		return 2
	}
	return 1
}

// comesAgain reports whether enough tries show a harm again. It tries no more than can still
// matter.
func comesAgain(harm verify.Harm, try func() bool) bool {
	seen := 0
	for left := mostReplays; left > 0 && seen < needs(harm) && seen+left >= needs(harm); left-- {
		if try() {
			seen++
		}
	}
	return seen == needs(harm)
}

// A rivalry has the worlds of one program play side by side, or one of them alone.
// The zero value is one without worlds.
type rivalry struct{ mu sync.RWMutex }

// beside calls play while others may play, too.
func (r *rivalry) beside(play func()) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	play()
}

// alone calls play once no other world plays, and while none does.
func (r *rivalry) alone(play func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	play()
}

// Play implements search.World. It leaves out harms that are not confirmed.
func (w *world) Play(choose search.Chooser) (played search.Played, err error) {
	w.rivals.beside(func() {
		played, err = w.playOnce(choose)
	})

	// Not within beside: confirm would wait for this world to end its own play.
	played.Harms = slices.DeleteFunc(played.Harms, func(v verify.Violation) bool {
		return !w.confirm(v.Harm, played.Steps)
	})

	for _, v := range played.Harms {
		if v.Harm == verify.LockedOut {
			w.keptOut[causeOf(v.Harm, played.Steps).breaks] = v.Text
		}
	}
	return played, err
}

// confirm reports whether a harm that these steps have done counts: at once where its cause has
// been confirmed in this world. An outlived lease is no accusation: it counts without being
// confirmed. What was refuted is tried again when another schedule shows it. When the time is
// over nothing is played again: a world that plays alone has to wait for all others.
func (w *world) confirm(harm verify.Harm, steps []search.Choice) bool {
	of := causeOf(harm, steps)
	if harm == verify.Outlived || w.confirmed[of] {
		return true
	}

	cut := false
	w.rivals.alone(func() {
		w.confirmed[of] = comesAgain(harm, func() bool {
			cut = cut || w.isOver()
			return !cut && w.shows(harm, steps)
		})
	})
	cut = cut || w.ctx.Err() != nil // which may be why a replay has shown nothing

	switch {
	case w.confirmed[of]:
		return true
	case cut:
		w.unconfirmed[of]++
	default:
		w.refuted[harm]++
	}
	return false
}

// isOver reports whether the time of the program is over, or the command was interrupted.
func (w *world) isOver() bool {
	return w.ctx.Err() != nil || !w.until.IsZero() && time.Now().After(w.until)
}

// shows plays steps again, and reports whether they do a harm. What earlier schedules have
// left in the programs is no part of that, and an error shows none.
func (w *world) shows(harm verify.Harm, steps []search.Choice) bool {
	w.endPrograms()
	again, _ := w.playOnce(search.Follow(search.Words(steps)))
	return slices.ContainsFunc(again.Harms, func(v verify.Violation) bool {
		return v.Harm == harm
	})
}

// endPrograms ends the programs, so that the next schedule has new ones.
func (w *world) endPrograms() {
	for _, c := range w.clients {
		c.kill()
	}
}

// uncountedNotes say which harms of a program were seen and do not count.
func (s ProgramResult) uncountedNotes(program string) (notes []string) {
	for _, harm := range verify.Harms() {
		note := func(times int, why string) {
			if times > 0 {
				notes = append(notes, fmt.Sprintf("%s: %q was seen in %s, and %s: that does not count",
					program, harm, english.Plural(times, "schedule", ""), why))
			}
		}
		note(s.refuted[harm], "not again when nothing else was played beside")

		unconfirmed := 0
		for of, times := range s.unconfirmed {
			if of.harm == harm {
				unconfirmed += times
			}
		}
		note(unconfirmed, "there was no time to play it again")
	}
	return notes
}
