package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/backend/embedded"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// A Report is what a search found.
type Report struct {
	Program             Program
	Bounds              Bounds
	Preemptions, Faults int     // the last bounds that were reached
	Schedules           int     // of these bounds: all different
	Harmful             int     // of these
	Found               []Found // the first of each harm
	Stopped             string  // why it ended before its bounds; empty: it did not
	// Points counts the points of all schedules, and Lost those at which a choice
	// was given up, because the choices before it did not lead there again: there
	// is chance in the clients.
	Points, Lost int
}

// A Found is the shortest schedule to a harm.
type Found struct {
	verify.Violation
	Preemptions, Faults int
	Struck              []Fault // the faults that happened, in order
	Token               string
	Diagram             verify.Diagram
}

// String is the report for a terminal: each harm with its schedule and its token, and
// then the bounds of the search.
func (r *Report) String() (text string) {
	of := r.Program.Subject + ", " + r.Program.Name
	for _, f := range r.Found {
		text += fmt.Sprintf("%s: harm with %s and %s\n\n%s\nIts token: %s\n\n",
			of, english.Plural(f.Preemptions, "preemption", ""), english.Plural(f.Faults, "fault", ""), f.Diagram, f.Token)
	}
	return text + of + ": " + r.Bound()
}

// Bound is the sentence that belongs to each "nothing was found": the bounds,
// and what is taken for granted.
func (r *Report) Bound() string {
	found, of, lost, stopped := "nothing in", "", "", ""
	switch {
	case len(r.Found) > 0:
		found = fmt.Sprintf("harm in %d of", r.Harmful)
	case r.Preemptions == 0 && r.Stopped == "":
		found = "not searched, because without a preemption no client comes between two requests of another: nothing in"
	}
	if r.Faults > 0 {
		of = " of these kinds (" + strings.Trim(fmt.Sprint(r.Bounds.Kinds), "[]") + ")"
	}
	if r.Lost > 0 {
		lost = fmt.Sprintf(", except below %d points of %d, to which the clients did not come again", r.Lost, r.Points)
	}
	if r.Stopped != "" {
		stopped = "; stopped by " + r.Stopped
	}
	late := 2 * max(r.Program.Lease, r.Program.Reply)
	return fmt.Sprintf("%s %s, within %s and %s%s%s; "+
		"a late request comes within %s after its client has given up; %s%s",
		found, english.Plural(r.Schedules, "schedule", ""), english.Plural(r.Preemptions, "preemption", ""),
		english.Plural(r.Faults, "fault", ""), of, lost, late, findings.SearchAssumptions, stopped)
}

type search struct {
	Report // so far
	ctx    context.Context
	learned
	addrs []string // of the servers of the locks
	// What schedules begin with; nil: the last one has taught them a script.
	redis      []*miniredis.Miniredis
	remembered embedded.Scripts
	// Is told of each request that is sent again without a choice; may be nil.
	again    func(*world, *request)
	progress atomic.Int64
	running  atomic.Pointer[world] // the schedule that is run
	silence  time.Duration         // how long the search may stand still in real time
	// For mutexes: goroutines from before, or of schedules that were given up.
	waiting int
	pools   pools
}

// Search goes through the schedules of a program within bounds, or until the context
// ends. What it finds is no failure: see Report. An error says why nothing can be
// concluded. It works in any process, not only in tests, but nothing else may run at the
// same time: sources of chance that the whole process shares are fixed meanwhile.
func Search(ctx context.Context, p Program, b Bounds) (*Report, error) {
	s := newSearch(ctx, p, b)
	return &s.Report, s.guarded(s.run)
}

func newSearch(ctx context.Context, p Program, b Bounds) *search {
	b.Schedules = cmp.Or(b.Schedules, 1_000_000)
	p.Lease, p.Reply = cmp.Or(p.Lease, Lease), cmp.Or(p.Reply, Reply)
	if b.Kinds == nil {
		b.Kinds = Faults()
	}
	s := &search{
		Report:  Report{Program: p, Bounds: b},
		ctx:     ctx,
		learned: learned{uses: map[asked]keys{}},
		silence: 20 * time.Second,
	}
	// in a network for documentation: nothing answers a client that connects by itself
	for n := range p.LockServers {
		s.addrs = append(s.addrs, fmt.Sprintf("192.0.2.%d:6379", n+1))
	}
	return s
}

