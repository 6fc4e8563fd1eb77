package judge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A pair is the World of two clients. They take one lock, the first client twice and the
// second once, or buy in a shop.
type pair struct {
	ctx     context.Context
	shop    *shop // nil: they lock
	server  *backend.Server
	clients []*player
	events  chan event
	kinds   []explore.Fault
	asked   time.Duration // the lease that the lock is to have
	lease   time.Duration // the one that it has
	// The least that it can be: one that polls seldom gets in late, and lease is too long.
	surely  time.Duration
	program string
	reached map[string]bool      // the promises that something has put to the test
	shown   map[verify.Harm]bool // harms that have come a second time
	// A client has sent something else while a request was held back: it gives up soon.
	hasty bool

	schedule
}

// A schedule is what a pair notes of the one that it plays.
type schedule struct {
	name      string // of the lock
	begin     time.Time
	drawn     []verify.Event
	steps     []search.Choice
	running   int // the client that was chosen last; below 0: none
	harms     []verify.Violation
	released  string    // the last client that has released since a client entered; empty: none has
	entered   int       // how often a client has entered
	fence     int64     // the largest token so far
	orphaned  bool      // a holder has died
	contended bool      // a client has asked for the lock while the other one was inside
	changes   int       // how often something happened that a poll may see
	last      time.Time // when a choice was last made
	failed    error     // why this program cannot be judged
	stalled   bool      // a client took long to come to rest: the machine has no time for it
}

// A phase is what a client does.
type phase int

const (
	acquiring phase = iota // or buying
	inside
	releasing
	ended // or dead
)

// A player is a client in one schedule.
type player struct {
	*client
	phase   phase
	left    int          // how often it is still to lock
	waiting []*wire.Held // requests at its gate
	late    []*wire.Held // requests that are on their way for long
	paused  time.Time    // since when; zero: it is not
	first   string       // the first request of its take; since says when it was last delivered
	since   time.Time
	until   time.Time // when its lease runs out
	sent    time.Time // when its last request was delivered
	before  time.Time // what sent was when it was stopped while it took the lock; zero: it was not
	entered time.Time
	seen    map[string]bool // what it has asked
	polls   map[string]bool // what it has asked since something changed
	changes int             // what pair.changes was then
	ran     string          // see slices, and how often it was the same
	same    int
	looked  time.Time // when slices was last called
	owes    bool      // it has been told something, or has a reply, and has not run since
	told    string
}

// Play implements search.World. When a harm, other than an outlived lease, first
// comes, it counts only if it comes again in one of three more tries: else the
// machine may have stood still.
func (p *pair) Play(choose search.Chooser) (search.Played, error) {
	played, err := p.play(choose)
	played.Harms = slices.DeleteFunc(played.Harms, func(v verify.Violation) bool {
		if v.Harm == verify.Outlived || p.shown[v.Harm] {
			return false
		}
		for try := 0; try < 3 && !p.shown[v.Harm]; try++ {
			again, _ := p.play(search.Follow(search.Words(played.Steps))) // an error: it did not come
			p.shown[v.Harm] = slices.ContainsFunc(again.Harms, func(a verify.Violation) bool { return a.Harm == v.Harm })
		}
		return !p.shown[v.Harm]
	})
	return played, err
}

// play plays a schedule.
func (p *pair) play(choose search.Chooser) (search.Played, error) {
	if err := p.ready(); err != nil {
		return search.Played{}, err
	}
	for i, c := range p.clients {
		words := "acquire " + p.name
		if p.shop != nil {
			words = buys(p.shop.order(i))
		}
		c.tell(words)
		p.settle()
	}
	for len(p.steps) < mostSteps && p.failed == nil && p.ctx.Err() == nil {
		p.settle()
		options := p.options()
		if len(options) == 0 {
			if !p.idle() {
				break
			}
			continue
		}
		c, err := choose(options, p.wants())
		err = errors.Join(err, p.failed, context.Cause(p.ctx))
		if err != nil {
			p.finish() // or a client would stay stopped
			return search.Played{}, err
		}
		p.do(c)
		p.last = time.Now()
	}
	p.finish()
	if err := cmp.Or(p.failed, context.Cause(p.ctx)); err != nil {
		return search.Played{}, err
	}
	return search.Played{Steps: p.steps, Harms: p.harms, Stalled: p.stalled, Diagram: p.diagram(p.drawn)}, nil
}

const mostSteps = 500

// ready begins a schedule: programs that have died are started again.
func (p *pair) ready() error {
	for i := range p.clients {
		if err := p.revive(i); err != nil {
			return err
		}
	}
	if p.shop != nil {
		if err := p.shop.open(p.ctx); err != nil {
			return err
		}
	}
	for n, c := range p.clients {
		*c = player{client: c.client, left: 2 - n, seen: map[string]bool{}}
		c.gate.Gate(func(h *wire.Held) { p.events <- event{client: c.client, held: h} })
	}
	now := time.Now()
	p.schedule = schedule{name: "lock-" + rand.Text(), begin: now, last: now, running: -1}
	return nil
}

// tell tells a client what to do, and notes that it has to run before it has done that.
func (c *player) tell(words string) {
	c.owes = true
	c.say(words)
}

