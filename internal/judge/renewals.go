package judge

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify/explore"
)

// Renewals are sent by a timer of the program that holds a lock. Whether one is there when
// something is chosen is decided by microseconds, so that the same choices would not lead to
// the same points if a renewal were a request like others. So it is kept apart:
//
//   - Rehearsal has each client hold a lock of its own for two leases. What it sends
//     then is a renewal, in which the words differ that differ between the two.
//   - In a schedule renewals are held at the gate, and are no part of the points that are
//     compared. Each passes before two thirds of the lease have, and before that where its
//     client cannot go on without it.
//   - Once for each time that a client holds the lock, to renew is a choice (search.Renew),
//     for which the next renewal is awaited. Faults strike it, too.
//
// A program whose renewals go on when it does not hold their locks is started anew now and
// then: they would never leave it idle.

// renewing is how a program renews its locks; without requests it does not.
type renewing struct {
	requests []renewalPattern
	every    time.Duration // the longest time before one
}

// A renewalPattern is a renewal. Its words that vary are anyWord.
type renewalPattern struct {
	commands [][]string
	// A program sends the same to take or release a lock: it is a renewal
	// only while the lock is held.
	ambiguous bool
}

const anyWord = "*"

// ofRenewal is Choice.At of a fault that strikes a client's next renewal.
const ofRenewal = 2

// A heldRenewal waits at the gate.
type heldRenewal struct {
	*wire.Held
	since time.Time
}

// An observation notes what clients send while they rehearse, and what for.
type observation struct {
	phases   [2]phase // acquiring, the zero value, until a client has its lock
	locks    [2]string
	requests [2][]observedRequest
}

type observedRequest struct {
	commands [][]string
	during   phase
	at       time.Time
}

// note notes a request.
func (o *observation) note(e event) {
	n := e.client.number
	o.requests[n] = append(o.requests[n], observedRequest{
		commands: e.held.Commands, during: o.phases[n], at: time.Now(),
	})
}

// observeRenewals has each client hold a lock of its own for two leases, and sets w.renewing,
// w.opaque and w.signed by what they send. After an error locks may still be held: its caller
// then gives up the world.
func (w *world) observeRenewals() (err error) {
	// The gates hold each request for a moment, so that it is heard: see overhear.
	o := &observation{}
	w.observed = o
	for _, c := range w.clients {
		c.gate.Gate(func(h *wire.Held) {
			w.events <- event{client: c, held: h}
		})
	}
	defer func() {
		w.observed = nil
		for _, c := range w.clients {
			c.gate.Gate(nil)
		}
	}()

	var acquired [2]time.Time
	for n, c := range w.clients {
		o.locks[n] = "renewed-" + rand.Text()
		err := w.expect(c, program.AnswerLimit, program.Acquired, program.Acquire(o.locks[n]))
		if err != nil {
			return err
		}

		o.phases[n] = holding
		acquired[n] = time.Now()
	}

	w.observe(2 * w.lease)
	for n, c := range w.clients {
		o.phases[n] = releasing
		err = errors.Join(err, w.expect(c, program.AnswerLimit, program.ReleaseAnswers, program.Release))
	}

	w.renewing = o.renewing(acquired)
	w.opaque, w.signed = o.opaque()
	return err
}

