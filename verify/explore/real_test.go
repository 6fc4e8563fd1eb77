package explore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/proto"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/verify"
)

// A step of a schedule that was played in memory, and when it came.
type step struct {
	choice
	at   time.Duration
	line string // of the request; empty: there is none
}

// A PlayedSchedule was played in memory, and is to be played on a real server.
type PlayedSchedule struct {
	program Program
	scripts []string // that the server knew
	steps   []step
	diagram verify.Diagram
}

// Played plays the shortest harm of a program within one preemption and one fault, or without any so many schedules
// that a seeded source chooses.
func Played(t *testing.T, p Program, schedules int, of ...Fault) (all []PlayedSchedule, err error) {
	r, err := Search(t, p, Bounds{Preemptions: 1, Faults: 1, Of: of})
	if err != nil {
		return nil, err
	}
	source := rand.New(rand.NewPCG(1, 2))
	chosen := func(_ *world, options []choice) (choice, error) { return options[source.IntN(len(options))], nil }
	if len(r.Found) > 0 {
		_, _, steps, err := ParseToken(r.Found[0].Token)
		if err != nil {
			return nil, err
		}
		schedules, chosen = 1, follow(steps)
	}
	s := newSearch(t, p, Bounds{Of: of, Unreduced: true})
	err = s.guarded(func() error {
		s.Preemptions, s.Faults = 3, 1
		for len(all) < schedules {
			one := PlayedSchedule{program: p, scripts: s.scripts}
			w, harms, err := s.schedule(func(w *world, options []choice) (choice, error) {
				c, err := chosen(w, options)
				is := step{choice: c, at: time.Since(w.begin)}
				if r := w.request(c); r != nil {
					is.line = r.String()
				}
				one.steps = append(one.steps, is)
				return c, err
			})
			if err != nil {
				return err
			}
			one.diagram = w.diagram(harms)
			// Of schedules by chance those are left out that end when somebody may have given up waiting for a lock, after a
			// poll more or less.
			if len(harms) > 0 || one.steps[len(one.steps)-1].at < max(3*Lease, p.Lease*3/2) {
				all = append(all, one)
			}
		}
		return nil
	})
	return all, err
}

// Real plays the schedule on a real server, over a gate like that in memory: it waits for each request, keeps at least
// the gaps of virtual time, and compares each request and reply, and the harm. The error is the first difference.
func (p PlayedSchedule) Real(ctx context.Context, target backend.Target) error {
	dial := func() (*bufio.ReadWriter, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", target.Addr)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { c.Close() })
		rw := bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
		_, err = exchange(rw, [][]string{{"HELLO", "3", "AUTH", "default", target.Password}})
		return rw, err
	}
	w := &world{program: p.program, scripts: slices.Clone(p.scripts), begin: time.Now(), arrived: make(chan struct{}, 1),
		running: nobody}
	server, conns := &Server{world: w}, map[*conn]*bufio.ReadWriter{}
	var failed error
	server.execute = func(r *request) {
		c, commands := r.conn, r.commands
		w.mu.Lock()
		rw, err := conns[c], error(nil)
		if rw == nil {
			rw, err = dial()
			if err == nil {
				conns[c] = rw
			}
		}
		w.mu.Unlock()
		for _, command := range commands {
			if command[0] == "eval" && !slices.Contains(w.scripts, command[1]) {
				w.scripts = append(w.scripts, command[1])
			}
		}
		answer := ""
		if err == nil {
			answer, err = exchange(rw, commands)
		}
		if err != nil {
			failed = errors.Join(failed, err)
		}
		_, _ = replier{c}.Write([]byte(answer))
	}
	server.own = server.accept(nobody)
	w.servers = []*Server{server}
	server.Do("FLUSHALL") // it is this test's own
	server.Do("SCRIPT", "FLUSH")
	w.trial = p.program.Begin(server)
	for _, script := range p.scripts {
		server.Do("SCRIPT", "LOAD", script)
	}
	for i, c := range w.trial.Clients {
		ctx, cancel := context.WithCancel(ctx)
		w.clients = append(w.clients, &client{cancel: cancel})
		go func() {
			told := c.Do(ctx, &Session{world: w, client: i})
			w.mu.Lock()
			defer w.mu.Unlock()
			w.clients[i].told, w.clients[i].ended = told, true
		}()
		if _, err := p.until(w, i, 0, ""); err != nil {
			return err
		}
	}
	for n, s := range p.steps {
		if n > 0 {
			time.Sleep(s.at - p.steps[n-1].at)
		}
		if s.what == timePass {
			w.draw(verify.Event{Client: nobody, Reply: "*time goes on*"}, nil)
			continue
		}
		var r *request
		switch {
		case s.what == arrive:
			r = w.takeLate(s.choice)
		case s.line != "":
			var err error
			r, err = p.until(w, s.n, n, s.line)
			if err != nil {
				return err
			}
		}
		p.do(w, s.choice, r)
	}
	harms := w.finishReal()
	if failed != nil {
		return failed
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
		reply, err := proto.Read(rw.Reader)
		if err != nil {
			return "", err
		}
		answer += reply
	}
	return answer, nil
}

// until waits until a client has a request, and takes the one that is meant, if there is one.
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
func (p PlayedSchedule) do(w *world, c choice, r *request) {
	switch c.what {
	case Pause:
		w.draw(verify.Event{Client: c.n, Does: "*pauses*"}, nil)
	case wake:
		w.draw(verify.Event{Client: c.n, Does: "*wakes after*"}, nil)
	}
	switch {
	case r == nil:
	case c.what == Late:
		w.sendLate(r)
	case c.what == Drop || c.what == cutShort:
		w.lose(r)
	case c.what == Split:
		w.mu.Lock()
		r.waiting = append([]*request{r}, r.waiting...) // which until has taken
		first := r.head(c.at)
		r.waiting = r.waiting[1:]
		w.mu.Unlock()
		w.execute(first, c.what)
	default:
		w.execute(r, c.what)
	}
}

// takeLate takes the late request that a choice means, whose client may be about to give up only now.
func (w *world) takeLate(c choice) *request {
	var theirs []*request
	for _, r := range w.late {
		if r.client == c.n {
			theirs = append(theirs, r)
		}
	}
	r := theirs[c.at]
	w.late = slices.DeleteFunc(w.late, func(late *request) bool { return late == r })
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

// ttls reports whether two replies are what is left of a lease, of which real time has taken some milliseconds.
func ttls(a, b string) bool {
	n, err1 := strconv.Atoi(a)
	m, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && min(n, m) > 50 && max(n, m)-min(n, m) < 100
}

// alike reports whether two requests are the same, but for clocks and for what a waiter tells a script of the time
// that it has left.
func alike(a, b string) bool {
	a, b = clocks.ReplaceAllString(a, "time"), clocks.ReplaceAllString(b, "time")
	a, b = names.ReplaceAllString(a, "connection"), names.ReplaceAllString(b, "connection")
	if !strings.HasPrefix(strings.ToUpper(a), "EVALSHA ") {
		return a == b
	}
	same := func(a, b string) bool { return a == b || ttls(a, b) }
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
		if strings.HasPrefix(want.Does, "*wakes") {
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
		return fmt.Errorf("in memory it ends with %q, and on a real server with %q", p.diagram.End, is.End)
	}
	return nil
}
