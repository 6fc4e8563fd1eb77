package explore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A parked request waits in a server until one of its keys holds something, or until its time-out. Miniredis would wait
// in the goroutine that asks it, which is the search's.
type parked struct {
	*request
	command []string
	keys    []string
	until   time.Time // zero: for good
}

// blocksFor is how the keys for which a command waits are found among its arguments; nil: it is not known to wait, or
// cannot be parked.
func blocksFor(command string) func(args []string) []string {
	switch strings.ToUpper(command) {
	case "BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX":
		return func(args []string) []string { return args[:max(0, len(args)-1)] }
	case "BLMOVE", "BRPOPLPUSH":
		return func(args []string) []string { return args[:min(1, len(args))] }
	}
	return nil
}

// parks reports whether a command has to wait, and lets it: not inside a transaction, and not where a key holds
// something.
func (s *Server) parks(r *request, command []string) bool {
	find := blocksFor(command[0])
	if find == nil || r.queues || len(command) < 3 {
		return false
	}
	keys := find(command[1:])
	seconds, err := strconv.ParseFloat(command[len(command)-1], 64)
	if err != nil || seconds < 0 || s.holds(keys) {
		return false // it is answered at once
	}
	for _, key := range keys {
		s.world.uses.add(s.named(key), true)
	}
	if r.Broken() {
		return true // a server gives up what waits for a client that has gone
	}
	p := &parked{request: r, command: command, keys: keys}
	if seconds > 0 {
		limit := time.Duration(seconds * float64(time.Second))
		p.until = time.Now().Add(limit)
		if r.client == nobody { // for whom the world does not look
			time.AfterFunc(limit, s.expire)
		}
	}
	s.parking.Lock()
	defer s.parking.Unlock()
	s.parked = append(s.parked, p)
	return true
}

// holds reports whether one of some keys holds something.
func (s *Server) holds(keys []string) bool { return slices.ContainsFunc(keys, s.redis.Exists) }

// unpark answers those who have waited for what is there now, the first first.
func (s *Server) unpark() {
	s.parking.Lock()
	defer s.parking.Unlock()
	for again := true; again; {
		again = false
		s.parked = slices.DeleteFunc(s.parked, func(p *parked) bool {
			if again || !p.Broken() && !s.holds(p.keys) {
				return false
			}
			again = true
			if !p.Broken() {
				p.answer = nil
				s.world.remembered.Dispatch(s.redis.Server(), p.peer, p.command, true)
				p.answered()
			}
			return true
		})
	}
}

// expire answers those whose time-out has come.
func (s *Server) expire() {
	s.parking.Lock()
	defer s.parking.Unlock()
	s.parked = slices.DeleteFunc(s.parked, func(p *parked) bool {
		late := !p.until.IsZero() && !time.Now().Before(p.until)
		if late && !p.Broken() {
			p.answer = nil
			p.peer.WriteNull()
			p.answered()
		}
		return late
	})
}

// answered sends a parked request's reply, and draws it.
func (p *parked) answered() {
	p.peer.Flush()
	w := p.world
	reply := strings.Join(wire.Values(string(p.answer)), " ")
	w.draw(verify.Event{Client: p.client, Does: "*" + w.short(p.command) + " ends*", Reply: reply}, nil)
}
