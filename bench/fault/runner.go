package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/embedded"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Parallel is how many scenarios run at the same time: most of their time is waiting for leases.
const Parallel = 8

// attempts bounds how often a scenario is run because the machine was late, silentAttempts how often because the lock may
// not say that it waits, which takes longer to find out.
const (
	attempts       = 10
	silentAttempts = 3
)

// A Runner runs scenarios. It holds the servers that setups share: those that no scenario harms. It is safe for
// concurrent use.
type Runner struct {
	redis  *backend.Server
	folder string

	mu      sync.Mutex
	locks   map[lock.Need]*servers.Locks // what locks need
	cluster *servers.Cluster             // whose slots are moved; nil: none was needed
	setups  int
}

// StartRunner starts a private server for the markets: redis-server or valkey-server, or an embedded one where there is
// neither. The caller closes the runner.
func StartRunner(ctx context.Context) (*Runner, error) {
	server, err := backend.Start(ctx, "", nil, backend.Local{}, embedded.Starter{})
	if err != nil {
		return nil, err
	}
	return newRunner(server)
}

// newRunner returns a runner whose markets live on a server, which it closes.
func newRunner(server *backend.Server) (*Runner, error) {
	folder, err := os.MkdirTemp("", "marketsim-faults-")
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &Runner{redis: server, folder: folder, locks: map[lock.Need]*servers.Locks{}}, nil
}

// Describe says in a line where the markets live.
func (r *Runner) Describe() string { return r.redis.Describe() }

// Identify says in a manifest what the scenarios run on.
func (r *Runner) Identify(ctx context.Context, m *result.FaultsManifest) error {
	info, err := r.redis.Info(ctx)
	m.Backend, m.Server, m.ServerVersion = string(r.redis.Name), info.Product, info.Version
	return err
}

// Close ends the servers.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.redis.Close(), os.RemoveAll(r.folder)}
	for _, locks := range r.locks {
		errs = append(errs, locks.Close())
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Close())
	}
	return errors.Join(errs...)
}

// prefix returns a new setup's prefix.
func (r *Runner) prefix() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setups++
	return fmt.Sprintf("marketsim:{faults-%d}:", r.setups)
}

// servers returns the servers that a lock needs. All setups share them, except masters: scenarios kill those.
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

// A cell is a scenario with a scheme.
type cell struct {
	scenario Scenario
	scheme   Scheme
}

// cross is each scenario with each scheme.
func cross(scenarios []Scenario, schemes []Scheme) []cell {
	var cells []cell
	for _, sc := range scenarios {
		for _, s := range schemes {
			cells = append(cells, cell{sc, s})
		}
	}
	return cells
}

// Run runs each scenario with each scheme and returns the findings, scenario by scenario, in the order given. It
// calls found with each finding as it is made, one at a time; found may be nil. When the environment fails or the
// context ends, Run returns why, and the findings that are missing then are marked as stopped.
func (r *Runner) Run(ctx context.Context, scenarios []Scenario, schemes []Scheme, found func(result.Finding),
) ([]result.Finding, error) {
	return r.runCells(ctx, cross(scenarios, schemes), Parallel, found)
}

// runCells is Run for some cells, of which so many run at the same time.
func (r *Runner) runCells(asked context.Context, cells []cell, parallel int, found func(result.Finding),
) ([]result.Finding, error) {
	ctx, fail := context.WithCancelCause(asked)
	defer fail(nil)
	findings := make([]result.Finding, len(cells))
	for i, c := range cells {
		findings[i] = c.stopped("the run ended before its turn")
	}
	next := make(chan int)
	var reporting sync.Mutex
	var running sync.WaitGroup
	for range parallel {
		running.Go(func() {
			for i := range next {
				f, err := r.runCell(ctx, cells[i])
				if err != nil {
					why := "the run ended while it was under way"
					if ctx.Err() == nil {
						why, _, _ = strings.Cut(err.Error(), "\n")
					}
					findings[i] = cells[i].stopped(why)
					fail(err) // the first one counts: those after it come from being cancelled
					continue
				}
				findings[i] = f
				if found != nil {
					reporting.Lock()
					found(f)
					reporting.Unlock()
				}
			}
		})
	}
	for i := 0; i < len(cells) && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	running.Wait()
	if !slices.ContainsFunc(findings, func(f result.Finding) bool { return f.Verdict == result.Stopped }) {
		return findings, nil // it ended too late to stop anything
	}
	return findings, context.Cause(ctx)
}

// stopped marks the cell as not found, because the run ended.
func (c cell) stopped(why string) result.Finding {
	return result.Finding{Scenario: c.scenario.Name, Subject: c.scheme.Name, Verdict: result.Stopped, Why: why}
}