// observe lets all requests pass for some time.
func (w *world) observe(during time.Duration) {
	for end := time.After(during); ; {
		select {
		case e := <-w.events:
			w.overhear(e)
		case <-end:
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// overhear lets a request pass that was not asked for, and notes the end of a program.
func (w *world) overhear(e event) {
	switch {
	case e.held != nil && w.observed != nil:
		w.observed.note(e)
		e.held.Open()
	case e.held != nil: // of the last schedule
		e.held.Open()
	case e.output.Ended && e.output.From == e.client.process:
		e.client.process = nil
	}
}

// renewing is how the clients renew, who have acquired their locks at some time.
func (o *observation) renewing(acquired [2]time.Time) (r renewing) {
	for n, requests := range o.requests {
		last := acquired[n]
		for _, request := range requests {
			if request.during != holding {
				continue
			}
			r.every = max(r.every, request.at.Sub(last))
			last = request.at
			r.add(o.pattern(n, request.commands))
		}
	}
	return r
}

// pattern is a client's renewal, with what differs from the other client's as anyWord.
func (o *observation) pattern(client int, commands [][]string) renewalPattern {
	// A deep copy: the words as they were sent are looked at again, by opaque and for other
	// patterns.
	p := renewalPattern{commands: slices.Clone(commands)}
	for i, command := range p.commands {
		p.commands[i] = slices.Clone(command)
	}
	p.generalise(func(word string) bool {
		return strings.Contains(word, o.locks[client]) || search.Anonymous(word) != word
	})
	for _, r := range o.requests[1-client] {
		if r.during == holding && sameShape(p.commands, r.commands) {
			p.generaliseTo(r.commands)
		}
	}

	for n, requests := range o.requests {
		p.ambiguous = p.ambiguous || slices.ContainsFunc(requests, func(r observedRequest) bool {
			return r.during != holding && mentions(r.commands, o.locks[n]) && p.matches(r.commands)
		})
	}
	return p
}

// generalise makes words anyWord.
func (p renewalPattern) generalise(varies func(word string) bool) {
	for _, command := range p.commands {
		for i, word := range command[1:] {
			if varies(word) {
				command[i+1] = anyWord
			}
		}
	}
}

// generaliseTo makes words anyWord that differ from those of a request of the same shape.
func (p renewalPattern) generaliseTo(commands [][]string) {
	for n, command := range p.commands {
		for i, word := range command {
			if word != commands[n][i] {
				command[i] = anyWord
			}
		}
	}
}

// add adds a pattern that is not there yet.
func (r *renewing) add(p renewalPattern) {
	same := func(known renewalPattern) bool {
		return slices.EqualFunc(known.commands, p.commands, slices.Equal[[]string])
	}
	if !slices.ContainsFunc(r.requests, same) {
		r.requests = append(r.requests, p)
	}
}

// sameShape reports whether requests have the same commands, with as many words.
func sameShape(one, other [][]string) bool {
	return slices.EqualFunc(one, other, func(a, b []string) bool {
		return a[0] == b[0] && len(a) == len(b)
	})
}

// mentions reports whether a word of a request has a text in it.
func mentions(commands [][]string, text string) bool {
	return slices.ContainsFunc(commands, func(command []string) bool {
		return slices.ContainsFunc(command, func(word string) bool {
			return strings.Contains(word, text)
		})
	})
}

// matches reports whether a request is such a renewal.
func (p renewalPattern) matches(commands [][]string) bool {
	sameWord := func(pattern, word string) bool {
		return pattern == anyWord || pattern == word
	}
	sameWords := func(pattern, words []string) bool {
		return slices.EqualFunc(pattern, words, sameWord)
	}
	return sameShape(p.commands, commands) && slices.EqualFunc(p.commands, commands, sameWords)
}

// isRenewal reports whether a client's request is a renewal.
func (s *schedule) isRenewal(c *client, h *wire.Held) bool {
	return slices.ContainsFunc(s.renewing.requests, func(p renewalPattern) bool {
		return p.matches(h.Commands) && (!p.ambiguous || s.claim(c).phase == holding)
	})
}

// holdRenewal keeps a renewal at the gate.
func (s *schedule) holdRenewal(c *client, h *wire.Held) {
	c.renewals = append(c.renewals, heldRenewal{Held: h, since: time.Now()})
	if !mentions(h.Commands, s.lock) {
		c.others[fmt.Sprint(h.Commands)] = true
	}
}

// mayRenew reports whether the next renewal of a client is a choice: once, while it is inside.
// If one of them works it is that one alone: the other is as in the plain program.
func (s *schedule) mayRenew(c *client) bool {
	inside := c.runs() && s.claim(c).phase == holding
	differs := s.program != works && !setsClock(s.program) || s.works(c)
	return len(s.renewing.requests) > 0 && inside && !c.renewalChosen && differs
}

// renewals are the choices that a client inside renews, and that a fault strikes that. If
// another one could go on meanwhile, it is preempted.
func (s *schedule) renewals(others bool) (options []search.Choice) {
	for _, c := range s.clients {
		if !s.mayRenew(c) {
			continue
		}
		options = append(options, search.Choice{What: search.Renew, N: c.number, Preempt: others})
		for _, kind := range s.kinds {
			if kind == explore.Lose || kind == explore.Late || kind == explore.Die {
				options = append(options, search.Choice{What: string(kind), N: c.number, At: ofRenewal})
			}
		}
	}
	return options
}

// renew makes a choice happen that renewals has offered: each of its faults has a case here. If
// no renewal comes, nothing does: the program may have learned that it has lost the lock.
func (s *schedule) renew(c *client, choice search.Choice) {
	c.renewalChosen = true
	// Longer than the longest time before one, as the machine may be slow; and no longer, as nobody's
	// renewals pass meanwhile.
	if !s.awaitRenewal(c, s.renewing.every*3/2) {
		return
	}
	h := c.renewals[0]
	c.renewals = c.renewals[1:]

	switch explore.Fault(choice.What) {
	case explore.Late:
		s.delay(c, h.Held)
		return
	case explore.Lose:
		s.deliver(c, h.Held, lostReply, h.Lose)
	case explore.Die:
		s.die(c, h.Held)
		return
	default:
		s.deliver(c, h.Held, "", h.Open)
	}
	s.renewed(c, h) // it was executed, also if its reply is lost
}

// renewed notes that a renewal was let through. It is counted from when it came to the gate:
// it may have the time at which the lease ends. One that follows another counts for nothing,
// as it may have the same time as that, and so does one that does not name the lock.
func (s *schedule) renewed(c *client, r heldRenewal) {
	if mentions(r.Commands, s.lock) && !s.follows(c, r) {
		s.referee.renews(c.number, r.since, time.Now())
	}
	c.passed = time.Now()
}

// follows reports whether a renewal came soon after another one had passed: a program may send
// several, one after the other's reply.
func (s *schedule) follows(c *client, r heldRenewal) bool {
	return r.since.Sub(c.passed) < s.renewing.every/2
}

// awaitRenewal waits for a renewal of a client, and reports whether there is one. Those that come
// meanwhile, also of the other client, stay at the gate.
func (s *schedule) awaitRenewal(c *client, limit time.Duration) bool {
	for end := time.After(limit); len(c.renewals) == 0; {
		select {
		case e := <-s.events:
			s.handle(e)
		case <-end:
			return false
		case <-s.ctx.Done():
			return false
		}
	}
	return true
}

// passRenewals lets renewals pass that have waited for long enough, or without which their
// clients do not go on. It reports whether there was one of these.
func (s *schedule) passRenewals() (wentOn bool) {
	for _, c := range s.clients {
		phase := s.claim(c).phase
		stuck := c.runs() && len(c.waiting) == 0 && (phase == acquiring || phase == releasing)
		for len(c.renewals) > 0 && (stuck || s.renewalIsDue(c)) {
			s.passRenewal(c)
			wentOn = wentOn || stuck
		}
	}
	return wentOn
}

// renewalIsDue reports whether the first renewal of a client has to pass, so that the lease
// does not end: it has waited for a sixth of the lease, or two thirds of that are over. One
// that follows another is not held: its program would come too late with the next.
func (s *schedule) renewalIsDue(c *client) bool {
	waited := time.Since(c.renewals[0].since)
	left := time.Until(s.claim(c).leaseEnds)
	return s.follows(c, c.renewals[0]) || waited > s.leastLease/6 || left < s.leastLease/3
}

// passRenewal lets the first renewal of a client pass. That of another lock is not drawn.
func (s *schedule) passRenewal(c *client) {
	h := c.renewals[0]
	c.renewals = c.renewals[1:]
	drawn := len(s.diagram.events)
	s.deliver(c, h.Held, "", h.Open)
	if mentions(h.Commands, s.lock) {
		s.renewed(c, h)
		return
	}

	// Behind its own events deliver may have drawn what others did meanwhile.
	s.diagram.events = slices.Delete(s.diagram.events, drawn, drawn+len(h.Commands))
}

// mostOthers is how many locks a program may go on renewing before it is started anew.
const mostOthers = 8

// restartWhoRenewsOn ends programs that renew many locks that they do not hold any more.
func (s *schedule) restartWhoRenewsOn() {
	for _, c := range s.clients {
		if len(c.others) > mostOthers {
			c.kill()
		}
	}
}

// isRenewalStruck reports whether a choice is a fault that strikes a renewal.
func isRenewalStruck(c search.Choice) bool { return c.IsFault() && c.At == ofRenewal }
