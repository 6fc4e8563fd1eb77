package explore

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
)

// nobody is the client of the search's own requests.
const nobody = -1

// A world is one schedule, in a bubble of package synctest. One goroutine chooses and
// does, while all others wait.
type world struct {
	program    Program
	trial      *Trial
	scripts    []string // that were seen so far, in the first schedule too
	remembered *backend.Scripts
	servers    []*Server // the market's, and then those of the locks, if they have any
	addrs      []string  // of the latter
	clients    []*client

	// What has happened so far.
	begin               time.Time
	steps               []search.Choice
	preemptions, faults int        // of these
	events              []noted    // for the diagram
	running             int        // the client that was chosen last; nobody: all have waited since
	last                time.Time  // when a fault happened, or ended
	late                []*request // delayed, in the order in which they were sent
	polling             polling
	repeats             int    // how often a client has asked without a choice
	uses                keys   // of the request that is executed
	unsupported         string // a command that the servers do not know
	chance              *chance
	blurred             bool  // which client has drawn what is not known: see noteDraws
	mayLag              bool  // a replica may replace the server of the locks
	cancels             bool  // calls may be cancelled
	learned             []int // how much each client had learned when the step began
	timePassed          bool  // in this step
	own                 int   // connections of the search

	realTime int64 // in nanoseconds, when the schedule began; see label
	// comeToRest waits until all clients wait, without letting time pass, and reports
	// whether one waits for a mutex.
	comeToRest func() bool
	mutexes    bool // whether one does is asked
	blocked    bool // one did at the last rest
	hadMutexes bool // one did at some rest

	seeing  sync.Mutex    // held while a request is executed and noted; locked before mu
	mu      sync.Mutex    // guards what goroutines of clients see, too
	arrived chan struct{} // holds one value when a request came, or a client ended
	over    bool          // a client goes on without end: see Session.Connect
}

type client struct {
	conns       []*conn // all that it has opened: none is taken out, nameConn counts them
	cancel      context.CancelFunc
	outcome     string // what Client.Do has returned
	ended, died bool
	paused      time.Time // since when; zero: it is not
	later       bool      // it is paused because it begins later: see search.Later
	pauses      int       // so far
	readsClock  bool
	clock       time.Duration  // that its clock is ahead; below 0: behind
	calls       []*callContext // that are open
	sends       bool           // what waits on a connection that it closes now is on its way
	observed    observation
	history     history
}

func (c *client) alive() bool { return !c.ended && !c.died }

// newWorld makes servers of what was started, and starts the clients one by one.
// Each waits at its first request.
func newWorld(e *explorer) *world {
	w := &world{
		program: e.program, scripts: slices.Clone(e.scripts), addrs: slices.Clone(e.addrs),
		realTime: e.realTime, remembered: &e.remembered, begin: time.Now(), running: nobody,
		arrived: make(chan struct{}, 1), comeToRest: e.comeToRest, mutexes: e.mutexes,
		chance:  &e.chance,
		cancels: e.bounds.Faults > 0 && slices.Contains(e.bounds.Kinds, Cancel),
		mayLag:  e.bounds.Faults > 0 && slices.Contains(e.bounds.Kinds, Behind) && len(e.addrs) == 1,
	}
	for n, redis := range e.redis {
		w.servers = append(w.servers, newServer(w, redis, n))
	}
	w.chance.tokens.beginSchedule()
	w.beginStep(ofServer, 0, 0, false) // Begin may draw
	w.trial = w.program.Begin(w.servers[0])

	e.running.Store(w) // not before Begin: await may call leftBehind, which reads w.trial
	for i := range w.trial.Clients {
		w.start(i)
		w.settle()
	}
	w.last = time.Now()
	return w
}

// start has a client do what it does, in a goroutine with its label, by which goroutines and
// callingClient find those that the client starts, too.
func (w *world) start(i int) {
	c := w.trial.Clients[i]
	ctx, cancel := context.WithCancel(context.Background())
	observed := observation{expires: map[int]time.Time{}}
	// Until another step begins w.learned lacks this client, so that noteDraws is not called:
	// what it draws in this step is the same in all schedules.
	w.beginStep(ofClient, i, 0, false)
	w.clients = append(w.clients, &client{cancel: cancel, observed: observed})

	go pprof.Do(ctx, pprof.Labels(clientLabel, w.label(c.Name)), func(ctx context.Context) {
		w.chance.tokens.knows(c.Name)
		outcome := c.Do(ctx, &Session{world: w, client: i})

		w.mu.Lock()
		defer w.mu.Unlock()
		w.clients[i].outcome = outcome
		w.clients[i].ended = true
		wire.Signal(w.arrived)
	})
}

// hasEnded reports whether no client does anything any more, and nothing is late.
func (w *world) hasEnded() bool {
	return len(w.late) == 0 && !slices.ContainsFunc(w.clients, (*client).alive)
}

// serverAt is the server at an address, which with Masters may be a new one; else the
// market's. The world is locked.
func (w *world) serverAt(addr string) *Server {
	n := 1 + slices.Index(w.addrs, addr)
	if n == 0 && w.program.Masters && addr != "" {
		w.addrs = append(w.addrs, addr)
		w.program.LockServers = len(w.addrs)
		n = len(w.servers)
		s := newServer(w, backend.Memory(w.scripts...), n)
		for _, script := range w.scripts {
			s.scripts[script] = true
		}
		w.servers = append(w.servers, s)
	}
	return w.servers[n]
}

// lockServer is a server of the locks, from 0: the market's, unless they have their own.
func (w *world) lockServer(n int) *Server { return w.servers[min(1+n, len(w.servers)-1)] }

