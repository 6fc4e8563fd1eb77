package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify/explore"
)

// pending is what each client wants to do next.
func (s *schedule) pending() []string {
	all := make([]string, len(s.clients))
	for i, c := range s.clients {
		switch {
		case !s.canGoOn(c), s.polls(c): // whether the next poll has come already is chance
		case len(c.waiting) > 0:
			all[i] = search.Anonymous(identity(c.waiting[0]))
		default:
			all[i] = "leaves"
		}
		all[i] = strings.ReplaceAll(all[i], search.Anonymous(s.lock), "lock")
	}
	return all
}

// canGoOn reports whether a client can go on: a request waits, or it may leave.
func (s *schedule) canGoOn(c *client) bool {
	return c.runs() && !c.putOff && (len(c.waiting) > 0 || s.mayLeave(c))
}

// mayLeave reports whether a client holds the lock, and has nothing more to do with it.
func (s *schedule) mayLeave(c *client) bool {
	claim := s.claim(c)
	switch {
	case claim.phase == unreleased:
		return true
	case claim.phase != holding:
		return false
	case s.works(c):
		return time.Since(claim.acquired) > s.lease*3/2
	}
	return true
}

// works reports whether a client that holds the lock works for one and a half leases. In
// lock-works it is the client that takes the lock first, and only that once. In the programs of
// clocks it is the client whose clock is wrong, if the lock renews itself: it then renews by that
// clock, without a preemption.
func (s *schedule) works(c *client) bool {
	if setsClock(s.program) {
		return c.number == 1 && len(s.renewing.requests) > 0
	}
	return s.program == works && c.number == 0 && s.claim(c).left == takes-1
}

// polls reports whether a client that takes the lock asks what it has asked before, and
// nothing has changed since. A lease that has ended changes something.
func (s *schedule) polls(c *client) bool {
	claim := s.claim(c)
	if len(c.waiting) == 0 || claim.phase != acquiring {
		return false
	}
	if s.referee.leaseEndedSince(c.number, claim.sent) {
		return false
	}
	return s.idle.polls(c.number, identity(c.waiting[0]))
}

// options are the choices at this point; without any, time has to pass. The first is that the
// client that was chosen last goes on, if it can. The search compares them, and their order,
// when a schedule comes to the point again: chance must not decide either. The search goes on
// with the first and counts no cost for it: that must be no fault and no preemption.
func (s *schedule) options() (options []search.Choice) {
	canGoOn := func(c *client) bool { return s.canGoOn(c) && !s.polls(c) }
	lastGoesOn := s.running >= 0 && canGoOn(s.clients[s.running])

	for after := range s.clients {
		i := (max(0, s.running) + after) % len(s.clients)
		c := s.clients[i]
		if !canGoOn(c) {
			continue
		}
		preempts := lastGoesOn && i != s.running
		options = append(options, search.Choice{What: search.Deliver, N: i, Preempt: preempts})
		// Faults count no preemption: who gets the turn by one may be struck only at what it
		// does next.
		if !preempts {
			options = append(options, s.faults(c)...)
		}
	}
	options = append(options, s.renewals(len(options) > 0)...)
	if len(options) > 0 { // else time is to pass
		options = append(options, s.cancelsWaiting()...)
	}
	options = append(options, s.beginsLater()...)

	for i, c := range s.clients {
		if s.mayWake(c) {
			options = append(options, search.Choice{What: search.Wake, N: i})
		}
		if len(c.late) > 0 {
			options = append(options, search.Choice{What: search.Arrive, N: i})
		}
	}
	return options
}

// faults are those that can happen to a client that can go on. Each kind has a case in do, too,
// which takes one that it does not know for a delivery.
func (s *schedule) faults(c *client) (options []search.Choice) {
	for _, kind := range s.kinds {
		possible := true
		switch kind {
		case explore.Cancel:
			options = append(options, s.cancelsRequest(c)...)
			continue
		case explore.Lose, explore.Late:
			possible = len(c.waiting) > 0
		case explore.IdleBreak:
			// Whether one that waits for the lock has sent its next poll already is chance.
			possible = len(c.waiting) == 0 && s.claim(c).phase == holding
		}

		if possible {
			options = append(options, search.Choice{What: string(kind), N: c.number})
		}
	}
	return options
}

// beginsLater are the choices that a buyer begins only after a lease has passed in which
// nobody could go on: what another one has reserved may have run out by then. Who waits for
// a lock comes after a lease anyway. They are there at the first point alone: that nothing of
// the buyer is let through before is the same whenever it is chosen.
func (s *schedule) beginsLater() (options []search.Choice) {
	if s.shop == nil || len(s.steps) > 0 {
		return nil
	}
	for _, c := range s.clients {
		if s.canGoOn(c) && s.canGoOn(s.clients[1-c.number]) {
			options = append(options, search.Choice{What: search.Later, N: c.number, Preempt: true})
		}
	}
	return options
}

