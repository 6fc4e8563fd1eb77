package judge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite/purchasers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// newPair starts a server and two clients, and has them rehearse with one lease after
// the other until that succeeds.
func newPair(ctx context.Context, o Options, guard *guardian, leases []time.Duration) (*pair, error) {
	server, err := o.Server.Start(ctx)
	if err != nil {
		return nil, err
	}
	p := &pair{ctx: ctx, server: server, kinds: o.Bounds.Kinds, program: o.Program}
	p.events, p.shown, p.reached = make(chan event, 1000), map[verify.Harm]bool{}, map[string]bool{}
	err = p.opens(o, guard)
	if err == nil {
		for _, p.asked = range leases {
			err = p.rehearse()
			if err == nil || errors.Is(err, errClock) {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// opens opens the gates of two clients, and if they buy, a connection to their market.
func (p *pair) opens(o Options, guard *guardian) (err error) {
	for _, name := range []string{"Alice", "Bob"} {
		command := o.Command
		if name == "Bob" && o.Program == clockOff {
			command, err = ahead(command)
		}
		if err != nil {
			return err
		}
		connects := func() (net.Conn, error) { return redisconn.To(p.server.Target).Connect(context.Background()) }
		gate, err := wire.StartGate(connects)
		if err != nil {
			return err
		}
		l := launch{name: name, command: command, mark: guard.mark, copies: o.Stderr}
		l.server = url.URL{Scheme: "redis", Host: gate.Addr()}
		p.clients = append(p.clients, &player{client: &client{launch: l, gate: gate, events: p.events}})
	}
	m, is := purchasers.Named(o.Program)
	if !is {
		return nil
	}
	conn, err := p.server.Dial(p.ctx)
	if err == nil {
		p.shop = &shop{Market: m, conn: conn}
	}
	return err
}

// rehearse has each client do its work without interference. Then it measures the lease
// of a lock: it stops the holder, and waits until the other client gets in.
func (p *pair) rehearse() error {
	for i, c := range p.clients {
		c.kill()
		if err := p.revive(i); err != nil {
			return err
		}
	}
	p.lease = p.asked
	switch {
	case p.program == clockOff: // a lease that ends too soon by a clock is for the search to find
		return p.clockShows()
	case p.shop != nil:
		return nil
	}
	one, other, name := p.clients[0], p.clients[1], "lease-"+rand.Text()
	if err := p.told(one, silence, "acquired", "acquire "+name); err != nil {
		return err
	}
	one.life.signal(stop)
	began := time.Now()
	err := p.told(other, max(longestLease, 3*p.asked), "acquired", "acquire "+name)
	p.lease = time.Since(began)
	one.life.signal(goOn)
	if err != nil {
		return fmt.Errorf("a holder was stopped for %s, and the other did not get in: has the lock a lease, of LOCK_TTL_MS "+
			"milliseconds? %w", longestLease, err)
	}
	if p.lease < p.asked/4 {
		return fmt.Errorf("%w: two clients were inside at once, and nothing had happened: is its lock one in the server at "+
			"REDIS_HOST and REDIS_PORT?", ErrAdapter)
	}
	// the first has lost the lock, and may release that of the other
	for _, c := range []*player{one, other} {
		err = errors.Join(err, p.told(c, silence, "released lost done error", "release"))
	}
	return err
}

// How long a program may say nothing: when it starts, else, and when it waits for
// the lease of another to end.
const starting, silence, longestLease = time.Minute, 10 * time.Second, 5 * time.Second

// told tells a client words while its requests pass, and returns an error unless the
// answer begins with one of want.
func (p *pair) told(c *player, limit time.Duration, want string, words string) error {
	said, err := p.answer(c, limit, words)
	how := among(said, want)
	if err == nil && how != nil {
		err = c.wrong(words, how)
	}
	return err
}

// answer tells a client words, and returns what it says, or "" if it ends. A take that
// times out is asked for again.
func (p *pair) answer(c *player, limit time.Duration, words string) (string, error) {
	c.say(words)
	for end := time.After(limit); ; {
		select {
		case e := <-p.events:
			switch said := strings.Fields(e.line); {
			case e.held != nil: // a request of the last schedule
				e.held.Open()
			case e.client != c.client || e.life != c.life:
				if e.line == "" && e.client.life == e.life { // the other one has ended
					e.client.life = nil
				}
			case len(said) > 0 && said[0] == "timeout":
				c.say(words)
			default:
				return e.line, nil
			}
		case <-end:
			return "", c.wrong(words, silentFor(limit))
		case <-p.ctx.Done():
			return "", context.Cause(p.ctx)
		}
	}
}
