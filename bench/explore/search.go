package explore

import (
	"errors"
	"fmt"
	"math/rand"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// A Report is what a search found.
type Report struct {
	Program   Program
	Bounds    Bounds
	Schedules int     // of the last bounds that were reached: all different
	Harmful   int     // of these
	Found     []Found // the first of each kind
	Stopped   string  // why it ended before its bounds; empty: it did not

	Preemptions, Faults int // the last bounds
}

// A Found is the shortest schedule to a harm.
type Found struct {
	Harm
	Preemptions, Faults int
	Token               string
	Diagram             Diagram
}

// A search runs a program again and again.
type search struct {
	Report // so far
	t      *testing.T
	learned
	path     []node // of the schedule that is run
	progress atomic.Int64
	silence  time.Duration // how long the search may stand still in real time
}

// A node is a point of the schedule that is run: what could be chosen, and what is.
type node struct {
	options []choice
	at      int
	clock   time.Duration
	pending []string // what each client wants to send
}

// A chooser makes the choice at the next point.
type chooser func(w *world, options []choice) (choice, error)

// Run searches, and fails the test where nothing can be concluded. What it finds is no failure: see Report. Its test must
// not be parallel, because what is random in the process is fixed meanwhile.
func Run(t *testing.T, p Program, b Bounds) *Report {
	t.Helper()
	r, err := Search(t, p, b)
	if err != nil {
		t.Fatalf("explore %s, %s: %v", p.Subject, p.Name, err)
	}
	return r
}

// Search is Run for whom it is no failure where nothing can be concluded: the error says why.
func Search(t *testing.T, p Program, b Bounds) (*Report, error) {
	s := newSearch(t, p, b)
	return &s.Report, s.guarded(s.run)
}

func newSearch(t *testing.T, p Program, b Bounds) *search {
	if b.Schedules == 0 {
		b.Schedules = 1_000_000
	}
	if b.Of == nil {
		b.Of = Faults()
	}
	b.Of = slices.DeleteFunc(slices.Clone(b.Of), func(f Fault) bool { return (f == Empty || f == Behind) && !p.Apart })
	return &search{t: t, Report: Report{Program: p, Bounds: b}, learned: learned{uses: map[asked]keys{}}, silence: 20 * time.Second}
}

// guarded runs the first schedule once, for the scripts that clients send, and so that a program that does nothing is told;
// and then what runs more. It returns an error where that stands still: a bubble in which a goroutine waits for a real
// socket, or spins, does not end.
func (s *search) guarded(run func() error) error {
	s.t.Setenv("GODEBUG", "randseednop=0")
	backend.QuietLogs()                // the search breaks connections all the time
	_, _ = net.LookupHost("localhost") // what package net makes at its first look must not belong to a bubble
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines of one bubble hand over to each other
	done := make(chan error, 1)
	go func() {
		err := errors.New("a schedule has failed the test")
		defer func() { done <- err }() // also where it ends this goroutine
		w, _, failed := s.schedule(func(_ *world, options []choice) (choice, error) { return options[0], nil })
		if s.scripts = w.scripts; failed == nil && w.trial.Plain != nil {
			failed = w.trial.Plain()
		}
		if failed == nil {
			failed = run()
		}
		err = failed
	}()
	for last := int64(-1); s.progress.Load() != last; {
		last = s.progress.Load()
		select {
		case err := <-done:
			return err
		case <-time.After(s.silence):
		}
	}
	return fmt.Errorf("nothing has happened for %s of real time: a client computes without end, or has connected by itself and "+
		"not by Session.Dial, so that nothing can be concluded", s.silence)
}

// run raises the bounds until a harm is found, or the last ones are reached.
func (s *search) run() error {
	b := s.Bounds
	if b.Preemptions < 0 || b.Faults < 0 || b.Schedules < 0 {
		return fmt.Errorf("bounds of %d preemptions, %d faults and %d schedules: none can be below 0",
			b.Preemptions, b.Faults, b.Schedules)
	}
	for faults := range b.Faults + 1 {
		for preemptions := range b.Preemptions + 1 {
			s.Preemptions, s.Faults = preemptions, faults
			for again := true; again; again = s.sum() && s.Stopped == "" {
				if err := s.pass(); err != nil {
					return err
				}
			}
			if s.Stopped != "" || len(s.Found) > 0 && !b.Goes {
				return nil
			}
		}
	}
	return nil
}

// Replay plays the schedule of a token that a report of the same program has printed. An error says at which step the token
// asks for what cannot be chosen.
func Replay(t *testing.T, p Program, text string) (d Diagram, err error) {
	t.Helper()
	subject, name, steps, err := ParseToken(text)
	if err == nil && (subject != p.Subject || name != p.Name) {
		err = fmt.Errorf("the token is of %s, %s, and this is %s, %s", subject, name, p.Subject, p.Name)
	}
	if err != nil {
		return d, err
	}
	s := newSearch(t, p, Bounds{Unreduced: true})
	err = s.guarded(func() error {
		s.Preemptions, s.Faults = len(steps), len(steps)
		w, harms, err := s.schedule(follow(steps))
		if err == nil && len(w.steps) < len(steps) {
			err = fmt.Errorf("step %d of the token did not come: the clients had ended", len(w.steps)+1)
		}
		if err == nil {
			d = w.diagram(harms)
		}
		return err
	})
	return d, err
}

// follow chooses the steps of a token.
func follow(steps []string) chooser {
	return func(w *world, options []choice) (choice, error) {
		n := len(w.steps)
		i := slices.IndexFunc(options, func(c choice) bool { return n < len(steps) && c.String() == steps[n] })
		if i < 0 {
			return choice{}, fmt.Errorf("step %d of the token cannot be chosen: there is %v", n+1, options)
		}
		return options[i], nil
	}
}

// pass goes through all schedules within the bounds of this pass.
func (s *search) pass() error {
	s.Schedules, s.Harmful, s.path = 0, 0, s.path[:0]
	for {
		w, harms, err := s.schedule(s.choose)
		if err != nil {
			return err
		}
		s.Schedules++
		if len(harms) > 0 {
			s.Harmful++
		}
		for _, h := range harms {
			if !slices.ContainsFunc(s.Found, func(f Found) bool { return f.Kind == h.Kind }) {
				s.Found = append(s.Found, Found{h, w.preemptions, w.faults, written(s.Program, w.steps), w.diagram([]Harm{h})})
			}
		}
		if !s.backtrack() {
			return nil
		}
		if s.Schedules >= s.Bounds.Schedules {
			s.Stopped = fmt.Sprintf("the limit of %d schedules", s.Bounds.Schedules)
			return nil
		}
	}
}

// backtrack makes the next choice at the last point that has one left. It reports false where none is.
func (s *search) backtrack() bool {
	for len(s.path) > 0 {
		if last := &s.path[len(s.path)-1]; last.at+1 < len(last.options) {
			last.at++
			return true
		}
		s.path = s.path[:len(s.path)-1]
	}
	return false
}

// choose is the choice at the next point: of the path, as far as that goes, and then the first. Where the path has been
// before, the point must be the same.
func (s *search) choose(w *world, options []choice) (choice, error) {
	depth, clock, pending := len(w.steps), time.Since(w.begin), w.pending()
	if depth == len(s.path) {
		s.path = append(s.path, node{options, 0, clock, pending})
	}
	n := &s.path[depth]
	if n.clock != clock || !slices.Equal(n.options, options) || !slices.Equal(n.pending, pending) {
		return choice{}, fmt.Errorf("the same choices do not lead to the same point, so that nothing can be concluded: "+
			"step %d came at %s, where clients sent %q and the choices were %v, and now at %s with %q and %v",
			depth+1, n.clock, n.pending, n.options, clock, pending, options)
	}
	return n.options[n.at], nil
}

// schedule runs one schedule: choose is asked at each point.
func (s *search) schedule(choose chooser) (w *world, harms []Harm, err error) {
	w = &world{}
	defer func() {
		if stuck := recover(); stuck != nil {
			err = fmt.Errorf("a client left goroutines behind that never end, or never returns itself: %v", stuck)
		}
	}()
	synctest.Test(s.t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		//lint:ignore SA1019 libraries draw their delays and tokens from the source of the process
		rand.Seed(1)
		w = newWorld(t, s.Program, s.scripts)
		err = s.play(w, choose)
		harms = w.finish()
		for _, server := range w.servers {
			if server.lacks != "" && err == nil {
				err = fmt.Errorf("the server in memory does not know the command %s, so that nothing can be concluded", server.lacks)
			}
		}
	})
	return w, harms, err
}

// play makes choices until the clients have ended or died, or nothing happens any more.
func (s *search) play(w *world, choose chooser) error {
	for {
		s.progress.Add(1)
		options := s.options(w)
		if len(options) == 0 {
			if w.finished() || !w.wait(w.sleepUntil(1)) {
				return nil
			}
			continue
		}
		c, err := choose(w, options)
		if err != nil {
			return err
		}
		if len(w.steps) == mostSteps {
			return fmt.Errorf("a schedule has not ended after %d steps: clients wait too often, or for too long; the last are %q",
				mostSteps, w.pending())
		}
		r := w.request(c)
		if r == nil || c.what == Delay {
			w.do(c, r)
			continue
		}
		r.at, r.server.log = time.Now(), append(r.server.log, r)
		s.observe(r)
		w.do(c, r)
		r.server.uses = nil
	}
}