// mayWake reports whether a client is stopped, and may go on: at once if the other has got
// in meanwhile, else after a lease if the other can do something or has ended, and
// after four leases in any case.
func (s *schedule) mayWake(c *client) bool {
	if c.pausedSince.IsZero() {
		return false
	}
	other := s.clients[1-c.number]
	if s.claim(other).acquired.After(c.pausedSince) {
		return true
	}

	pause := time.Since(c.pausedSince)
	otherActs := s.canGoOn(other) && !s.polls(other)
	settled := otherActs || s.claim(other).phase == ended || pause > 4*s.lease
	return pause > s.lease*11/10 && settled
}

// do makes a choice happen. It has to be one of options: a request that is lost or late is taken
// from those that wait, and one that arrives from those that are late.
func (s *schedule) do(choice search.Choice) {
	s.steps = append(s.steps, choice)
	c := s.clients[choice.N]

	// A late request that arrives, and a client that has yet to begin, give nobody the turn.
	if choice.What != search.Arrive && choice.What != search.Later {
		s.running = choice.N
	}
	switch {
	case isCancel(choice.What): // cancel does so itself, once it knows whether its client polls
	case choice.IsFault(), choice.What == search.Wake, choice.What == search.Arrive:
		s.idle.changed()
	}
	if choice.IsFault() {
		s.referee.strikes()
	}

	if choice.What == search.Renew || isRenewalStruck(choice) {
		s.renew(c, choice)
		return
	}

	switch explore.Fault(choice.What) {
	case explore.Pause:
		s.pause(c)
	case search.Wake:
		s.wake(c)
	case explore.Late:
		s.delay(c, s.takeRequest(c))
	case search.Arrive:
		s.arrive(c)
	case search.Later:
		s.diagram.add(c.number, "*begins only after a lease*", "")
		c.putOff = true
	case explore.Lose:
		h := s.takeRequest(c)
		s.referee.sends(c.number, identity(h), c.term(h))
		s.deliver(c, h, lostReply, h.Lose)
	case explore.Die:
		s.dieNext(c)
	case explore.IdleBreak:
		s.breakIdle(c)
	case explore.Cancel:
		s.cancel(c, choice.At == requestLost)
	default:
		s.goOn(c)
	}
}

// lostReply is drawn in place of a reply that is lost.
const lostReply = "*executed, the reply is lost*"

// pause stops a client. Renewals that it has sent before pass.
func (s *schedule) pause(c *client) {
	for len(c.renewals) > 0 {
		s.passRenewal(c)
	}
	s.diagram.add(c.number, "*pauses*", "")
	c.pausedSince = time.Now()
	s.referee.pauses(c.number)
	if c.process != nil { // it may have ended meanwhile
		c.process.Pause()
	}
}

// breakIdle breaks the connections of a client that asks nothing. Renewals that it has sent
// before pass.
func (s *schedule) breakIdle(c *client) {
	for len(c.renewals) > 0 {
		s.passRenewal(c)
	}
	s.diagram.add(c.number, "*its connections break*", "")
	s.idle.restart(c.number)
	c.gate.Cut()
	c.late = nil // lost with the others
}

// wake has a client go on. A renewal that was due meanwhile is awaited: whether it was
// sent before what is chosen next would be chance.
func (s *schedule) wake(c *client) {
	pause := time.Since(c.pausedSince).Round(time.Millisecond)
	s.diagram.add(c.number, fmt.Sprintf("*wakes after %s*", pause), "")
	c.pausedSince = time.Time{}
	s.idle.restart(c.number)
	if c.process != nil { // somebody else may have killed it
		c.process.Resume()
	}
	if len(s.renewing.requests) > 0 && s.claim(c).phase == holding {
		s.awaitRenewal(c, s.renewing.every/2)
	}
}

// delay breaks the connection of a request, which stays on its way.
func (s *schedule) delay(c *client, h *wire.Held) {
	s.diagram.addRequest(c.number, h, "*on its way for long, the connection breaks*")
	c.late = append(c.late, h)
	s.idle.reacts(c.number, true)
	h.Delay()
}

// arrive has a request come to the server that was on its way for long. The reply does not
// reach the client.
func (s *schedule) arrive(c *client) {
	h := c.late[0]
	c.late = c.late[1:]
	s.deliver(c, h, "*comes late*", h.Open)
	s.idle.reacts(c.number, false)
}

// dieNext kills a client, after the request that it sends next.
func (s *schedule) dieNext(c *client) {
	if len(c.waiting) > 0 {
		s.die(c, s.takeRequest(c))
		return
	}
	s.die(c, nil)
}

// die kills a client, after a request was executed, if there is one.
func (s *schedule) die(c *client, h *wire.Held) {
	// Before ends: dies asks whether the client holds the lock.
	s.referee.dies(c.number)
	for len(c.renewals) > 0 { // it has sent them
		s.passRenewal(c)
	}
	if h != nil {
		s.deliver(c, h, "*executed, then the client dies*", h.Lose)
	} else {
		s.diagram.add(c.number, "*dies*", "")
	}

	c.kill()
	s.referee.ends(c.number)
	c.loses()
}