// meets takes over the scripts that the first schedule has sent, and the
// servers to which it has connected.
func (s *search) meets(w *world) {
	s.scripts, s.redis = w.scripts, nil
	s.addrs = slices.Sorted(slices.Values(w.addrs)) // a client may have gone through a map of them
	s.Program.LockServers = len(s.addrs)
	// which cannot happen
	s.Bounds.Kinds = slices.DeleteFunc(slices.Clone(s.Bounds.Kinds), func(f Fault) bool {
		return f == Empty && len(s.addrs) == 0 || f == Behind && len(s.addrs) != 1 || f == ServerClock && len(s.addrs) < 2
	})
}

// guarded plays the first schedule, to learn which scripts clients send and whether the
// program does anything, and then calls run.
func (s *search) guarded(run func() error) error {
	redisconn.QuietLogs() // the search breaks connections all the time
	defer withoutChance()()
	defer withoutNames()()
	defer s.pools.watch()()
	defer debug.SetGCPercent(debug.SetGCPercent(1600))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines of one bubble hand over to each other
	s.waiting, _ = waitForMutexes()                 // some may be of an earlier search
	w, _, err := s.schedule(func(options []Choice, _ []string) (Choice, error) { return options[0], nil })
	if err != nil {
		return err
	}
	s.meets(w)
	if w.trial.Vacuous != nil {
		err = w.trial.Vacuous()
	}
	if err != nil {
		return err
	}
	return run()
}

func (s *search) run() error {
	return (&driver{Report: &s.Report, ctx: s.ctx, worlds: []World{s}, relearn: s.sum}).run()
}

// Play implements World.
func (s *search) Play(choose Chooser) (Played, error) {
	w, harms, err := s.schedule(choose)
	return Played{Steps: w.steps, Harms: harms, Diagram: w.diagram}, err
}

// Replay plays the schedule of a token that a report of the same program has
// printed. The harm that it returns is empty if the schedule does none. An error
// says which step cannot be chosen.
func Replay(ctx context.Context, p Program, text string) (f Found, err error) {
	subject, name, steps, err := ParseToken(text)
	if err == nil && (subject != p.Subject || name != p.Name) {
		err = fmt.Errorf("the token is of %s, %s, and this is %s, %s", subject, name, p.Subject, p.Name)
	}
	if err != nil {
		return f, err
	}
	s := newSearch(ctx, p, Bounds{Unreduced: true, Preemptions: len(steps), Faults: len(steps)})
	err = s.guarded(func() error {
		f, err = Follows(p, s, steps)
		f.Token = text
		return err
	})
	return f, err
}

// goThrough makes choices until the clients have ended or died, or nothing
// happens any more.
func (s *search) goThrough(w *world, choose Chooser) error {
	for {
		if s.progress.Add(1) < 0 {
			return errors.New("the search has been given up meanwhile")
		}
		w.ages()
		options := s.options(w)
		if len(options) == 0 {
			if len(w.late) == 0 && !slices.ContainsFunc(w.clients, (*client).alive) || !w.wait(1) {
				return nil
			}
			continue
		}
		if len(w.steps) == mostSteps || w.again == mostAgain {
			return fmt.Errorf("a schedule has not ended after %d steps: clients wait too often, or for too long; "+
				"the last are %q", len(w.steps)+w.again, w.pending())
		}
		if s.asksAgain(w, options) {
			s.askAgain(w, w.next(options[0].N))
			continue
		}
		c, err := choose(options, w.pending())
		if err != nil {
			return err
		}
		r := w.request(c)
		if r != nil && c.What == Split {
			r = r.head(c.At)
		}
		if r != nil && !slices.Contains([]Fault{Late, Drop, CutShort}, c.What) {
			r.server.log = append(r.server.log, embedded.Executed{Connection: r.conn, At: time.Now(), Commands: r.commands})
			w.uses = s.of(r)
		}
		w.do(c, r)
	}
}
