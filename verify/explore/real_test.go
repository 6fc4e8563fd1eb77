package explore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/verify"
)

// A step of a schedule that was played in memory, and when it came.
type step struct {
	search.Choice
	at   time.Duration
	line string // of the request; empty: there is none
}

// A PlayedSchedule was played in memory, and is to be played on a real server.
type PlayedSchedule struct {
	program Program
	scripts []string // that the server knew
	addrs   []string // of the servers of the locks
	steps   []step
	diagram verify.Diagram
}

// PlayedOf plays the shortest harm of a program within one preemption and one fault or,
// if there is none, this many schedules that a seeded source chooses.
func PlayedOf(
	t *testing.T, p Program, schedules int, of ...Fault) (all []PlayedSchedule, err error) {

	r, err := Search(t.Context(), p, Bounds{Preemptions: 1, Faults: 1, Kinds: of})
	if err != nil {
		return nil, err
	}

	source := rand.New(rand.NewPCG(1, 2))
	var chosen search.Chooser = func(p search.ChoicePoint) (search.Choice, error) {
		// While a request stays late, another client waits until its own time-out, which
		// real time may shift.
		options := slices.DeleteFunc(p.Options, func(c search.Choice) bool {
			return c.What == search.TimePass && c.Preempt
		})
		return options[source.IntN(len(options))], nil
	}

	if len(r.Found) > 0 {
		_, _, steps, err := search.ParseToken(r.Found[0].Token)
		if err != nil {
			return nil, err
		}
		schedules = 1
		chosen = search.Follow(steps)
	}

	e := newExplorer(p, Bounds{Kinds: of, Unreduced: true})
	err = e.afterFirst(func() error {
		e.bounds.Preemptions = 3
		e.bounds.Faults = 1
		for len(all) < schedules {
			one, harms, err := e.played(chosen)
			if err != nil {
				return err
			}

			// A random schedule is left out if it lasts so long that a client may
			// have given up waiting for a lock: in real time it may do so one poll
			// earlier or later.
			if harms || one.steps[len(one.steps)-1].at < max(3*Lease, p.Lease*3/2) {
				all = append(all, one)
			}
		}
		return nil
	})
	return all, err
}

// PlayedToken plays the schedule of a token.
func PlayedToken(t *testing.T, p Program, text string) (one PlayedSchedule, err error) {
	_, _, steps, err := search.ParseToken(text)
	if err != nil {
		return one, err
	}
	e := newExplorer(p, Bounds{Unreduced: true})
	return one, e.afterFirst(func() (err error) {
		e.bounds.Preemptions, e.bounds.Faults = len(steps), len(steps)
		one, _, err = e.played(search.Follow(steps))
		return err
	})
}

// played plays one schedule, and reports whether it did harm.
func (e *explorer) played(chosen search.Chooser) (one PlayedSchedule, harm bool, err error) {
	one = PlayedSchedule{program: e.program, scripts: e.scripts, addrs: e.addrs}

	e.onRepeat = func(w *world, r *request) { // which a real server has to be asked as well
		is := step{
			Choice: search.Choice{What: search.Deliver, N: r.client},
			at:     time.Since(w.begin),
			line:   r.String(),
		}
		one.steps = append(one.steps, is)
		w.draw(verify.Event{}, r)
	}

	defer func() { e.onRepeat = nil }()

	w, harms, err := e.schedule(func(p search.ChoicePoint) (search.Choice, error) {
		w := e.running.Load()
		c, err := chosen(p)
		is := step{Choice: c, at: time.Since(w.begin)}
		if r := w.request(c); r != nil {
			is.line = r.String()
		}
		one.steps = append(one.steps, is)
		return c, err
	})

	if err == nil {
		one.diagram = w.diagram(harms)
	}
	return one, len(harms) > 0, err
}

// A gate lets requests through to real servers.
type gate struct {
	world *world
	conns map[*conn]*bufio.ReadWriter
	err   error
}

// server is a real one, behind the gate, and emptied: it is this test's own.
func (g *gate) server(
	ctx context.Context, target redisconn.Target, number int, scripts []string) *Server {

	s := &Server{
		world:     g.world,
		number:    number,
		databases: map[int]bool{0: true},
		scripts:   map[string]bool{},
	}
	s.deliver = func(r *request) { g.execute(ctx, target, r) }
	s.own = s.accept(nobody)
	s.Do("FLUSHALL")
	s.Do("SCRIPT", "FLUSH")
	for _, script := range scripts {
		s.Do("SCRIPT", "LOAD", script)
	}
	return s
}

