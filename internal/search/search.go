// Package search goes through the schedules of a few clients. A schedule is a list of
// choices: what happens first, what next, until all clients have ended. What can happen is
// a [World]'s to say: that of package explore runs clients in memory and in virtual time,
// that of package judge runs processes. A world plays one schedule at a time, each from
// its start, and asks a [Chooser] at every point.
//
// [Drive] plays every schedule within bounds. It raises the bounds step by step,
// preemptions before faults, so that the first schedule to a harm has the fewest faults,
// and of these the fewest preemptions. [Replay] plays the schedule of a token.
package search

import (
	"errors"
	"math"
	"strconv"

	"github.com/marketsim/marketsim/verify"
)

// A World plays schedules of a program, one after the other.
type World interface {
	// Play plays one from its start, and has choose say at each point what happens next.
	// An error says why nothing can be concluded.
	Play(choose Chooser) (Played, error)
}

// A Chooser says what happens next at a point. It returns ErrMerged, wrapped or not, where
// the schedule need not be played on.
type Chooser func(ChoicePoint) (Choice, error)

// A ChoicePoint is where a schedule has come to: a place at which something is chosen.
type ChoicePoint struct {
	Options []Choice
	Pending []string // what each client wants to send
	// State returns all on which depends how a schedule goes on from here, but for the
	// choices to come. Two points of equal states have the same future. It may be too fine,
	// and never too coarse; an empty one is equal to none. Nil: no state is known.
	State func() string
}

// First is the Chooser of the first schedule: no client is preempted, and nothing strikes.
func First(p ChoicePoint) (Choice, error) { return p.Options[0], nil }

// ErrMerged is what a Chooser returns at a point from which nothing new can come. A World
// then ends the schedule, and returns it as it is so far, with the error.
var ErrMerged = errors.New("an earlier schedule has gone on from the same state")

// What happens without a fault, as Choice.What says it: a letter each. A word is a fault.
const (
	Deliver  = "d" // a request of a client
	Wake     = "w" // a paused client goes on
	TimePass = "t" // to the next timer of a client
	Arrive   = "a" // a late request of a client
	CutShort = "c" // the second part of a pipeline is lost, and its connection breaks
	Later    = "l" // a client begins only after a lease has passed
	Renew    = "r" // a client renews the lock that it holds
)

// Quiet is Choice.At of a TimePass where nobody can go on, and time would pass without a
// choice if no fault could strike meanwhile.
const Quiet = 2

// A Choice is what happens at one point of a schedule.
type Choice struct {
	What string // Deliver and its like, or a kind of fault, such as explore.Pause
	N    int    // to which client, from 0; for some faults, to which server
	At   int    // which one of several, where What and N leave that open; 0: there is one
	// Another client could have gone on.
	Preempt bool
	// The request conflicts with none: the client that was chosen before still counts as
	// the last.
	Aside bool
}

// IsFault reports whether it is a fault, and not what happens without one.
func (c Choice) IsFault() bool { return len(c.What) > 1 }

// IsQuiet reports whether it is what happens without a choice where no fault can strike.
func (c Choice) IsQuiet() bool { return c.What == TimePass && c.At == Quiet }

// String is the choice in a token.
func (c Choice) String() string {
	text := c.What + strconv.Itoa(c.N+1)
	if c.At > 0 {
		text += "-" + strconv.Itoa(c.At)
	}
	return text
}

// A Played is a schedule that was played.
type Played struct {
	Steps []Choice
	Harms []verify.Violation
	// Stalled says that the machine stood still meanwhile. If the schedule went another
	// way, this may be the reason.
	Stalled bool
	// Diagram draws it, with the harms that it is to show.
	Diagram func(shown []verify.Violation) verify.Diagram
}

// ErrHeldUp is what Play returns, wrapped, where a choice has led to a schedule that cannot
// be played to its end. Drive gives up that choice, and goes on with the others.
var ErrHeldUp = errors.New("a goroutine waits for a sync.Mutex, while the one that holds it " +
	"waits for a reply or for time to pass, which no search can give it then; " +
	"a channel of size one can take the place of the mutex")

// ErrAgain is what Play returns, wrapped or not, where the World has learned how it has to
// play schedules, too late for this one. Drive has it played again, as if it had not been.
var ErrAgain = errors.New("the schedule has to be played again")

// ErrChance is in what Drive returns, or in Summary.Stopped if harm had been found before.
var ErrChance = errors.New("the same choices do not lead to the same points, " +
	"so that nothing can be concluded")

// OutOfTime is what Summary.Stopped says if the context's deadline has ended the search, and
// the context has no cause of its own.
const OutOfTime = "the time that it was given"

// Unbounded is for Bounds.Preemptions: the search goes on until no schedule is left.
const Unbounded = math.MaxInt

// A Program names what the clients do, in tokens.
type Program struct{ Subject, Name string }

// Bounds say how far Drive goes.
type Bounds struct {
	// How often a client that could go on has to wait for another one; Unbounded: any number of
	// times.
	Preemptions int
	Faults      int  // how many faults happen
	Total       int  // of preemptions and faults together; 0: as many as there may be of each
	Schedules   int  // how many are played at most; 0: any number
	Exhaustive  bool // the search goes on after a harm, to the last bound
	Unmerged    bool // a schedule is played to its end, though an earlier one has been in its state
}

// A Summary is what Drive found, also when it ended early.
type Summary struct {
	Preemptions, Faults int     // the last bounds that were reached
	Schedules           int     // within these bounds: all different
	Merged              int     // of these: came to a state that an earlier one had been in
	Harmful             int     // of these
	Played              int     // of all bounds
	Left                int     // of all bounds, higher ones too: known, not played; each may lead to more
	Found               []Found // the first of each harm
	Stopped             string  // why it ended before its bounds; empty: it did not
	// Complete says that more preemptions would make no other schedule: none was left out
	// because of their bound, and the search has ended with nothing left to play.
	Complete bool
	// Points counts the points of the schedules that Schedules counts, and Lost those at which a
	// choice was given up, because the choices before it did not lead there again: there is chance
	// in the clients.
	Points, Lost int
}

// A Found is the shortest schedule to a harm.
type Found struct {
	verify.Violation
	Preemptions, Faults int
	Struck              []string // the faults that happened, in order
	Token               string
	Diagram             verify.Diagram
	Harmful             int // of the schedules that Summary.Played counts: they do this harm
}

// found is a schedule that does a harm, as it is reported.
func found(p Program, played Played, v verify.Violation) Found {
	f := Found{
		Violation: v, Token: Token(p, played.Steps),
		Diagram: played.Diagram([]verify.Violation{v}),
	}

	for _, c := range played.Steps {
		if c.Preempt {
			f.Preemptions++
		}
		if c.IsFault() {
			f.Struck = append(f.Struck, c.What)
		}
	}

	f.Faults = len(f.Struck)
	return f
}