func (w *world) conns() (all []*conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		all = append(all, c.conns...)
	}
	return all
}

// settle lets every client come to a request of its own, a timer, or its end. No time
// passes. None comes to rest while a goroutine waits for a mutex that another one of its
// client holds over a request, which comes next then.
func (w *world) settle() {
	if w.blocked || w.mutexes && w.mayHold() {
		w.blocked = w.comeToRest()
		w.hadMutexes = w.hadMutexes || w.blocked
	}
	if w.blocked {
		return
	}
	w.rest(func() {})
}

// mayHold reports whether a client that may have a mutex waits with a request. Clients may
// still run.
func (w *world) mayHold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.clients {
		if (w.running == nobody || w.running == i) && w.next(i) != nil {
			return true
		}
	}
	return false
}

// rest waits for something, and then until every client waits. Only then the
// world looks at what is theirs.
func (w *world) rest(wait func()) {
	w.mu.Lock()
	//lint:ignore SA2001 what the world has looked at so far was before what they do now
	w.mu.Unlock()
	wait()
	synctest.Wait()
}

// nexts are the next requests of a client that the server may get, one of each
// of its connections: they have no order. What follows a late request on its
// connection waits behind it.
func (w *world) nexts(i int) (all []*request) {
	c := w.clients[i]
	if !c.paused.IsZero() || c.died {
		return nil
	}
	for _, conn := range c.conns {
		if len(conn.waiting) > 0 && !conn.held {
			all = append(all, conn.waiting[0])
		}
	}
	return all
}

// next is the first of nexts, over the connection that was opened first; nil:
// there is none.
func (w *world) next(i int) *request {
	if all := w.nexts(i); len(all) > 0 {
		return all[0]
	}
	return nil
}

// pending is what each client wants to send.
func (w *world) pending() []string {
	all := make([]string, len(w.clients))
	for i := range all {
		if r := w.next(i); r != nil {
			all[i] = r.String()
		}
	}
	return all
}

// delayed are the late requests of a client that has given up waiting for the reply,
// each on a connection of its own.
func (w *world) delayed(i int) (all []*request) {
	for _, r := range w.late {
		if r.client == i && !r.gaveUp.IsZero() {
			all = append(all, r)
		}
	}
	return all
}

// anyDelayed reports whether there are such requests.
func (w *world) anyDelayed() bool {
	return slices.ContainsFunc(w.late, func(r *request) bool {
		return !r.gaveUp.IsZero()
	})
}

// finish ends all clients, since no goroutine may stay in the bubble, and has
// the end judged.
func (w *world) finish() (found []verify.Violation) {
	// Before end, which kills them: who is alive now has not ended by itself.
	for i, c := range w.clients {
		if c.alive() {
			text := w.trial.Clients[i].Name + " does not end within " + patience.String()
			found = append(found, verify.Violation{Harm: verify.DoesNotEnd, Text: text})
		}
	}
	for i := range w.clients {
		w.end(i)
	}

	found = append(found, w.trial.Judge(w.servers[0])...)
	w.close()
	return found
}

// leave ends all clients of a schedule whose end need not be judged.
func (w *world) leave() {
	for i := range w.clients {
		w.end(i)
	}
	w.close()
}

// close frees what the trial holds.
func (w *world) close() {
	if w.trial.Close != nil {
		w.trial.Close()
	}
	time.Sleep(3 * time.Second) // in which go-redis sees that a client was closed to which it redials
}

// end kills a client, and waits until it has returned. If it does not, no client may
// connect from then on.
func (w *world) end(i int) {
	w.kill(i)
	for w.settle(); !w.clients[i].ended && !w.over; {
		w.rest(func() {
			if w.arrives(patience) {
				return
			}
			w.mu.Lock()
			w.over = true
			w.mu.Unlock()
		})
	}
}

// clientLabel is the label of the goroutines of a client, those that they start included.
const clientLabel = "marketsim-client"

// label is a client of this schedule, and of no other: goroutines of one that was given up
// stay, while another may have the address of its world.
func (w *world) label(client string) string {
	return fmt.Sprintf("%s"+labelOf+"%#x", client, w.realTime)
}

// labelOf stands between a client's name and its schedule.
const labelOf = " of "

// frames are those of a stack, after their addresses.
var frames = regexp.MustCompile(`(?m)^#\t0x[^\t\n]*(\t.*\n?)`)

// goroutines are those of a client that run or wait, by their stacks. It reads pprof's text:
// groups of one stack and one set of labels each, with a blank line between them.
func (w *world) goroutines(client string) map[string]int {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // to memory

	_, groups, _ := strings.Cut(profile.String(), "\n") // after the title
	found := map[string]int{}
	for group := range strings.SplitSeq(groups, "\n\n") {
		if !strings.Contains(group, w.label(client)) {
			continue
		}
		stack := ""
		for _, frame := range frames.FindAllStringSubmatch(group, -1) {
			stack += frame[1]
		}
		count, _, _ := strings.Cut(group, " ")
		n, _ := strconv.Atoi(count) // as pprof writes it: "3 @ 0x..."
		found[stack] += n
	}
	return found
}

// leftBehind names a client of which a goroutine still runs, with the goroutine's
// stack. Empty: there is none, or no client has begun: w may be nil, or without a trial.
func (w *world) leftBehind() string {
	if w == nil || w.trial == nil {
		return ""
	}
	for _, c := range w.trial.Clients {
		for stack := range w.goroutines(c.Name) {
			return c.Name + ", in\n" + stack
		}
	}
	return ""
}
