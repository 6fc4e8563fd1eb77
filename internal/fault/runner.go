package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// Parallel is how many scenarios run at the same time: most of their time is
// waiting for leases.
const Parallel = 8

// How often a scenario is run.
const (
	attempts       = 10 // because the machine was late
	silentAttempts = 3  // because the lock may not say that it waits, which takes longer to find out
)

// A Runner runs scenarios, and holds the servers that none of them harms. It is
// safe for concurrent use.
type Runner struct {
	Market *backend.Server // on which the markets are, but those on a cluster
	folder *process.Folder // in which clients run

	mu    sync.Mutex
	locks map[lock.Need]*servers.Locks // what locks need

	setups  atomic.Int64
	playing sync.RWMutex // held for reading while a cell is played
	end     func() error // Close, once
}

// StartRunner starts a private server for the markets, or else an embedded one.
// The caller closes the runner.
func StartRunner(ctx context.Context) (*Runner, error) {
	server, err := backend.Start(ctx, "", nil, backend.Local{}, backend.Embedded{})
	if err != nil {
		return nil, err
	}
	return newRunner(server)
}

func newRunner(server *backend.Server) (*Runner, error) {
	folder, err := process.MakeFolder("faults")
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	r := &Runner{Market: server, folder: folder, locks: map[lock.Need]*servers.Locks{}}
	r.end = sync.OnceValue(r.close)
	return r, nil
}

// Identify says in a manifest what the scenarios run on: the server, and the
// modules whose code the schemes are.
func (r *Runner) Identify(ctx context.Context, m *findings.FaultManifest, schemes []Scheme) error {
	info, err := r.Market.Info(ctx)
	m.Backend = string(r.Market.Name)
	m.Server = info.Product
	m.ServerVersion = info.Version

	m.Libraries = map[string]string{}
	for path, version := range backend.Modules() {
		isLock := func(s Scheme) bool {
			return s.TakesLock() && strings.HasPrefix(s.Lock.Source, path)
		}
		if path == "github.com/redis/go-redis/v9" || slices.ContainsFunc(schemes, isLock) {
			m.Libraries[path] = version
		}
	}
	return err
}

// Close ends the servers, when every Run has returned. If one goes on, whose context has
// ended, Close waits for a few seconds until the servers that cells have of their own
// are gone, with their folders.
func (r *Runner) Close() error { return r.end() }

func (r *Runner) close() error {
	ended := make(chan struct{})
	go func() {
		r.playing.Lock()
		defer r.playing.Unlock()
		close(ended)
	}()

	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}

	errs := []error{r.Market.Close()}
	r.mu.Lock() // a cell that goes on may be starting others
	defer r.mu.Unlock()
	for _, locks := range r.locks {
		errs = append(errs, locks.Close())
	}
	return errors.Join(append(errs, r.folder.Remove())...)
}

// servers returns the servers that a lock needs. All setups share them, except
// masters: scenarios kill those.
func (r *Runner) servers(ctx context.Context, need lock.Need) (*servers.Locks, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if locks, ok := r.locks[need]; ok {
		return locks, nil
	}
	locks, err := servers.ForLock(ctx, servers.Addresses{}, string(need))
	if err == nil {
		r.locks[need] = locks
	}
	return locks, err
}

type cell struct {
	scenario Scenario
	scheme   Scheme
}

// cross is each scenario with each scheme, scenario by scenario: a result holds
// its findings in this order.
func cross(scenarios []Scenario, schemes []Scheme) []cell {
	var cells []cell
	for _, sc := range scenarios {
		for _, s := range schemes {
			cells = append(cells, cell{scenario: sc, scheme: s})
		}
	}
	return cells
}

