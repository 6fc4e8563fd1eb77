package judge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
)

// A schedule is one that a world plays. choices.go has what can happen in it next; the
// idleDetector says when to choose, and the referee what is wrong.
type schedule struct {
	*world
	idle    *idleDetector
	referee *referee
	diagram *diagram

	lock  string // its name
	steps []search.Choice
	// When what was chosen last had been done: the wait for its reply, of seconds perhaps, is no time
	// in which nothing happens.
	lastChoice time.Time
	running    int   // the client that was chosen last; below 0: none
	failed     error // why this program cannot be judged
	stalled    bool  // a client took long to become idle: the machine has no time for it
	unsettled  bool  // a client was not idle yet when the last wait for that ended
	guessed    bool  // something was chosen nevertheless
	abandoned  bool  // a client had not ended when the schedule was over, and was killed
}

// mostSteps ends schedules that come to no end.
const mostSteps = 500

// newSchedule begins a schedule: programs that have died are started again.
func (w *world) newSchedule() (*schedule, error) {
	// Before gates hold requests: revive has them let all pass.
	for _, c := range w.clients {
		if err := w.revive(c); err != nil {
			return nil, err
		}
	}
	if w.shop != nil { // after revive, which has a program buy in it
		if err := w.shop.open(w.ctx); err != nil {
			return nil, err
		}
	}

	// Clients live on from one schedule to the next: what the last one noted of them is forgotten.
	for _, c := range w.clients {
		c.waiting = nil
		c.late = nil
		c.pausedSince = time.Time{}
		c.putOff = false
		c.renewals = nil
		c.passed = time.Time{}
		c.renewalChosen = false
		c.others = map[string]bool{}
		c.gate.Gate(func(h *wire.Held) {
			w.events <- event{client: c, held: h}
		})
	}

	lock := "lock-" + rand.Text() // of its own, so that nothing of earlier schedules holds it
	return &schedule{
		world:      w,
		idle:       newIdleDetector(len(w.clients)),
		referee:    newReferee(w),
		diagram:    newDiagram(lock),
		lock:       lock,
		lastChoice: time.Now(),
		running:    -1,
	}, nil
}

// play has clients begin, and then choose say what happens until nothing can happen.
// It may return nil when the schedule was interrupted: its caller asks interrupted.
func (s *schedule) play(choose search.Chooser) error {
	// One after the other: what each sends first then waits at the gate, in the same order in
	// every schedule.
	for _, c := range s.clients {
		request := program.Acquire(s.lock)
		if s.shop != nil {
			request = program.Buy(s.shop.order(c.number))
		}
		s.tell(c, request)
		s.settle()
	}

	for len(s.steps) < mostSteps && s.interrupted() == nil {
		s.settle()
		if s.passRenewals() {
			continue // to settle again: a client may go on now
		}

		options := s.options()
		if len(options) == 0 {
			if !s.passTime() {
				break
			}
			continue
		}

		// Not asked while time passes: clients then have another settleLimit to become idle.
		if s.playAgain() {
			return search.ErrAgain
		}
		choice, err := choose(search.ChoicePoint{Options: options, Pending: s.pending()})
		err = errors.Join(err, s.failed, context.Cause(s.ctx))
		if err != nil {
			return err
		}
		s.do(choice)
		s.lastChoice = time.Now()
	}
	return nil
}

// mostAgain is how often in a row a schedule is played again because a client was not idle in
// time. More often it is the client that never is, and not the machine.
const mostAgain = 3

// playAgain reports whether the schedule is to be played again, rather than that something is
// chosen while a client may still do something. What there is to choose from would be chance,
// and all that follows would be compared with it.
func (s *schedule) playAgain() bool {
	switch {
	case !s.unsettled:
		return false
	case s.again == mostAgain:
		s.guessed = true
		return false
	}
	s.again++
	return true
}

// interrupted is why the schedule cannot go on.
func (s *schedule) interrupted() error { return cmp.Or(s.failed, s.hidden(), context.Cause(s.ctx)) }

// played is the schedule as the search wants it.
func (s *schedule) played() search.Played {
	return search.Played{
		Steps:   s.steps,
		Harms:   s.referee.harms,
		Stalled: s.stalled,
		Diagram: s.diagram.draw(s.referee.claims),
	}
}

// claim is what the referee knows of a client, to read.
func (s *schedule) claim(c *client) *claim { return s.referee.claims[c.number] }

// tell tells a client what to do.
func (s *schedule) tell(c *client, request string) {
	s.idle.reacts(c.number, true)
	c.tell(request)
}

