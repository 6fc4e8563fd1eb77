package judge

import (
	"slices"
	"time"
)

// settle waits until every client that is to do something waits, at its gate or asleep,
// but no longer than settling.
func (p *pair) settle() {
	began := time.Now()
	defer func() { p.stalled = p.stalled || time.Since(began) > p.surely/8 }()
	for limit := began.Add(settling); time.Now().Before(limit); {
		select {
		case e := <-p.events:
			p.handle(e)
			continue
		default:
		}
		if !slices.ContainsFunc(p.clients, p.moves) {
			return
		}
		select {
		case e := <-p.events:
			p.handle(e)
		case <-time.After(look):
		}
	}
}

// look is the time between two looks at threads, enough the number of looks in a row that
// have to show the same, and settling how long settle waits for clients.
const look, enough, settling = 200 * time.Microsecond, 8, 300 * time.Millisecond

// moves reports whether a client does something: it still owes a reaction, or the last
// looks show that its threads ran.
func (p *pair) moves(c *player) bool {
	if c.life == nil || !c.paused.IsZero() || len(c.waiting) > 0 || c.phase == inside || c.phase == ended {
		return false
	}
	ran, waits := c.slices()
	// Then bytes between the client and its gate may be late, too.
	late := time.Since(c.looked) > 5*look
	c.looked = time.Now()
	c.same++
	c.owes = c.owes && ran == c.ran
	if ran != c.ran || !waits || late {
		c.ran, c.same = ran, 0
	}
	return c.owes || c.same < enough
}

// polls reports whether a client that takes the lock asks what it has asked before,
// and nothing has changed since.
func (p *pair) polls(c *player) bool {
	if len(c.waiting) == 0 || c.phase != acquiring || c.changes != p.changes {
		return false
	}
	for _, other := range p.clients { // a lease that has ended changes something
		if other.phase == inside && time.Now().After(other.until) && c.sent.Before(other.until) {
			return false
		}
	}
	return c.polls[asked(c.waiting[0])]
}

// idle lets time pass. It reports false when all have ended, or nothing has
// happened for long.
func (p *pair) idle() bool {
	over := func(c *player) bool { return c.phase == ended }
	if !slices.ContainsFunc(p.clients, func(c *player) bool { return !over(c) }) || time.Since(p.last) > 6*p.lease {
		return false
	}
	held := slices.ContainsFunc(p.clients, func(c *player) bool { return c.phase == inside })
	back := p.lease / 8 // for how long a poll is held back while the lock is held
	if p.hasty {
		back = p.lease / 50
	}
	for i, c := range p.clients {
		if p.can(c) && p.polls(c) && (!held || time.Since(c.sent) > back) {
			h := p.take(c)
			p.sends(c, h)
			drawn := len(p.drawn)
			p.deliver(i, h, "", h.Open)
			p.settle()
			if c.phase == acquiring { // nothing came of it
				p.drawn = p.drawn[:drawn]
			}
			return true
		}
	}
	select {
	case e := <-p.events:
		p.handle(e)
	case <-time.After(time.Millisecond):
	}
	return true
}