// NewResult returns a result of marketsim's version in which each finding is marked as
// stopped, in the order given.
func NewResult(version string, scenarios []Scenario, schemes []Scheme) *findings.FaultTable {
	res := &findings.FaultTable{
		Schema:   findings.FaultSchema,
		Status:   stored.Incomplete, // the command leaves it so if the environment fails
		Findings: []findings.Finding{},
		Manifest: findings.FaultManifest{
			Version: version,
			Go:      runtime.Version(),
			OS:      runtime.GOOS + "/" + runtime.GOARCH,
		},
	}

	// Run overwrites each with what it finds. What it does not come to stays as it is here.
	for _, c := range cross(scenarios, schemes) {
		res.Findings = append(res.Findings, c.unobserved(verify.Stopped, "the run ended before it began"))
	}

	for _, sc := range scenarios {
		res.Scenarios = append(res.Scenarios, findings.ScenarioInfo{
			Name:    sc.Name,
			Title:   sc.Title,
			Promise: sc.Promise,
		})
	}

	for _, s := range schemes {
		res.Subjects = append(res.Subjects, s.Name)
	}
	return res
}

// Run plays what a result, made by NewResult of the same scenarios and schemes, marks
// as stopped. It calls found, which may be nil, with each finding, one at a time.
// When the environment fails or the context ends, Run returns why, and the findings
// that are missing stay stopped.
func (r *Runner) Run(
	ctx context.Context, res *findings.FaultTable, scenarios []Scenario, schemes []Scheme,
	found func(findings.Finding),
) error {
	var missing []cell
	var places []*findings.Finding // of the missing cells
	for i, c := range cross(scenarios, schemes) {
		place := &res.Findings[i]
		if place.Verdict == verify.Stopped {
			missing = append(missing, c)
			places = append(places, place)
		}
	}

	played, err := r.run(ctx, missing, Parallel, found)
	for i, place := range places {
		*place = played[i]
	}
	return err
}

// run plays cells, as many at a time as parallel says, and returns their
// findings in the same order. See Run.
func (r *Runner) run(
	asked context.Context, cells []cell, parallel int, found func(findings.Finding),
) ([]findings.Finding, error) {
	played := make([]findings.Finding, len(cells)) // each set by the goroutine of its cell
	running, ctx := errgroup.WithContext(asked)
	running.SetLimit(parallel)

	var telling sync.Mutex // held while found is called
	for i, c := range cells {
		running.Go(func() (err error) {
			if ctx.Err() != nil {
				played[i] = c.unobserved(verify.Stopped, "the run ended before its turn")
				return ctx.Err()
			}
			r.playing.RLock()
			played[i], err = r.runCell(ctx, c)
			r.playing.RUnlock()
			if err == nil && found != nil {
				telling.Lock()
				defer telling.Unlock()
				found(played[i])
			}
			return err
		})
	}

	if running.Wait() == nil {
		return played, nil // even if the context has ended, too late to stop anything
	}
	return played, context.Cause(ctx) // the first failure: those after it come from being cancelled
}

// unobserved is the finding of a cell in which nothing was seen.
func (c cell) unobserved(v verify.Verdict, why string) findings.Finding {
	why, _, _ = strings.Cut(why, "\n")
	return findings.Finding{Scenario: c.scenario.Name, Subject: c.scheme.Name, Verdict: v, Why: why}
}

// runCell runs a scenario with a scheme. An error means that the environment
// failed, not the scheme.
func (r *Runner) runCell(ctx context.Context, c cell) (findings.Finding, error) {
	if why := c.cannotHappen(); why != "" {
		return c.unobserved(verify.NotApplicable, why), nil
	}

	o, err := r.observe(ctx, c)
	var not notPlayed
	switch {
	case err == nil:
	// It is not this case if something stood still and the context has ended, which may be why: the
	// next one then stops the cell.
	case errors.As(err, &not) && (not.verdict != verify.Unavailable || ctx.Err() == nil):
		return c.unobserved(not.verdict, not.why), nil
	case ctx.Err() != nil: // what failed, failed because of that
		err = c.failed(errors.Join(context.Cause(ctx), err))
		return c.unobserved(verify.Stopped, "the run ended while it was under way"), err
	case errors.Is(err, process.ErrUnavailable), errors.Is(err, errUnclear):
		return c.unobserved(verify.Unavailable, err.Error()), nil
	default: // also if each attempt was late, and nothing was seen to stand still: the run ends
		err = c.failed(err)
		return c.unobserved(verify.Stopped, err.Error()), err
	}

	o.Scenario = c.scenario.Name
	o.Subject = c.scheme.Name
	o.Verdict = verify.VerdictOf(o.Harm, o.KeptOut)
	o.Leases = math.Round(2*o.Leases) / 2
	if !o.KeptOut.Measured() {
		o.Leases = 0
	}

	o.Broken = c.scenario.broken(c.scheme.Promises(), o.Verdict)
	return o, nil
}