// settle waits until all clients are idle, but no longer than settleLimit: past that it sets
// unsettled, for which playAgain asks.
func (s *schedule) settle() {
	began := time.Now()
	s.unsettled = false
	defer func() { s.stalled = s.stalled || time.Since(began) > s.leastLease/8 }()
	for time.Since(began) < settleLimit {
		select {
		case e := <-s.events:
			s.handle(e)
			continue
		default:
		}

		if !slices.ContainsFunc(s.clients, s.busy) {
			return
		}
		select {
		case e := <-s.events:
			s.handle(e)
		case <-time.After(lookEvery):
		}
	}
	s.unsettled = true
}

// busy reports whether a client may still do something without being chosen.
func (s *schedule) busy(c *client) bool {
	phase := s.claim(c).phase
	waitsToLeave := phase == holding || phase == unreleased
	if !c.runs() || len(c.waiting) > 0 || waitsToLeave || phase == ended {
		return false
	}
	return s.idle.busy(c.number, c.process, c.gate)
}

// handle notes what a client has done.
func (s *schedule) handle(e event) {
	c := e.client
	s.idle.restart(c.number)

	switch {
	case e.held != nil && c.process == nil: // it was sent before its program ended
		e.held.Drop()
	case e.held != nil && s.isRenewal(c, e.held):
		s.holdRenewal(c, e.held)
	case e.held != nil:
		s.impatient = s.impatient || s.claim(c).phase == acquiring && len(c.waiting) > 0
		c.waiting = append(c.waiting, e.held)
	case e.output.From != c.process: // it is of a program that was killed
	case e.output.Ended:
		s.diagram.add(c.number, "*its program has ended*", "")
		s.referee.ends(c.number)
		c.process = nil
		c.gate.Cut() // what it still wanted to send is not executed
		c.loses()
	default:
		s.hear(c, e.output)
	}
}

// expected is what a client was asked in each phase, and the words with which it may
// answer. In other phases it is asked nothing, and nothing that it says counts.
var expected = map[phase]struct{ request, answers string }{
	acquiring: {"acquire", program.AcquireAnswers},
	releasing: {"release", program.ReleaseAnswers},
}

// hear notes an answer.
func (s *schedule) hear(c *client, answer program.Output) {
	s.referee.hears(c.number, answer.Line)
	if s.shop != nil {
		s.hearBuyer(c, answer)
		return
	}

	want, wasAsked := expected[s.claim(c).phase]
	if !wasAsked {
		return
	}
	if s.claim(c).cancelled {
		want.answers += " " + program.Cancelled
	}
	if err := answer.Expect(want.answers); err != nil {
		s.failed = c.wrong(want.request, err)
		return
	}
	if s.claim(c).phase == acquiring {
		s.hearAcquire(c, answer)
	} else {
		s.hearRelease(c, answer)
	}
}

// hearBuyer notes what a buyer says of its order.
func (s *schedule) hearBuyer(c *client, answer program.Output) {
	s.showAnswer(c, answer)
	s.referee.ends(c.number)
	if err := answer.Expect(program.BuyAnswers); err != nil {
		s.failed = c.wrong("buy", err)
	}
	s.shop.answered(c.number, answer.Word())
	s.referee.testedIf(exclusive, s.shop.bought == 1 && s.shop.refused == 1)
}

// hearAcquire notes that a client has acquired the lock, or has given up.
func (s *schedule) hearAcquire(c *client, answer program.Output) {
	if answer.Word() != program.Acquired { // it is asked again
		s.showAnswer(c, answer)
		s.acquireAgain(c)
		return
	}

	// Before acquires: waits judges a client only while it takes the lock. If the machine stood
	// still, the wait shows nothing.
	if !s.stalled {
		s.checkWait(c)
	}
	s.diagram.add(c.number, "*enters*", "")
	s.idle.changed()
	c.renewalChosen = false
	_, token, _ := strings.Cut(answer.Line, " ")
	s.referee.acquires(c.number, c.clock.Sent(token)) // which may be the time
}

// hearRelease notes what a client says of its release. It locks again if that is left, or
// releases again if the release has failed.
func (s *schedule) hearRelease(c *client, answer program.Output) {
	s.showAnswer(c, answer)
	failed := answer.Expect(program.ReleaseFailures) == nil
	if failed && s.referee.repeatsRelease(c.number) {
		s.referee.failsToRelease(c.number)
		return
	}

	s.referee.releases(c.number, answer.Word())
	if s.claim(c).left > 0 {
		s.acquireAgain(c)
	}
}

func (s *schedule) acquireAgain(c *client) {
	s.referee.takesAgain(c.number)
	s.tell(c, program.Acquire(s.lock))
}

func (s *schedule) showAnswer(c *client, answer program.Output) {
	s.diagram.add(c.number, "*is told: "+printable(answer.Line)+"*", "")
}

// checkWait has the referee judge how long a client has been waiting for the lock.
func (s *schedule) checkWait(c *client) {
	if s.shop == nil && c.runs() {
		s.referee.waits(c.number, time.Since(s.lastChoice))
	}
}
