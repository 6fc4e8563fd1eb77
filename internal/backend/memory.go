package backend

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Memory starts a miniredis that knows scripts, without a listener and without
// goroutines: it executes in the goroutine that calls Dispatch of its Server, as a bubble
// of package synctest needs it. Keys expire by the clock.
func Memory(scripts ...string) *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	starts, _ := m.Dial() // the only way to a server without a listener; it does not fail
	starts.Close()
	m.ClockTTL(true)
	for _, script := range scripts {
		m.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"SCRIPT", "LOAD", script})
	}
	return m
}

// Selected is the number of the database that a connection has selected. Miniredis has no
// function that says so, and no command.
func Selected(p *server.Peer) int {
	if p.Ctx == nil {
		return 0 // it has executed nothing yet
	}
	return int(reflect.ValueOf(p.Ctx).Elem().FieldByName("selectedDB").Int())
}

// Select selects a database for a connection, which gets no reply.
func Select(m *miniredis.Miniredis, p *server.Peer, database int) {
	silent := server.NewPeer(bufio.NewWriter(io.Discard))
	silent.Ctx = p.Ctx
	m.Server().Dispatch(silent, []string{"SELECT", strconv.Itoa(database)})
	p.Ctx = silent.Ctx
}

// Dump is what some databases of a server in memory hold, as text. One that holds nothing
// is not in it.
func Dump(m *miniredis.Miniredis, databases []int) string {
	defer m.Select(0)
	var all strings.Builder
	for _, n := range databases {
		m.Select(n)
		if holds := m.Dump(); holds != "" {
			fmt.Fprintf(&all, "database %d\n%s", n, holds)
		}
	}
	return all.String()
}

// Executed is an entry in the log of a server in memory: what a connection sent at once.
type Executed struct {
	Connection any // which one: a WATCH and a MULTI are its own
	Database   int // that it had selected before
	At         time.Time
	Commands   [][]string
}

// Lag makes a server in memory a replica that lags: it executes a log, but for the last
// writes that changed something in one of the databases, which are all that the log uses.
// It returns what is left of the log, in which subscriptions do nothing.
func Lag(m *miniredis.Miniredis, databases []int, log []Executed, without int) []Executed {
	now := time.Now()
	for held := repeat(m, databases, log, now); len(log) > 0 && without > 0; {
		log = log[: len(log)-1 : len(log)-1]
		if holds := repeat(m, databases, log, now); holds != held {
			held = holds
			without--
		}
	}

	// The zero time stands for the clock. Set while ClockTTL is on, it would also let every key
	// age from the year 1.
	m.ClockTTL(false)
	m.SetTime(time.Time{})
	m.ClockTTL(true)
	return log
}

// repeat executes a log from an empty start, each entry at its time. It returns what m
// then holds, and for how long.
func repeat(m *miniredis.Miniredis, databases []int, log []Executed, now time.Time) string {
	m.FlushAll()
	peers := map[any]*server.Peer{}
	for _, e := range log {
		if peers[e.Connection] == nil {
			peers[e.Connection] = server.NewPeer(bufio.NewWriter(io.Discard))
		}
		m.SetTime(e.At)
		// A handshake is not in the log.
		if peer := peers[e.Connection]; Selected(peer) != e.Database {
			Select(m, peer, e.Database)
		}
		for _, command := range e.Commands {
			if !strings.HasSuffix(strings.ToLower(command[0]), "subscribe") {
				m.Server().Dispatch(peers[e.Connection], slices.Clone(command)) // which may change it
			}
		}
	}

	// In this order, or every key expires: to the present, then a look, and
	// then, in Lag, the clock.
	m.SetTime(now)
	m.Exists("")
	holds := Dump(m, databases)
	for _, n := range databases {
		for _, key := range m.DB(n).Keys() {
			holds += m.DB(n).TTL(key).String() + " "
		}
	}
	return holds
}

// Scripts remembers what scripts did, for servers in memory. What a script does next
// follows from its keys, its arguments and the replies to what it has called so far: one
// that has run before with the same replies is not run again, but its commands are
// executed. (Miniredis makes a Lua state for each run, which takes longer than all else.)
type Scripts struct {
	mu      sync.Mutex      // held while a command is executed
	next    map[string]step // by how the script was called, and by each reply so far
	replies []string        // to what the script that runs has called already
	caller  *server.Peer    // of the script that Lua runs; nil: none
	// How the script that runs was called, and the replies so far, as in next; empty: it is not
	// remembered.
	callsSoFar string
	called     int // how many commands Lua has called

	nondeterministic bool // a script may do something else each time
	probing          bool // the command that is executed is no client's
	announcing       bool // it is only shown to who sees commands, and not executed
}

// step is what a script does next: it calls a command, or answers.
type step struct {
	calls   []string // nil: it answers
	answers string
}