// connection is that of a client to its server, which is made when it is first used.
func (g *gate) connection(
	ctx context.Context, target redisconn.Target, of *conn) (*bufio.ReadWriter, error) {

	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	if g.conns[of] != nil {
		return g.conns[of], nil
	}

	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", target.Addr)
	if err != nil {
		return nil, err
	}

	context.AfterFunc(ctx, func() { c.Close() })
	rw := bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
	g.conns[of] = rw

	_, err = exchange(rw, [][]string{{"HELLO", "3", "AUTH", "default", target.Password}})
	return rw, err
}

func (g *gate) execute(ctx context.Context, target redisconn.Target, r *request) {
	for _, command := range r.commands {
		if command[0] == "eval" {
			r.server.knowScript(command[1])
		}
	}

	answer := ""
	rw, err := g.connection(ctx, target, r.conn)
	if err == nil {
		answer, err = exchange(rw, r.commands)
	}
	if err != nil {
		g.err = errors.Join(g.err, err)
	}

	_, _ = replier{r.conn}.Write([]byte(answer))
}

// Real plays the schedule on real servers, the market's first, over a gate like that in
// memory: it waits for each request, keeps at least the gaps of virtual time, and
// compares each request and reply, and the harm. The error is the first difference.
func (p PlayedSchedule) Real(ctx context.Context, targets ...redisconn.Target) error {
	w := &world{
		program: p.program,
		scripts: slices.Clone(p.scripts),
		begin:   time.Now(),
		arrived: make(chan struct{}, 1),
		running: nobody,
		addrs:   p.addrs,
	}
	g := &gate{world: w, conns: map[*conn]*bufio.ReadWriter{}}
	for number, target := range targets {
		w.servers = append(w.servers, g.server(ctx, target, number, p.scripts))
	}

	w.trial = p.program.Begin(w.servers[0])
	for i, c := range w.trial.Clients {
		ctx, cancel := context.WithCancel(ctx)
		w.clients = append(w.clients, &client{cancel: cancel})
		go func() {
			outcome := c.Do(ctx, &Session{world: w, client: i})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.clients[i].outcome = outcome
			w.clients[i].ended = true
		}()

		if _, err := p.until(w, i, 0, ""); err != nil {
			return err
		}
	}

	for n, s := range p.steps {
		if n > 0 {
			time.Sleep(s.at - p.steps[n-1].at)
		}
		if s.What == search.TimePass {
			w.draw(verify.Event{Client: nobody, Reply: "*time goes on*"}, nil)
			continue
		}

		var r *request
		switch {
		case s.What == search.Arrive:
			r = w.takeLate(s.Choice)
		case s.line != "":
			var err error
			r, err = p.until(w, s.N, n, s.line)
			if err != nil {
				return err
			}
		}
		p.do(w, s.Choice, r)
	}

	harms := w.finishReal()
	if g.err != nil {
		return g.err
	}
	return p.compare(w.diagram(harms))
}

// exchange sends commands, and returns the replies as they are sent.
func exchange(rw *bufio.ReadWriter, commands [][]string) (answer string, err error) {
	for _, command := range commands {
		if err := proto.Write(rw, command); err != nil {
			return "", err
		}
	}

	if err := rw.Flush(); err != nil {
		return "", err
	}

	for range commands {
		reply, err := readReply(rw.Reader)
		if err != nil {
			return "", err
		}
		answer += reply
	}
	return answer, nil
}

// readReply reads one as it is sent: also a text with its kind, such as CLIENT
// INFO, which proto does not know.
func readReply(in *bufio.Reader) (string, error) {
	if kind, _ := in.Peek(1); string(kind) != "=" {
		return proto.Read(in)
	}

	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}

	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return "", err
	}

	text := make([]byte, n+2)
	_, err = io.ReadFull(in, text)
	return line + string(text), err
}

// until waits until a client has a request, and takes the one that is meant, if
// there is one.
func (p PlayedSchedule) until(w *world, client, n int, line string) (*request, error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond / 4) {
		w.mu.Lock()
		var found *request
		for _, c := range w.clients[client].conns {
			if len(c.waiting) > 0 && (line == "" || alike(c.waiting[0].String(), line)) {
				found = c.waiting[0]
				if line != "" {
					c.waiting = c.waiting[1:]
				}
				break
			}
		}
		w.mu.Unlock()

		if found != nil {
			return found, nil
		}

		if time.Now().After(deadline) {
			return nil, fmt.Errorf("step %d did not come: %s sends no %q\n%s",
				n+1, w.trial.Clients[client].Name, line, p.diagram)
		}
	}
}

