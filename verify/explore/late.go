package explore

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
)

// A late request of which the server makes nothing, such as a lock taken that somebody has,
// may come at any time without anybody seeing when: its client has given up, and hears no
// answer. It may come where that is first so. Later it may come only where it changes
// something: to come to nothing there is to come to nothing here, and all that happens in
// between happens in the same way. Whether it comes to nothing is tried on a copy of the
// server, at each point anew.
//
// That is so in programs that are Observed, which locks are searched in. In all others late
// requests come at every point, as when the searches were made that results/explored has.

// arrivals are the choices to let a late request arrive: those of different connections
// arrive in any order. At the end those come, too, that have passed.
func (e *explorer) arrivals(w *world, atEnd bool) (options []search.Choice) {
	for i := range w.clients {
		for at, r := range w.delayed(i) {
			if atEnd || !r.passed || !e.comesToNothing(r) {
				options = append(options, search.Choice{What: search.Arrive, N: i, At: at})
			}
		}
	}
	return options
}

// meetsOwnLate reports whether a late request of the same client conflicts with one, in
// programs that are Observed: it may arrive just before that, which is then not delivered at
// once, though it conflicts with nothing that another client sends.
func (e *explorer) meetsOwnLate(w *world, r *request) bool {
	if !w.program.Observed {
		return false
	}
	return slices.ContainsFunc(w.delayed(r.client), func(late *request) bool {
		unknown := len(e.keysOf(late)) == 0 // it was not executed in any schedule yet
		return unknown || e.keysOf(late).conflict(e.keysOf(r))
	})
}

// passes notes which late requests could have come at a point, and to nothing.
func (e *explorer) passes(w *world, options []search.Choice) {
	if e.bounds.Unreduced || e.everyArrival {
		return
	}
	for _, c := range options {
		if c.What == search.Arrive {
			r := w.request(c)
			r.passed = r.passed || e.comesToNothing(r)
		}
	}
}

// A rehearsal executes requests on copies of servers, to see what they would change.
type rehearsal struct {
	copies map[string]*miniredis.Miniredis // by the scripts that they know, as text
	// What is known: whether a request changes nothing that finds a server like this.
	idle     map[string]bool
	onlyData bool // what is executed are dataCommands so far
	asks     bool // one of them has asked what time it is
}

// mostRehearsed bounds what is remembered.
const mostRehearsed = 20_000

// dataCommands are those that do nothing but answer, and change what is stored. Others tell
// somebody something, wait, draw, or change what a connection is in the middle of.
var dataCommands = strings.Fields(`
	eval evalsha time type exists ttl pttl expire pexpire expireat pexpireat persist del unlink
	get set setnx setex psetex getset getdel getex mget mset append strlen incr incrby decr decrby
	hget hmget hgetall hexists hlen hset hsetnx hincrby hdel
	lindex llen lrange lpush rpush lpop rpop lrem lset ltrim
	scard sismember smembers sadd srem
	zcard zscore zrank zrange zrangebyscore zadd zrem zremrangebyscore`)

// comesToNothing reports whether a late request of an Observed program, whose client has given
// up, would change nothing if it came to its server now. It may say no where nobody knows.
func (e *explorer) comesToNothing(r *request) bool {
	s := r.server
	if !s.world.program.Observed {
		return false
	}
	scripts := s.knows(e.scripts)
	doesMore := func(command []string) bool {
		teaches := command[0] == "eval" && !slices.Contains(scripts, command[1])
		return teaches || !slices.Contains(dataCommands, command[0])
	}
	if s.opaque || r.queues || len(s.watching) > 0 || slices.ContainsFunc(r.commands, doesMore) {
		return false
	}

	s.Do("TIME") // what has expired goes
	database := backend.Selected(r.peer)
	found := fmt.Sprintf("%d %q %q\n%s", database, r.commands, scripts, s.held())
	if idle, known := e.rehearsal.idle[found]; known {
		return idle
	}

	h := &e.rehearsal
	if h.idle == nil || len(h.idle) > mostRehearsed {
		h.idle = map[string]bool{}
		h.copies = map[string]*miniredis.Miniredis{}
	}
	idle := e.rehearse(s, scripts, database, r.commands)
	if !h.asks { // else it depends on the time as well
		h.idle[found] = idle
	}
	return idle
}

// knows are the scripts that a server knows, of which all servers began with some.
func (s *Server) knows(atFirst []string) []string {
	learned := slices.Sorted(maps.Keys(s.scripts))
	if s.forgot {
		return learned
	}
	return slices.Concat(atFirst, learned)
}

// rehearse has a copy of a server execute commands, and reports whether that changes nothing.
func (e *explorer) rehearse(s *Server, scripts []string, database int, commands [][]string) bool {
	h := &e.rehearsal
	text := fmt.Sprintf("%q", scripts)
	m := h.copies[text]
	if m == nil {
		m = backend.Memory(scripts...)
		m.Server().SetPreHook(e.remembered.Hook(m.Server(), h.note))
		h.copies[text] = m
	}
	if !copyTo(m, s) {
		return false
	}

	copied := &Server{redis: m, databases: s.databases}
	before := copied.held()
	peer := server.NewPeer(bufio.NewWriter(io.Discard))
	backend.Select(m, peer, database)
	// Not before Select, which note sees, too.
	h.onlyData = true
	h.asks = false
	for _, command := range commands {
		e.remembered.Dispatch(m.Server(), peer, command, true)
	}

	// If the copy was not exact to begin with, nothing is known: see copyTo.
	return h.onlyData && copied.held() == before && before == s.held()
}

// note notes what a command may do besides, also in a script.
func (h *rehearsal) note(cmd string, _ []string) {
	name := strings.ToLower(cmd)
	h.onlyData = h.onlyData && slices.Contains(dataCommands, name)
	h.asks = h.asks || name == "time"
}

// copyTo makes a server in memory hold what another one does, and for as long. It returns
// false if that holds what cannot be copied. When fields of a hash expire is not copied:
// rehearse finds that what the servers hold differs.
func copyTo(m *miniredis.Miniredis, s *Server) bool {
	m.FlushAll()
	m.ClockTTL(true) // from now on: the last schedule had another clock

	for _, n := range s.used() {
		from := s.redis.DB(n)
		to := m.DB(n)
		for _, key := range from.Keys() {
			if !copyValue(to, from, key) {
				return false
			}
			if ttl := from.TTL(key); ttl != 0 {
				to.SetTTL(key, ttl)
			}
		}
	}
	return true
}

// copyValue copies what a key holds. What it finds is there, and of the kind that it asks for.
// Each kind is one of writeValue, too: by what that writes rehearse sees that a value changes.
func copyValue(to, from *miniredis.RedisDB, key string) bool {
	switch from.Type(key) {
	case "string":
		value, _ := from.Get(key)
		_ = to.Set(key, value)

	case "hash":
		fields, _ := from.HKeys(key)
		for _, field := range fields {
			to.HSet(key, field, from.HGet(key, field))
		}

	case "list":
		values, _ := from.List(key)
		_, _ = to.Push(key, values...)

	case "set":
		members, _ := from.Members(key)
		_, _ = to.SetAdd(key, members...)

	case "zset":
		scores, _ := from.SortedSet(key)
		for member, score := range scores {
			_, _ = to.ZAdd(key, score, member)
		}

	default: // of a stream or a HyperLogLog not all can be read
		return false
	}
	return true
}
