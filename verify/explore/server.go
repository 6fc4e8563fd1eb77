package explore

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/wire"
)

// A Server is one in memory: a miniredis without a listener and without goroutines, which
// executes in the goroutine that asks. Begin and Judge fill it and look at it by Do, or
// with a client of their own by Connect.
type Server struct {
	redis  *miniredis.Miniredis
	world  *world
	number int        // its place in world.servers; 0: the market's; from 1: one of the locks'
	own    *conn      // over which the search itself asks
	log    []executed // a replica is made of it

	// Of its state, see state.go:
	databases map[int]bool    // that commands have named: no other one holds anything
	scripts   map[string]bool // that it has learned in this schedule
	forgot    bool            // it has none that earlier schedules have sent
	watching  []*conn         // with a WATCH
	opaque    bool            // it holds what cannot be read from it

	// Guards parked, also from the timers of the search's own requests. It is locked before the
	// world's mu, but in state, where all wait.
	parking sync.Mutex
	parked  []*parked // in the order in which they came

	deliver func(*request) // has miniredis execute it: run, or what a test puts in its place
}

// newServer makes a server of a miniredis that may have served another
// schedule: to start one takes long.
func newServer(w *world, m *miniredis.Miniredis, number int) *Server {
	s := &Server{
		world: w, redis: m, number: number,
		databases: map[int]bool{0: true}, scripts: map[string]bool{},
	}
	s.deliver = s.run
	m.FlushAll() // which leaves the scripts
	m.Ctx, m.CtxCancel = context.WithCancel(context.Background())
	m.Seed(1)
	m.ClockTTL(true)
	s.own = s.accept(nobody)
	m.Server().SetPreHook(w.remembered.Hook(m.Server(), s.note))
	return s
}

func (s *Server) accept(client int) *conn {
	name := s.world.nameConn(client)
	c := &conn{LocalConn: wire.NewLocal(), world: s.world, client: client, name: name}
	c.Sent = c.sent
	c.Closed = c.closed
	s.serve(c)
	return c
}

// nameConn is the name of a client's next connection, which does not depend on what other
// clients have opened meanwhile.
func (w *world) nameConn(client int) string {
	if client == nobody {
		w.own++
		return strconv.Itoa(w.own)
	}
	return strconv.Itoa((1+client)*connNames + len(w.clients[client].conns))
}

// Do executes a command for the search itself, and returns the reply as it is sent.
func (s *Server) Do(command ...any) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = fmt.Sprint(word)
	}
	s.own.answer = nil
	s.deliver(&request{conn: s.own, commands: [][]string{words}})
	return string(s.own.answer)
}

// Connect opens a connection of the search itself, as Session.Connect does for a
// client. Its requests are not held.
func (s *Server) Connect(ctx context.Context, network, addr string) (net.Conn, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.serverAt(addr).accept(nobody), nil
}

// run has miniredis execute a request, and answers the commands that miniredis does not know. A
// client's command has its name in lower case, as package wire reads it; one of Do is as it was
// typed, and nothing is learned of it in capitals: Do is for commands that change no more than
// data.
func (s *Server) run(r *request) {
	for _, command := range r.commands {
		refused := command[0] == "exec" && !r.queues // an error, which ends no WATCH
		r.queues = queuesAfter(command, r.queues)
		if !refused { // before it is executed: an EXEC watches nothing when it writes
			s.learn(r, command)
		}

		if command[0] == "client" && s.connections(r, command) || s.parks(r, command) {
			continue
		}
		s.dispatchWatched(command, func() {
			s.world.remembered.Dispatch(s.redis.Server(), r.peer, command, !r.queues && !r.subscribed)
		})
	}

	r.peer.Flush()
	s.unpark()
}

// learn notes what a command says of its connection, of scripts, and of keys that note
// does not see.
func (s *Server) learn(r *request, command []string) {
	takesNothing := slices.Contains([]string{"unwatch", "discard", "exec"}, command[0])
	if len(command) == 1 && !takesNothing { // an error
		return
	}

	switch command[0] {
	case "subscribe", "psubscribe":
		r.subscribed = true
		if strings.HasPrefix(command[1], "__key") {
			s.world.unsupported = strings.Join(command, " ") // it does not notify of keys
		}

	case "watch":
		s.watches(r.conn, command[1:])
	case "unwatch", "discard":
		s.unwatches(r.conn)

	case "eval", "eval_ro":
		s.knowScript(command[1])
	case "script":
		if strings.EqualFold(command[1], "load") {
			s.knowScript(command[len(command)-1])
		}

	case "exec": // it reads what is watched, and writes what was queued by earlier requests
		for _, key := range r.watch.keys {
			s.world.uses.add(s.named(key), false)
		}
		s.unwatches(r.conn)
		if len(r.commands) == 1 {
			s.world.uses.add(everything, true)
		}
	}
}

// queuesAfter reports whether commands are queued for EXEC after this one.
func queuesAfter(command []string, before bool) bool {
	return command[0] == "multi" || before && command[0] != "exec" && command[0] != "discard"
}