// do is world.do without a bubble.
func (p PlayedSchedule) do(w *world, c search.Choice, r *request) {
	switch Fault(c.What) {
	case Pause:
		w.draw(verify.Event{Client: c.N, Does: "*pauses*"}, nil)
	case search.Wake:
		w.draw(verify.Event{Client: c.N, Does: "*wakes after*"}, nil)
	case Empty:
		w.drawServer(w.lockServer(c.N), "*starts anew, empty*")
		w.lockServer(c.N).Do("FLUSHALL")
		w.lockServer(c.N).Do("SCRIPT", "FLUSH")
	case ServerClock:
		w.drawServer(w.lockServer(c.N), "*its clock steps ahead by %s*", 2*p.program.Lease)
		ahead := (2 * p.program.Lease).Milliseconds()
		w.lockServer(c.N).Do("EVAL", expireEarly, "0", strconv.FormatInt(ahead, 10))
	}

	switch {
	case r == nil:
	case c.What == string(Late):
		w.sendLate(c, r)
	case c.What == string(Drop) || c.What == search.CutShort:
		w.lose(c, r)
	case c.What == string(Split):
		w.mu.Lock()
		r.waiting = append([]*request{r}, r.waiting...) // which until has taken
		first := r.head(c.At % splitConn)
		r.waiting = r.waiting[1:]
		w.mu.Unlock()
		w.execute(first, Fault(c.What))
	default:
		w.execute(r, Fault(c.What))
	}
}

// expireEarly has the keys of a server expire as if its clock had stepped ahead
// by some milliseconds.
const expireEarly = `
for _, key in ipairs(redis.call('KEYS', '*')) do
	redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1])
end`

// takeLate takes the late request that a choice means, whose client may be
// about to give up only now.
func (w *world) takeLate(c search.Choice) *request {
	var theirs []*request
	for _, r := range w.late {
		if r.client == c.N {
			theirs = append(theirs, r)
		}
	}
	r := theirs[c.At]
	w.late = slices.DeleteFunc(w.late, func(late *request) bool {
		return late == r
	})
	return r
}

// finishReal waits until all have ended, and judges.
func (w *world) finishReal() []verify.Violation {
	for i := range w.clients {
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			w.mu.Lock()
			ended := w.clients[i].ended
			w.mu.Unlock()
			if ended {
				break
			}
		}
	}
	return w.trial.Judge(w.servers[0])
}

// ttls reports whether two replies are what is left of a lease, of which real time
// has taken some milliseconds.
func ttls(a, b string) bool {
	n, err1 := strconv.Atoi(a)
	m, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && min(n, m) > 50 && max(n, m)-min(n, m) < 100
}

// alike reports whether two requests are the same, but for clocks, connections, and the
// time that a waiter has left, which it tells a script.
func alike(a, b string) bool {
	a, b = clocks.ReplaceAllString(a, "time"), clocks.ReplaceAllString(b, "time")
	a, b = names.ReplaceAllString(a, "connection"), names.ReplaceAllString(b, "connection")
	if !strings.HasPrefix(strings.ToUpper(a), "EVALSHA ") {
		return a == b
	}
	same := func(a, b string) bool {
		return a == b || ttls(a, b)
	}
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), same)
}

// clocks are times by a client's clock, in milliseconds.
var clocks = regexp.MustCompile(`\b\d{12,13}\b`)

// compare returns the first difference.
func (p PlayedSchedule) compare(is verify.Diagram) error {
	for i, want := range p.diagram.Events {
		if i == len(is.Events) {
			return fmt.Errorf("on a real server the schedule ends before row %d", i+1)
		}

		got := is.Events[i]
		if strings.HasPrefix(want.Does, "*wakes") || strings.HasPrefix(want.Does, "*begins only now") {
			want.Does = "*wakes after*"
		}

		want.Reply = clocks.ReplaceAllString(want.Reply, "time")
		got.Reply = clocks.ReplaceAllString(got.Reply, "time")
		sameReply := want.Reply == got.Reply || ttls(want.Reply, got.Reply)
		if want.Client != got.Client || !alike(want.Does, got.Does) || !sameReply {
			return fmt.Errorf("in memory row %d is %q with the reply %q, and on a real server %q with %q",
				i+1, want.Does, want.Reply, got.Does, got.Reply)
		}
	}

	if !slices.Equal(p.diagram.End, is.End) {
		return fmt.Errorf("in memory it ends with %q, and on a real server with %q",
			p.diagram.End, is.End)
	}
	return nil
}
