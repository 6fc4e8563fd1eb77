package judge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/verify"
)

// finish ends a schedule: it kills clients that have not ended, and looks at what is left.
func (s *schedule) finish() {
	for _, c := range s.clients {
		s.end(c)
	}

	switch {
	case s.shop != nil:
		s.audit()
	case slices.ContainsFunc(s.steps, search.Choice.IsFault):
		s.checkWorksOn() // first: checkRecovery may start a program, which no fault has struck
		// Whom the end of the schedule killed may still have a lock that has no lease.
		if s.keeps == 0 || !s.abandoned {
			s.checkRecovery()
		}
	}

	// An outlived lease alone is no reason: every lock that expires lets it happen. After a
	// cancelled call it is one, because what that call has left may go on.
	doesHarm := slices.ContainsFunc(s.referee.harms, func(v verify.Violation) bool {
		return v.Harm != verify.Outlived
	})
	if doesHarm || s.referee.cancels > 0 && len(s.referee.harms) > 0 {
		s.endPrograms() // what a fault has left in them would go on in the next schedule
	}
	s.restartWhoRenewsOn()
}

// end ends what a client still does. A program whose client has ended runs on, for the next
// schedule.
func (s *schedule) end(c *client) {
	// The gate first: what a client sends once its requests are opened below is not to be held.
	// And checkWait before kill and ends: it judges a client that runs and takes the lock.
	c.gate.Gate(nil)
	s.checkWait(c)
	unfinished := s.claim(c).phase != ended
	paused := !c.pausedSince.IsZero()
	if s.shop != nil && unfinished && !paused && s.interrupted() == nil {
		s.referee.harm(verify.DoesNotEnd, fmt.Sprintf("%s is told nothing in %s", c.Name, s.longestQuiet()))
	}
	if unfinished || paused {
		s.abandoned = true
		c.kill()
		s.referee.ends(c.number)
	}

	for _, h := range c.waiting {
		h.Open() // its client has released the lock, or is dead: it changes nothing that is judged
	}
	for _, h := range c.renewals {
		h.Open()
	}
	for _, h := range c.late {
		h.Drop()
	}
}

// audit judges the market.
func (s *schedule) audit() {
	for _, c := range s.clients {
		if s.claim(c).answer == "" {
			s.shop.answered(c.number, "")
		}
	}
	s.referee.harms = append(s.referee.harms, s.shop.audit(s.ctx)...)
}

// checkRecovery has a client that is left, or a fresh one, take the lock after a fault,
// within two leases and a margin.
func (s *schedule) checkRecovery() {
	// Whichever runs will do; if neither does, revive starts one.
	c := s.clients[1]
	if c.process == nil {
		c = s.clients[0]
	}
	if s.revive(c) != nil { // the next schedule will say why
		return
	}

	// Who fails is asked again until the limit, and is silent at last. Any other error is an
	// interruption, after which the schedule does not count, or a wrong answer in the last instant.
	err := s.acquireWithin(c, 2*s.lease+settleLimit+time.Second, program.Acquire(s.lock))
	if isGone(err) {
		s.referee.harm(verify.LockedOut, fmt.Sprintf(
			"a client does not get in within two leases (%s) after the end",
			(2*s.lease).Round(time.Millisecond)))
	}
	s.referee.testedIf(survivesCrash, err == nil && s.referee.orphaned)

	if err == nil {
		err = s.expect(c, program.AnswerLimit, releasesOwn, program.Release)
	}
	if err != nil {
		c.kill() // or a late answer would be taken for that to something else
	}
}

// checkWorksOn has each program that has lived through a fault take and release another
// lock: a fault may have left it in a state in which it cannot, such as a mutex that is held.
func (s *schedule) checkWorksOn() {
	for _, c := range s.clients {
		if c.process == nil || s.interrupted() != nil {
			continue
		}
		limit := 2*s.lease + settleLimit + time.Second
		err := s.acquireWithin(c, limit, program.Acquire("another-"+rand.Text()))
		acquired := err == nil
		if acquired {
			err = s.expect(c, program.AnswerLimit, releasesOwn, program.Release)
		}
		if acquired && errors.Is(err, ErrAdapter) && !isGone(err) {
			// A connection that had broken in the fault may have been used now: that is told once.
			err = s.expect(c, program.AnswerLimit, releasesOwn+" "+program.Lost, program.Release)
		}

		s.referee.testedIf(worksOn, err == nil)
		if err != nil {
			why := wording.Excerpt(err.Error(), wording.ExcerptBytes)
			s.referee.harm(verify.NoLongerLocks,
				fmt.Sprintf("after the end %s cannot take and release a lock of another name: %s", c.Name, why))
			c.kill()
		}
	}
}