// runCell runs a scenario with a scheme. An error means that the environment failed, not the scheme.
func (r *Runner) runCell(ctx context.Context, c cell) (result.Finding, error) {
	f := result.Finding{Scenario: c.scenario.Name, Subject: c.scheme.Name, Verdict: result.NotApplicable}
	if f.Why = c.cannotHappen(); f.Why != "" {
		return f, nil
	}
	o, err := r.runEverywhere(ctx, c)
	var why inapplicable
	switch {
	case err == nil:
	case errors.As(err, &why):
		f.Why = why.Error()
		return f, nil
	case errors.Is(err, errSilent):
		f.Verdict, f.Why = result.Unavailable, errSilent.Error()
		return f, nil
	case ctx.Err() != nil: // what failed, failed because of that
		return result.Finding{}, c.failed(errors.Join(context.Cause(ctx), err))
	case errors.Is(err, backend.ErrUnavailable):
		f.Verdict = result.Unavailable
		f.Why, _, _ = strings.Cut(err.Error(), "\n")
		return f, nil
	default:
		return result.Finding{}, c.failed(err)
	}
	f.Verdict, f.Harm, f.KeptOut, f.Why = result.VerdictOf(o.harm, o.kept), o.harm, o.kept, o.why
	f.Gone, f.SecondsWithoutService = o.gone, math.Round(10*o.unserved.Seconds())/10
	f.Broken = c.scenario.broken(c.scheme, f.Verdict)
	return f, nil
}

func (c cell) failed(err error) error {
	return fmt.Errorf("scenario %s with %s: %w", c.scenario.Name, c.scheme.Name, err)
}

// runEverywhere runs a scenario with a scheme that calls steps once, and with another once for each command of its
// purchase, at which a client is held. The worst counts.
func (r *Runner) runEverywhere(ctx context.Context, c cell) (worst observed, err error) {
	if c.scheme.Steps {
		return r.runAt(ctx, c, 0)
	}
	commands, err := r.countCommands(ctx, c.scheme)
	for nth := 1; nth <= commands && err == nil; nth++ {
		var o observed
		if o, err = r.runAt(ctx, c, nth); err == nil && nth > 1 {
			o = worst.worst(o)
		}
		worst = o
	}
	return worst, err
}

// countCommands makes a purchase with a scheme that calls no steps, and counts its commands.
func (r *Runner) countCommands(ctx context.Context, scheme Scheme) (n int, err error) {
	s := newSetup(ctx, r, scheme, TTL)
	err = s.attempt(func() {
		a := s.client("A")
		for _, item := range []int{0, 1} { // the first may load scripts
			a.proxy.Record()
			a.buy(s.item(item))
			a.ends()
		}
		if n = len(a.proxy.Commands()); n == 0 || n >= offered {
			s.fail(fmt.Errorf("the rehearsal of a purchase took %d commands", n))
		}
	})
	return n, errors.Join(err, s.close())
}

// runAt runs a scenario, again if the machine was late or may have been: that nobody ever gets in, or must wait for a
// dead waiter, is said if it was seen twice. nth is the command at which a client is held whose scheme calls no steps.
func (r *Runner) runAt(ctx context.Context, c cell, nth int) (o observed, err error) {
	var before observed
	for n := range attempts {
		s := newSetup(ctx, r, c.scheme, cmp.Or(c.scenario.Lease, TTL))
		s.nth, s.place = nth, c.scenario.place
		err = s.attempt(func() { o = c.scenario.run(s) })
		err = errors.Join(err, s.close())
		switch {
		case errors.Is(err, errLate):
			continue
		case errors.Is(err, errSilent) && n < silentAttempts-1:
			continue
		case err == nil && (o.kept == result.NeverIn || o.kept == result.PassedOver) && o != before:
			before, err = o, errLate
			continue
		}
		return o, err
	}
	return o, err
}

// NewResult returns a result of marketsim's version in which nothing is found yet: all findings are marked as stopped.
func NewResult(version string, scenarios []Scenario, schemes []Scheme) *result.Faults {
	res := &result.Faults{
		Schema: result.FaultsSchema, Status: result.Incomplete, Findings: []result.Finding{},
		Manifest: result.FaultsManifest{
			Version: version, Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		},
	}
	for _, c := range cross(scenarios, schemes) {
		res.Findings = append(res.Findings, c.stopped("the run ended before it began"))
	}
	for _, sc := range scenarios {
		res.Scenarios = append(res.Scenarios, result.Scenario{Name: sc.Name, Title: sc.Title, Promise: sc.Promise})
	}
	for _, s := range schemes {
		res.Subjects = append(res.Subjects, s.Name)
	}
	return res
}