const mostSteps = 20_000 // are remembered

// Dispatch executes a command. It remembers a script of a free connection: in no
// transaction, without subscriptions. One that is sent whole is remembered where the server
// has it already: else to execute it makes the server know it.
func (s *Scripts) Dispatch(srv *server.Server, p *server.Peer, command []string, free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole := strings.EqualFold(command[0], "EVAL")
	evaluates := whole || strings.EqualFold(command[0], "EVALSHA")
	if !free || !evaluates || s.nondeterministic || !s.exists(srv, command) {
		srv.Dispatch(p, slices.Clone(command)) // which may change it
		return
	}

	if s.next == nil || len(s.next) > mostSteps {
		s.next = map[string]step{}
	}
	s.callsSoFar, s.replies, s.called = strconv.FormatBool(p.Resp3), nil, 0
	for _, arg := range command {
		s.callsSoFar += " " + strconv.Itoa(len(arg)) + ":" + arg
	}

	next, known := s.next[s.callsSoFar]
	if known && whole { // the keys that it names are seen, as when Lua runs it
		s.announcing = true
		execute(srv, p.Ctx, false, command)
		s.announcing = false
	}
	// What it is known to call is executed without Lua, up to its answer or to replies that it
	// has not had before.
	for ; known && next.calls != nil; next, known = s.next[s.callsSoFar] {
		reply := execute(srv, p.Ctx, false, next.calls)
		s.replies = append(s.replies, reply)
		s.callsSoFar += reply
	}

	if !known { // Lua runs it from its beginning, and is given the replies so far
		s.caller = p
		next.answers = execute(srv, p.Ctx, p.Resp3, command)
		s.caller = nil
		if s.callsSoFar != "" {
			s.next[s.callsSoFar] = next
		}
	}
	p.WriteRaw(next.answers)
}

// exists reports whether the server has the script of an EVALSHA, or of an EVAL.
func (s *Scripts) exists(srv *server.Server, command []string) bool {
	s.probing = true
	defer func() { s.probing = false }()
	sha := slices.Clone(command[1:min(2, len(command))])
	if len(sha) > 0 && strings.EqualFold(command[0], "EVAL") {
		sum := sha1.Sum([]byte(sha[0]))
		sha[0] = hex.EncodeToString(sum[:])
	}
	reply := execute(srv, nil, false, append([]string{"SCRIPT", "EXISTS"}, sha...))
	return reply == "*1\r\n:1\r\n"
}

// Hook returns the hook of a server, which sees each command, a script's too. It
// has ZREM touch its key as well. As Dispatch is under way then, sees must not call it: that
// would wait for s.mu for ever.
func (s *Scripts) Hook(srv *server.Server, sees func(cmd string, args []string)) server.Hook {
	touching := touching(srv)
	return func(p *server.Peer, cmd string, args ...string) bool {
		if s.probing {
			return false
		}
		sees(cmd, args)
		if s.announcing {
			return true
		}

		if cmd == "EVAL" || cmd == "SCRIPT" {
			text := strings.Join(args, " ")
			draws := strings.Contains(text, "math.random") || strings.Contains(text, "os.clock")
			s.nondeterministic = s.nondeterministic || draws
		}

		// A script's commands come with a context of their own. What comes with its caller's
		// context is the EVAL itself.
		if s.caller == nil || p.Ctx == s.caller.Ctx {
			return touching(p, cmd, args...)
		}
		p.WriteRaw(s.reply(srv, p, append([]string{cmd}, args...)))
		return true
	}
}

// reply is the reply to what a script that Lua runs has called.
func (s *Scripts) reply(srv *server.Server, p *server.Peer, command []string) string {
	s.called++
	if s.called <= len(s.replies) {
		return s.replies[s.called-1]
	}

	caller := s.caller
	s.caller = nil // the hook sees the command again, and lets it be executed
	reply := execute(srv, p.Ctx, false, command)
	s.caller = caller

	switch {
	case s.callsSoFar == "":
	case strings.HasPrefix(reply, "-") || command[0] == "SELECT":
		// An error may be one that only scripts get, and a database that a script selects is
		// no longer selected after it: neither is the same when the commands are sent alone.
		s.callsSoFar = ""
	default:
		s.next[s.callsSoFar] = step{calls: command}
		s.callsSoFar += reply
	}
	return reply
}

// execute executes a command for a connection of which the server knows ctx,
// and returns the reply.
func execute(srv *server.Server, ctx any, resp3 bool, command []string) string {
	var reply bytes.Buffer
	p := server.NewPeer(bufio.NewWriterSize(&reply, 128))
	p.Ctx, p.Resp3 = ctx, resp3
	srv.Dispatch(p, slices.Clone(command))
	p.Flush()
	return reply.String()
}