// revive starts a program that does not run, and returns when it has locked or bought
// twice: it has connected, and has loaded its scripts.
func (p *pair) revive(i int) error {
	c := p.clients[i]
	if c.life != nil {
		return nil
	}
	if err := c.start(p.asked); err != nil {
		return err
	}
	c.gate.Gate(nil)
	c.gate.Record()
	err := p.rehearsed(i, c)
	if err == nil && len(c.gate.Commands()) == 0 {
		err = fmt.Errorf("%w: it has done all that it was told%s", ErrAdapter, c.lastWords())
	}
	if err != nil {
		c.kill() // or a late answer would be taken for that to something else
	}
	return err
}

func (p *pair) rehearsed(i int, c *player) (err error) {
	for n := 0; err == nil && n < 2; n++ {
		if p.shop != nil {
			err = p.shop.open(p.ctx)
			if err == nil {
				err = p.told(c, starting, "bought", buys(p.shop.order(i)))
			}
			continue
		}
		err = p.told(c, starting, "acquired", "acquire rehearsal"+rand.Text())
		if err == nil {
			err = p.told(c, silence, "released done", "release")
		}
	}
	return err
}

// handle notes what a client has done.
func (p *pair) handle(e event) {
	i := slices.IndexFunc(p.clients, func(c *player) bool { return c.client == e.client })
	c := p.clients[i]
	c.same = 0
	switch {
	case e.held != nil && c.life == nil:
		e.held.Drop()
	case e.held != nil:
		p.hasty = p.hasty || c.phase == acquiring && len(c.waiting) > 0
		c.waiting = append(c.waiting, e.held)
	case e.life != c.life: // it is of a program that was killed
	case e.line == "":
		p.draw(i, "*its program has ended*", "")
		c.phase, c.life = ended, nil
		c.gate.Cut() // what it still wanted to send is not executed
		c.waiting = nil
	default:
		p.said(i, c, e.line)
	}
}

// draw notes an event of the diagram, and returns its index.
func (p *pair) draw(client int, does, reply string) int {
	at := time.Since(p.begin).Round(100 * time.Microsecond)
	p.drawn = append(p.drawn, verify.Event{At: at, Client: client, Does: does, Reply: reply})
	return len(p.drawn) - 1
}

// diagram draws a schedule, with tokens named by the order in which they came.
func (p *pair) diagram(drawn []verify.Event) func([]verify.Violation) verify.Diagram {
	d := verify.Diagram{}
	for _, c := range p.clients {
		d.Clients, d.End = append(d.Clients, c.name), append(d.End, c.name+": was told last: "+c.told)
	}
	name := search.Names{}.Tokens
	for _, e := range drawn {
		e.Does, e.Reply = name(e.Does), name(e.Reply)
		d.Events = append(d.Events, e)
	}
	return func(shown []verify.Violation) verify.Diagram {
		shows := d
		for _, v := range shown {
			shows.End = append(slices.Clip(shows.End), "Harm: "+v.String())
		}
		return shows
	}
}

// finish ends a schedule: it kills clients that have not ended, and looks at what is left.
func (p *pair) finish() {
	for _, c := range p.clients {
		c.gate.Gate(nil)
		p.waited(c)
		if p.shop != nil && c.phase != ended && c.paused.IsZero() && p.failed == nil && context.Cause(p.ctx) == nil {
			p.harm(verify.DoesNotEnd, fmt.Sprintf("%s is told nothing in %s", c.name, 6*p.lease))
		}
		if c.phase != ended || !c.paused.IsZero() {
			c.kill()
		}
		for _, h := range c.waiting {
			h.Open() // it has nothing to do with the lock; if the client was killed, it has no effect
		}
		for _, h := range c.late {
			h.Drop()
		}
	}
	if p.shop != nil {
		p.harms = append(p.harms, p.shop.audit(p)...)
		return
	}
	if slices.ContainsFunc(p.steps, search.Choice.IsFault) {
		p.getsIn()
	}
}

// getsIn has a client that is left, or a fresh one, take the lock after a fault,
// within two leases and a margin.
func (p *pair) getsIn() {
	who := 1
	if p.clients[who].life == nil {
		who = 0
	}
	if p.revive(who) != nil { // ready will say why
		return
	}
	c := p.clients[who]
	end := time.Now().Add(2*p.lease + settling + time.Second)
	err := p.told(c, time.Until(end), "acquired", "acquire "+p.name)
	for err != nil && !errors.Is(err, errSilent) && c.life != nil && time.Now().Before(end) && p.ctx.Err() == nil {
		// An error, which may be of its connection.
		err = p.told(c, time.Until(end), "acquired", "acquire "+p.name)
	}
	if errors.Is(err, errSilent) {
		p.harm(verify.LockedOut, fmt.Sprintf("a client does not get in within two leases (%s) after the end",
			(2*p.lease).Round(time.Millisecond)))
	}
	p.reaches(survivesCrash, err == nil && p.orphaned)
	if err != nil || p.told(c, silence, "released done", "release") != nil {
		c.kill()
	}
}

// close ends all.
func (p *pair) close() (err error) {
	done := make(chan struct{})
	defer close(done)
	go func() { // or clients would block on a full channel
		for {
			select {
			case e := <-p.events:
				if e.held != nil {
					e.held.Drop()
				}
			case <-done:
				return
			}
		}
	}()
	for _, c := range p.clients {
		err = errors.Join(err, c.close())
	}
	if p.shop != nil {
		err = errors.Join(err, p.shop.conn.Close())
	}
	return errors.Join(err, p.server.Close())
}
