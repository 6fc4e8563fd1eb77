package explore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// A parked request waits in a server until one of its keys holds something, or until its
// time-out. Miniredis would wait in the goroutine that asks it, which is the search's.
type parked struct {
	*request
	command []string // the command that is executed in the end: an XREAD loses its BLOCK
	in      int      // the database in which it waits
	keys    []string
	// Of streams: the last entry of each that the client has; nil: the keys are no streams.
	after []string
	until time.Time // zero: for good
}

// parkable are the commands that may wait and are parked. waits has a case for each: one without
// would wait in miniredis, and the search with it.
var parkable = []string{"BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX", "BLMOVE", "BRPOPLPUSH", "XREAD"}

// waits returns how, and for how long, a command may wait in a database. It returns false
// if it does not wait, or is not known.
func (s *Server) waits(
	database int, command []string) (p *parked, limit time.Duration, waits bool) {

	args := command[1:]
	if len(args) < 2 {
		return nil, 0, false
	}

	p = &parked{command: command, in: database}
	text := args[len(args)-1]
	unit := time.Second
	switch strings.ToUpper(command[0]) {
	case "BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX":
		p.keys = args[:len(args)-1]
	case "BLMOVE", "BRPOPLPUSH":
		p.keys = args[:1]
	case "XREAD":
		text = s.reads(p, args)
		unit = time.Millisecond
	default:
		return nil, 0, false
	}

	// A time-out of nothing waits for good, so that only a number below 0 is an error. What has
	// no valid time-out here does not wait: it is executed at once, and may be refused.
	n, err := strconv.ParseFloat(text, 64)
	return p, time.Duration(n * float64(unit)), err == nil && n >= 0
}

// reads notes after which entries of which streams an XREAD waits, and returns its
// time-out; empty: it does not wait.
func (s *Server) reads(p *parked, args []string) (limit string) {
	position := func(word string) int { // -1: it is not there
		return slices.IndexFunc(args, func(arg string) bool {
			return strings.EqualFold(arg, word)
		})
	}
	block := position("BLOCK")
	streams := 1 + position("STREAMS") // where the keys begin; 0: nowhere
	unbalanced := (len(args)-streams)%2 != 0
	if block < 0 || streams < block+2 || unbalanced {
		return ""
	}

	keys := (len(args) - streams) / 2
	p.keys = args[streams : streams+keys]
	p.after = slices.Clone(args[streams+keys:])
	for i, id := range p.after { // $ is the end of the stream now, not when p.command is executed
		if id == "$" {
			p.after[i] = s.last(p.in, p.keys[i])
		}
	}
	p.command = slices.Concat([]string{"xread"}, args[:block], args[block+2:streams], p.keys, p.after)
	return args[block+1]
}

// last is the last entry of a stream in a database.
func (s *Server) last(database int, key string) string {
	entries, _ := s.redis.DB(database).Stream(key) // none where there is no stream
	if len(entries) == 0 {
		return "0-0"
	}
	return entries[len(entries)-1].ID
}

// holds reports whether one of the keys holds something, or something new.
func (p *parked) holds(s *Server) bool {
	for i, key := range p.keys {
		exists := s.redis.DB(p.in).Exists(key)
		if exists && (p.after == nil || s.last(p.in, key) != p.after[i]) {
			return true
		}
	}
	return false
}

// parks has a command wait, and reports whether it does. None waits in a transaction,
// or if a key holds something.
func (s *Server) parks(r *request, command []string) bool {
	p, limit, waits := s.waits(backend.Selected(r.peer), command)
	if !waits || r.queues || p.holds(s) {
		return false // it is answered at once
	}

	p.request = r
	// What it does in the end is noted as done by the request that lets it go on. So it counts as
	// writing all its keys now.
	for _, key := range p.keys {
		s.world.uses.add(s.named(key), true)
	}
	if r.Broken() {
		return true // a server gives up what waits for a client that has gone
	}

	if limit > 0 {
		p.until = time.Now().Add(limit)
		if r.client == nobody { // the world may not look while the search itself waits
			time.AfterFunc(limit, func() { s.expire() })
		}
	}
	s.parking.Lock()
	defer s.parking.Unlock()
	s.parked = append(s.parked, p)
	return true
}

// unpark answers the requests that have waited for what is there now, the oldest first.
func (s *Server) unpark() {
	s.parking.Lock()
	defer s.parking.Unlock()

	// Each time from the first again: what was executed may change what the others find.
	for {
		i := slices.IndexFunc(s.parked, func(p *parked) bool {
			return p.Broken() || p.holds(s)
		})
		if i < 0 {
			return
		}

		p := s.parked[i]
		s.parked = slices.Delete(s.parked, i, i+1)
		if !p.Broken() {
			p.answer = nil
			s.world.remembered.Dispatch(s.redis.Server(), p.peer, p.command, true)
			p.answered()
		}
	}
}

// expire answers the requests whose time-out has come, and reports whether there were any.
func (s *Server) expire() (answered bool) {
	s.parking.Lock()
	defer s.parking.Unlock()
	s.parked = slices.DeleteFunc(s.parked, func(p *parked) bool {
		late := !p.until.IsZero() && !time.Now().Before(p.until)
		if late && !p.Broken() {
			p.answer = nil
			p.peer.WriteNull()
			p.answered()
			answered = true
		}
		return late
	})
	return answered
}

func (p *parked) answered() {
	p.peer.Flush()
	does := "*" + p.world.short(p.command) + " ends*"
	reply := strings.Join(wire.Texts(string(p.answer)), " ")
	p.world.draw(verify.Event{Client: p.client, Does: does, Reply: reply}, nil)
}
