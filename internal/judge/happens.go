package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify/explore"
)

// wants is what each client wants to do next.
func (p *pair) wants() []string {
	all := make([]string, len(p.clients))
	for i, c := range p.clients {
		switch {
		case !p.can(c):
		case len(c.waiting) > 0:
			all[i] = search.Anonymous(asked(c.waiting[0]))
		default:
			all[i] = "leaves"
		}
		all[i] = strings.ReplaceAll(all[i], search.Anonymous(p.name), "lock")
	}
	return all
}

// line is a command as it is drawn.
func line(command []string) string {
	return strings.TrimSpace(strings.ToUpper(command[0]) + " " + strings.Join(command[1:], " "))
}

// can reports whether a client can go on: a request waits, or it is inside and may leave.
func (p *pair) can(c *player) bool {
	done := c.phase == inside
	if p.program == works && c == p.clients[0] && c.left == takes-1 {
		done = done && time.Since(c.entered) > p.lease*3/2
	}
	return c.life != nil && c.paused.IsZero() && (len(c.waiting) > 0 || done)
}

// asked returns the first two words of each command of a request. They identify a request
// that is sent again, whose tokens and times may differ.
func asked(h *wire.Held) string {
	var all []string
	for _, command := range h.Commands {
		all = append(all, line(command[:min(2, len(command))]))
	}
	return strings.Join(all, "; ")
}

// options are the choices at this point. The first is that the client that was
// chosen last goes on, if it can.
func (p *pair) options() (options []search.Choice) {
	goesOn := p.running >= 0 && p.can(p.clients[p.running]) && !p.polls(p.clients[p.running])
	for after := range p.clients {
		i := (max(0, p.running) + after) % len(p.clients)
		c := p.clients[i]
		if !p.can(c) || p.polls(c) {
			continue
		}
		one := search.Choice{What: search.Deliver, N: i, Preempt: goesOn && i != p.running}
		options = append(options, one)
		for _, kind := range p.kinds {
			one.What = string(kind)
			needs := kind == explore.Lose || kind == explore.Late
			if !one.Preempt && (!needs || len(c.waiting) > 0) {
				options = append(options, one)
			}
		}
	}
	for i, c := range p.clients {
		if p.wakes(i) {
			options = append(options, search.Choice{What: search.Wake, N: i})
		}
		if len(c.late) > 0 {
			options = append(options, search.Choice{What: search.Arrive, N: i})
		}
	}
	return options
}

// wakes reports whether a stopped client may go on: at once if the other has got in
// meanwhile, else after a lease if the other can do something or has ended, and
// after four leases in any case.
func (p *pair) wakes(i int) bool {
	c, other := p.clients[i], p.clients[1-i]
	if c.paused.IsZero() {
		return false
	}
	slept := time.Since(c.paused)
	settled := p.can(other) && !p.polls(other) || other.phase == ended || slept > 4*p.lease
	return slept > p.lease*11/10 && settled || other.entered.After(c.paused)
}

// do makes a choice happen.
func (p *pair) do(c search.Choice) {
	p.steps = append(p.steps, c)
	one := p.clients[c.N]
	if c.What != search.Arrive {
		p.running = c.N
	}
	if c.IsFault() || c.What == search.Wake || c.What == search.Arrive {
		p.changes++
	}
	switch explore.Fault(c.What) {
	case explore.Pause:
		p.draw(c.N, "*pauses*", "")
		one.paused = time.Now()
		if one.phase == acquiring {
			one.before = one.sent
		}
		one.life.signal(stop)
	case search.Wake:
		p.draw(c.N, fmt.Sprintf("*wakes after %s*", time.Since(one.paused).Round(time.Millisecond)), "")
		one.paused, one.same = time.Time{}, 0
		one.life.signal(goOn)
	case search.Arrive:
		h := one.late[0]
		one.late = one.late[1:]
		p.deliver(c.N, h, "*comes late*", h.Open)
		one.owes = false // the reply does not reach it: its connection is broken
	case explore.Late:
		h := p.take(one)
		p.draws(c.N, h, "*on its way for long, the connection breaks*")
		one.late, one.owes = append(one.late, h), true
		h.Delay()
	case explore.Lose:
		h := p.take(one)
		p.sends(one, h)
		p.deliver(c.N, h, "*executed, the reply is lost*", h.Lose)
	case explore.Die:
		p.orphaned = p.orphaned || one.phase == inside
		if len(one.waiting) > 0 {
			h := p.take(one)
			p.deliver(c.N, h, "*executed, then the client dies*", h.Lose)
		} else {
			p.draw(c.N, "*dies*", "")
		}
		one.kill()
		one.phase, one.waiting = ended, nil
	default:
		p.goOn(c.N, one)
	}
}

// goOn delivers the next request of a client, or has it leave if none waits.
func (p *pair) goOn(i int, c *player) {
	if len(c.waiting) == 0 {
		p.draw(i, "*leaves*", "")
		c.phase, c.same = releasing, 0
		p.changes++
		c.tell("release")
		return
	}
	h := p.take(c)
	// A buyer's request that is new, or that ends a transaction, may change something.
	if p.shop != nil && (!c.seen[asked(h)] || strings.HasSuffix(asked(h), "EXEC")) {
		p.changes++
	}
	c.seen[asked(h)] = true
	if c.polls == nil || c.changes != p.changes {
		c.polls, c.changes = map[string]bool{}, p.changes
	}
	c.polls[asked(h)] = true
	if c.phase != acquiring {
		p.changes++
	}
	p.sends(c, h)
	if c.phase == inside && c.sent.Before(c.until) { // it renews its lease
		c.until = c.sent.Add(p.surely)
	}
	p.deliver(i, h, "", h.Open)
}

// sends notes when a request was delivered. A lease counts from the last delivery of
// the first request of its take.
func (p *pair) sends(c *player, h *wire.Held) {
	c.sent = time.Now()
	if c.phase != acquiring {
		return
	}
	c.first = cmp.Or(c.first, asked(h))
	if c.first == asked(h) {
		c.since = c.sent
	}
	for _, other := range p.clients {
		p.contended = p.contended || other != c && other.phase == inside
	}
}

// take removes the first request that waits, and returns it.
func (p *pair) take(c *player) *wire.Held {
	h := c.waiting[0]
	c.waiting, c.same = c.waiting[1:], 0
	return h
}

// draws draws a request, and returns the index of its last command's event, the
// one with the reply.
func (p *pair) draws(i int, h *wire.Held, reply string) (last int) {
	for _, command := range h.Commands {
		last = p.draw(i, line(command), "")
	}
	p.drawn[last].Reply = reply
	return last
}

// deliver draws a request, lets it go, and waits for its reply, but only briefly
// if it may block in the server.
func (p *pair) deliver(i int, h *wire.Held, then string, letGo func()) {
	at := p.draws(i, h, then)
	limit := 2 * time.Second
	if slices.ContainsFunc(h.Commands, func(command []string) bool { return wire.Blocks(command[0]) }) {
		limit = 10 * time.Millisecond
	}
	letGo()
	for late := time.After(limit); ; {
		select {
		case <-h.Answered():
			p.clients[i].owes = p.clients[i].life != nil
			if then == "" {
				p.drawn[at].Reply = h.Reply()
			}
			return
		case e := <-p.events:
			p.handle(e)
		case <-late:
			return
		}
	}
}