// connections answers CLIENT INFO and CLIENT KILL ID, which miniredis does not know;
// false: it is another command.
func (s *Server) connections(r *request, command []string) bool {
	if len(command) == 1 { // an error
		return false
	}

	switch strings.ToLower(command[1]) {
	case "info":
		r.peer.WriteBulk("id=" + r.name + " addr=memory:" + r.name + " laddr=memory:0\n")
	case "kill":
		if len(command) < 4 { // not by ID: the server in memory answers with an error
			return false
		}
		s.world.uses.add(everything, true)
		r.peer.WriteInt(s.world.disconnect(s, command[3]))
	default:
		return false
	}
	return true
}

// disconnect has a server end a connection, and loses what is late on it. It returns 0 if
// the server has none, else 1.
func (w *world) disconnect(server *Server, name string) int {
	all := w.conns()
	i := slices.IndexFunc(all, func(c *conn) bool {
		return c.server == server && c.name == name
	})
	if i < 0 {
		return 0
	}

	found := all[i]
	before := len(w.late)
	w.late = slices.DeleteFunc(w.late, func(r *request) bool {
		return r.conn == found
	})
	hadLate := len(w.late) < before

	// Its client has closed it, and nothing was on its way behind which the server has yet to learn
	// that: for the server it has ended.
	if found.Broken() && !hadLate {
		return 0
	}
	found.cut()
	return 1
}

// note notes the keys of a command before it is executed, also in a script, or that it is
// not known. One of a transaction is noted when it is queued, and not at EXEC: see
// learn. Scripts.Dispatch holds its lock while it calls note, which must not call Do.
func (s *Server) note(cmd string, args []string) {
	upper := strings.ToUpper(cmd)
	waits := wire.Blocks(cmd) && !slices.Contains(parkable, upper)
	if waits || !s.redis.Server().IsRegisteredCommand(cmd) {
		s.world.unsupported = cmd
	}

	for _, number := range databasesIn(upper, args) {
		n, _ := strconv.Atoi(number) // what is no number is an error, and names none
		s.databases[n] = true
	}
	s.opaque = s.opaque || slices.Contains(opaque, upper)

	keys, known := wire.KeysOf(cmd, args)
	if !known {
		keys = []string{everything}
	}
	if slices.Contains([]string{"TIME", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}, upper) {
		s.world.uses.add(theTime, false)
	}
	writes := !s.redis.Server().IsReadOnlyCommand(cmd) && upper != "WATCH"
	for _, key := range keys {
		s.world.uses.add(s.named(key), writes)
		if writes {
			s.touches(key, cmd, args)
		}
	}
}

// databasesIn are the numbers of the databases that a command names.
func databasesIn(upper string, args []string) []string {
	switch upper {
	case "SELECT", "SWAPDB":
		return args
	case "MOVE":
		return args[min(1, len(args)):]
	case "COPY": // source destination DB number
		isDB := func(arg string) bool { return strings.EqualFold(arg, "DB") }
		options := args[min(2, len(args)):]
		if i := slices.IndexFunc(options, isDB); i >= 0 && i+1 < len(options) {
			return options[i+1 : i+2]
		}
	}
	return nil
}

// used are the databases that commands have named, sorted.
func (s *Server) used() []int { return slices.Sorted(maps.Keys(s.databases)) }

// named is a key or a request with the number of its server: what happens at
// two servers never conflicts.
func (s *Server) named(text string) string {
	if s.number == 0 || text == everything {
		return text
	}
	return "server " + strconv.Itoa(s.number) + ": " + text
}

// executed is an entry in a server's log.
type executed struct {
	backend.Executed
	from    *conn
	changes bool // what the server holds, or is part of a transaction
}

// executeLogged executes a request, and notes it in the log: of a server that a replica which
// lags may replace, also whether it has changed something, for states. Server 0 is never
// replaced.
func (s *Server) executeLogged(r *request) {
	// Before it is executed, which may select another database.
	s.log = append(s.log, executed{
		Executed: backend.Executed{
			Connection: r.conn,
			Database:   backend.Selected(r.peer),
			At:         time.Now(),
			Commands:   r.commands,
		},
		from: r.conn,
	})

	if !s.world.mayLag || s.number == 0 {
		s.world.observe(r)
		return
	}

	// A state leaves out entries without changes, see sayLog; Lag asks nothing of this. What is
	// queued stays in it: an EXEC that comes alone does not name that.
	before := s.held()
	s.world.observe(r)
	s.log[len(s.log)-1].changes = r.queues || s.held() != before
}

// A conn is a client's connection to a server: its requests wait until the world, whose
// mu guards it, delivers them.
type conn struct {
	*wire.LocalConn
	world  *world
	client int    // nobody: the search itself, whose requests do not wait
	name   string // of CLIENT INFO
	server *Server
	peer   *server.Peer // the server's end

	waiting    []*request
	answer     []byte // to the last request, whether it is received or not
	deaf       bool   // nothing is received any more
	held       bool   // a late request is on its way
	watch      watch
	subscribed bool
	queues     bool // between MULTI and EXEC
}
