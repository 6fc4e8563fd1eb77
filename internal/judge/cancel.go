package judge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/verify/explore"
)

// The fault explore.Cancel: a program is told "cancel" while it acquires or releases the
// lock, as service code is whose caller has left. The program ends the call, says once what
// came of it, perhaps "cancelled", and is then told the same again: to acquire, or to
// release. What it leaves behind may keep others out until a lease ends, and no longer.
//
// A request that waits at the gate then is executed nevertheless, or lost: two choices, since
// a program that closes its connection cannot know. A poll of a lock that is held would
// change nothing, so it passes before: its client is told while it waits for its next try.
//
// Only a program that answers yes to "can cancel" is struck. Others may take the line for
// any other request, so the one that was asked is started again.

// What Choice.At says of the request that waits when a call is cancelled.
const (
	requestStays = iota // the next that its client is chosen for, or there is none
	requestLost
)

// isCancel reports whether a step of a schedule, or a fault, is explore.Cancel.
func isCancel(step string) bool { return strings.HasPrefix(step, string(explore.Cancel)) }

// kinds are the faults that are to happen, as far as the program hears them.
func (o Options) kinds() []explore.Fault {
	_, buys := suite.MarketNamed(o.Program)
	switch {
	case o.Bounds.Kinds != nil:
		return o.Bounds.Kinds
	case buys || o.Bounds.Faults == 0:
		return Kinds()
	}
	return append(Kinds(), explore.Cancel)
}

// cancels reports whether calls are to be cancelled if the program hears it.
func (o Options) cancels() bool {
	_, buys := suite.MarketNamed(o.Program)
	return !buys && o.Bounds.Faults > 0 && slices.Contains(o.kinds(), explore.Cancel)
}

// unheard is why a program's calls cannot be cancelled.
const unheard = "the program does not hear it"

// uncancelled says why no call was cancelled in a search; empty: calls were.
func (o Options) uncancelled(s ProgramResult) string {
	switch {
	case !o.cancels():
		return "no call was to be cancelled"
	case !slices.Contains(s.kinds, explore.Cancel):
		return fmt.Sprintf("no call was cancelled, because %s: its answer to %q is not %q",
			unheard, program.CanCancel, program.Yes)
	}
	return ""
}

// heardKinds are the faults that can happen to the program: without explore.Cancel unless
// it says that it hears it.
func (w *world) heardKinds() ([]explore.Fault, error) {
	c := w.clients[0]
	answer, _ := w.ask(c, 2*time.Second, program.CanCancel) // empty where it has not answered
	switch {
	case w.ctx.Err() != nil: // nobody waited for its answer
		return nil, context.Cause(w.ctx)
	case answer.Line == program.Yes:
		return w.kinds, nil
	}

	heard := slices.DeleteFunc(slices.Clone(w.kinds), func(f explore.Fault) bool {
		return f == explore.Cancel
	})
	if len(heard) == 0 {
		return nil, fmt.Errorf("%w: its calls are to be cancelled, and its answer to %q is not %q",
			ErrAdapter, program.CanCancel, program.Yes)
	}
	c.kill() // it may have taken the question for another request
	return heard, w.revive(c)
}

// keptOutBreaks is the promise that is broken if a client is kept out after some faults.
func keptOutBreaks(struck []string) string {
	switch {
	case len(struck) == 0:
		return "who waits gets in"
	case slices.ContainsFunc(struck, isCancel):
		return survivesCancel
	}
	return survivesCrash
}

// mayCancel reports whether a client's call is under way, and was not cancelled.
func (s *schedule) mayCancel(c *client) bool {
	claim := s.claim(c)
	underWay := claim.phase == acquiring || claim.phase == releasing
	return s.shop == nil && c.runs() && underWay && !claim.cancelled
}

// cancelsRequest are the choices to cancel the call of a client that can go on.
func (s *schedule) cancelsRequest(c *client) (options []search.Choice) {
	if !s.mayCancel(c) {
		return nil
	}
	for _, request := range []int{requestStays, requestLost} {
		options = append(options, search.Choice{What: string(explore.Cancel), N: c.number, At: request})
	}
	return options
}

// cancelsWaiting are the choices to cancel the calls of clients that cannot go on: they wait
// in the server, or for their next try.
func (s *schedule) cancelsWaiting() (options []search.Choice) {
	if !slices.Contains(s.kinds, explore.Cancel) {
		return nil
	}
	for _, c := range s.clients {
		if s.mayCancel(c) && (!s.canGoOn(c) || s.polls(c)) {
			cancel := search.Choice{What: string(explore.Cancel), N: c.number, At: requestStays}
			options = append(options, cancel)
		}
	}
	return options
}

// cancel tells a client to end its call, and waits for what it does then. A poll passes first.
// Any other request that waits is lost afterwards, or waits again before what the client has
// sent meanwhile.
func (s *schedule) cancel(c *client, loses bool) {
	polls := s.polls(c) // asked once: a lease may end meanwhile
	waits := polls || len(c.waiting) == 0
	if polls {
		s.letPollPass(c)
	}
	s.idle.changed() // not before, or it would not poll
	held := c.waiting
	c.waiting = nil // or settle would not wait for the client

	s.diagram.add(c.number, "*its call is cancelled*", "")
	s.referee.cancelsCall(c.number) // before settle: then hear takes "cancelled" for an answer
	s.tell(c, program.Cancel)
	s.settle()

	lost := 0
	switch {
	case c.process == nil: // it has ended, and its connections with it
		lost = len(held)
	case waits: // for its next try, of which one may have come before it was told
		lost = len(held)
	case loses:
		lost = 1
		s.diagram.addRequest(c.number, held[0], "*is lost, and its connection breaks*")
	}
	for _, h := range held[:lost] {
		h.Drop()
		s.idle.restart(c.number)
	}
	c.waiting = append(slices.Clone(held[lost:]), c.waiting...)
}