// goOn delivers the next request of a client, or has it leave if none waits.
func (s *schedule) goOn(c *client) {
	if len(c.waiting) == 0 {
		s.leave(c)
		return
	}
	h := s.takeRequest(c)
	request := identity(h)

	// What may change something makes polls that come after it worth a choice again: a buyer's
	// request that is new or ends a transaction; any request of a client that is not taking the
	// lock; a new one of a client that was cancelled, which takes back what it did. Whether it is
	// new is asked before it is noted by asks. Changed before asks, the same request again is
	// a poll; changed after it, not yet.
	if s.shop != nil && (s.idle.isNew(c.number, request) || strings.HasSuffix(request, "EXEC")) {
		s.idle.changed()
	}
	undoes := s.claim(c).cancelled && s.idle.isNew(c.number, request)
	s.idle.asks(c.number, request)
	if s.claim(c).phase != acquiring || undoes {
		s.idle.changed()
	}

	term := c.term(h)
	s.referee.sends(c.number, request, term)
	s.deliver(c, h, "", h.Open)
	// It may renew the lock: renews asks whether its client holds that.
	if mentions(h.Commands, s.lock) {
		s.referee.renews(c.number, term.begins, time.Now())
	}
}

// leave has a client release the lock.
func (s *schedule) leave(c *client) {
	s.diagram.add(c.number, "*leaves*", "")
	s.referee.leaves(c.number)
	s.idle.restart(c.number)
	s.idle.changed()
	s.tell(c, program.Release)
}

// takeRequest removes the first request that waits, and returns it.
func (s *schedule) takeRequest(c *client) *wire.Held {
	h := c.waiting[0]
	c.waiting = c.waiting[1:]
	s.idle.restart(c.number)
	return h
}

// deliver draws a request and what then happens, if that is not its reply, lets it go, and
// waits for its reply, but only briefly if it may block in the server. A reply that comes later
// is not drawn.
func (s *schedule) deliver(c *client, h *wire.Held, then string, letGo func()) {
	event := s.diagram.addRequest(c.number, h, then)
	limit := 2 * time.Second
	blocks := func(command []string) bool { return wire.Blocks(command[0]) }
	if slices.ContainsFunc(h.Commands, blocks) {
		limit = 10 * time.Millisecond
	}

	letGo()
	for late := time.After(limit); ; {
		select {
		case <-h.Answered():
			s.idle.reacts(c.number, c.process != nil)
			if then == "" {
				s.diagram.events[event].Reply = h.Reply()
			}
			return
		case e := <-s.events:
			s.handle(e)
		case <-late:
			return
		}
	}
}

// longestQuiet is how long a schedule may go on in which nothing can be chosen.
func (s *schedule) longestQuiet() time.Duration { return 6 * s.lease }

// passTime lets time pass where nobody can be chosen. It returns false when all have
// ended, or nothing has happened for long.
func (s *schedule) passTime() bool {
	// The harm of a buyer that is told nothing names the 6 leases, see end.
	if s.referee.allEnded() || time.Since(s.lastChoice) > s.longestQuiet() {
		return false
	}

	// What passes here is no choice, and leaves lastChoice as it is: else a client that polls for
	// ever would keep the schedule from its end.
	for _, c := range s.clients {
		if c.putOff && time.Since(s.lastChoice) > s.lease*11/10 {
			c.putOff = false
			s.idle.changed() // leases have ended
			return true
		}
	}
	if c := s.duePoll(); c != nil {
		s.poll(c)
		return true
	}
	select {
	case e := <-s.events:
		s.handle(e)
	case <-time.After(time.Millisecond):
	}
	return true
}

// duePoll is the client whose poll is let through next; nil: no poll is due. If two are due, the
// client that has waited longer comes first: else one that asks without a pause would keep the
// other's polls from the server for ever.
func (s *schedule) duePoll() (first *client) {
	for _, c := range s.clients {
		if !s.canGoOn(c) || !s.polls(c) || !s.pollIsDue(c) {
			continue
		}
		if first == nil || s.claim(c).sent.Before(s.claim(first).sent) {
			first = c
		}
	}
	return first
}

// pollIsDue reports whether a poll has been held back for long enough: while the lock is
// held, so that not every look at it is played.
func (s *schedule) pollIsDue(c *client) bool {
	pause := s.lease / 8
	if s.impatient {
		pause = s.lease / 50
	}
	return !s.referee.held() || time.Since(s.claim(c).sent) > pause
}

// poll lets a poll through. It is not drawn if nothing came of it.
func (s *schedule) poll(c *client) {
	drawn, began := len(s.diagram.events), s.claim(c).phase
	s.letPollPass(c)
	s.settle()
	if s.claim(c).phase == began {
		s.diagram.events = s.diagram.events[:drawn]
	}
}

// letPollPass lets a poll through.
func (s *schedule) letPollPass(c *client) {
	h := s.takeRequest(c)
	s.referee.sends(c.number, identity(h), c.term(h))
	s.deliver(c, h, "", h.Open)
}