func (c cell) failed(err error) error {
	return fmt.Errorf("scenario %s with %s: %w", c.scenario.Name, c.scheme.Name, err)
}

// observe runs a scenario, and again if the machine may have been late. That nobody
// ever gets in must be seen twice.
func (r *Runner) observe(ctx context.Context, c cell) (o observed, err error) {
	var before observed
	for n := range attempts {
		s := &setup{runner: r, ctx: ctx, scheme: c.scheme, ttl: cmp.Or(c.scenario.Lease, TTL)}
		o, err = s.play(c.scenario)

		maySpeakYet := errors.Is(err, errUnclear) && n < silentAttempts-1
		wantsProof := o.KeptOut == verify.NeverIn || o.KeptOut == verify.PassedOver
		switch {
		case errors.Is(err, errLate), maySpeakYet:
		case err == nil && wantsProof && o.KeptOut != before.KeptOut: // seen once
			before = o
			// It was not late, but is played again as if it had been. If this was the last attempt,
			// what was seen only once is no finding: errLate ends the run.
			err = errLate
		default:
			return o, err
		}
	}
	return o, err
}

// play runs a scenario once. Whatever was seen or failed is spoilt where something stood
// still meanwhile for long beside a lease.
func (s *setup) play(sc Scenario) (o observed, err error) {
	watch := watchStillness(lookEvery)
	err = s.attempt(sc.OnCluster, func() {
		o = sc.run(s)
		if o.Harm == verify.NoHarm && !s.faultSeen {
			notApplicable(cmp.Or(s.whyUnseen, "nothing was seen to fail in it"))
		}
	})

	// attempt has ended the clients and the heartbeats: their last reports are in.
	what, stood := s.longestStill(watch.end())
	if stood > s.ttl/4 {
		why := fmt.Sprintf("%s stood still for %s", what, stood.Round(100*time.Millisecond))
		err = errors.Join(errLate, notPlayed{verify.Unavailable, why})
	}
	return o, err
}

// longestStill is what stood still longest: the machine with this process, or a client or
// a server that was stopped alone.
func (s *setup) longestStill(machine time.Duration) (what string, stood time.Duration) {
	what = "the machine"
	stood = machine
	for _, client := range s.clients {
		stood = max(stood, client.stood)
	}
	if s.stood > 2*stood { // where the machine stands still, its servers do too
		what = "a server"
	}
	return what, max(stood, s.stood)
}

const lookEvery = 5 * time.Millisecond // how often a stillness looks at the clock

// A stillness measures for how long the machine stood still while a scenario was played:
// when a virtual machine is paused, or this program with its clients is stopped, leases
// that a scenario counts on run out.
type stillness struct {
	every time.Duration
	over  chan struct{}

	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func watchStillness(every time.Duration) *stillness {
	s := &stillness{every: every, over: make(chan struct{}), last: time.Now()}

	go func() {
		for ticks := time.Tick(every); ; {
			select {
			case <-ticks:
				s.soFar()
			case <-s.over:
				return
			}
		}
	}()

	return s
}

// soFar is the longest time that passed between two looks, of which this is one.
func (s *stillness) soFar() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()

	now := time.Now()
	s.longest = max(s.longest, now.Sub(s.last)-s.every)
	s.last = now
	return s.longest
}

func (s *stillness) end() time.Duration {
	close(s.over)
	return s.soFar()
}
