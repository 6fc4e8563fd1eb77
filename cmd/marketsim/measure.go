package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/process"
	protocol "github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/view"
)

// measure measures a plan on servers of the user's or its own, stores the result
// after each row, and draws it.
func (p *program) measure(ctx context.Context, plan *plan) (err error) {
	// Before p.interruptible, whose goroutine prints: passwords has no lock.
	p.passwords.add(plan.server.passwords...)
	if err := plan.prepare(); err != nil {
		return err
	}
	ctx, stop := p.interruptible(ctx)
	defer stop()

	// From here on something may run, which is ended however this returns.
	p.progress("getting the servers ready")
	on := new(running)
	// Deferred after stop, and so done before it: signals are still handled while servers end.
	defer func() { err = errors.Join(err, p.started.Close()) }()
	err = on.start(ctx, p, plan)
	if err == nil {
		err = on.ready(ctx, p, plan)
	}
	if err != nil {
		return interruptedOr(ctx, plan.rights().explain(ctx, err))
	}

	m, err := manifest(ctx, p, plan, on)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	run := &runs.Run{
		Schema:   runs.Schema,
		Status:   stored.Incomplete,
		Manifest: m,
		Rows:     []result.Row{},
	}
	p.passwords.hideIn(run)
	wrong, failure := p.rounds(ctx, plan, on, run)
	failure = plan.rights().explain(ctx, failure)
	if len(plan.config.Reproduces) > 0 {
		run.Claims = reference.Judge(run)
	}

	// A run that was interrupted is stored and drawn, too; only a whole one is held to conditions.
	finished := plan.out.finish(p, run)
	p.showNextSteps(plan, on, run)
	if failure == nil && run.Status == stored.Complete {
		failure = load.NothingBought(run.Rows, plan.options.Duration)
		if plan.sloFails {
			wrong = errors.Join(wrong, missed(run))
		}
		broken, undecided := p.checkThresholds(run, plan.strict)
		wrong = errors.Join(wrong, broken)
		failure = errors.Join(undecided, failure)
	}
	return errors.Join(wrong, failure, finished)
}

// showNextSteps prints what to type after a run.
func (p *program) showNextSteps(plan *plan, on *running, run *runs.Run) {
	if plan.options.Keep && len(run.Rows) > 0 {
		fmt.Fprintf(p.stderr, "the market is kept; remove it with: %s\n", plan.server.clean(plan.config.Prefix))
	}
	if dir := plan.options.History; dir != "" && len(run.Rows) > 0 {
		p.notice("history recorded; judge it with: marketsim check %s", process.ShellLine(dir))
	}
	// Only reproduce has claims. It does not take --server, so that its one server has no name.
	if len(run.Claims) > 0 && on.market("").Name == backend.OriginEmbedded {
		p.notice("for Redis's own numbers and all claims, install a Redis and run this again: " +
			"apt-get install redis-server, or brew install redis")
	}
}

const mostLate = 0.01 // of the orders at a rate: with more the SLO is missed

// missed is an error for each point that misses the SLO.
func missed(run *runs.Run) (err error) {
	late := runs.MetricByName("late_share")
	for _, g := range run.Groups() {
		if share := compare.Median(g.Values(late)).Center; share > mostLate {
			err = errors.Join(err, fmt.Errorf("%w: %s misses its SLO: %s of its orders are late", errViolation, g.Name(),
				view.Number(share, runs.Percent)))
		}
	}
	return err
}

// rounds measures until a row fails or the user stops it, and stores the result after
// each. wrong is what audits found; failure is why it ended early, and nil if all rows are
// complete and stored.
func (p *program) rounds(ctx context.Context, plan *plan, on *running, run *runs.Run) (wrong, failure error) {
	all := plan.config.Trials * len(plan.config.Points)
	began := time.Now()
	complete := 0
	ended := func(status stored.Status, err error) (error, error) {
		run.Status = status
		return wrong, incomplete(err, "%d of %s complete; the report holds what was measured", complete,
			english.Plural(all, "row", ""))
	}

	for trial := 1; trial <= plan.config.Trials; trial++ {
		for _, i := range plan.order(trial) {
			if ctx.Err() != nil {
				return ended(stored.Interrupted, nil)
			}
			underway := &liveRow{
				number:   len(run.Rows) + 1,
				all:      all,
				name:     plan.config.Points[i].Name(),
				duration: plan.options.Duration,
				rest:     plan.restAfter(len(run.Rows), all, began),
			}
			row, err := p.row(ctx, plan, on, underway, i, trial)
			if errors.Is(err, protocol.ErrSilent) { // the time that the program stood still is no measurement
				wrong = errors.Join(wrong, violated(row, plan.config.Trials))
				return ended(stored.Incomplete, err)
			}
			run.Rows = append(run.Rows, row)
			p.passwords.hideIn(run) // before the row is stored: an error's text in it may hold one

			done := len(run.Rows)
			// The time that markets take to be stocked and audited is in it.
			left := time.Since(began) / time.Duration(done) * time.Duration(all-done)
			p.advance(done, all, left.Round(time.Second), view.Line(row))
			wrong = errors.Join(wrong, violated(row, plan.config.Trials))
			switch {
			case err != nil:
				return ended(stored.Incomplete, err)
			case row.Status == stored.Interrupted:
				return ended(stored.Interrupted, nil)
			}

			complete++
			// The run's status is still Incomplete, which is what a report reads after a kill.
			if err := plan.out.save(run); err != nil {
				return ended(stored.Incomplete, err)
			}
		}
	}
	run.Status = stored.Complete
	return wrong, nil
}

// row measures a point once. Meanwhile a terminal shows it, and its intervals are printed if
// that was asked for. The row of a sweep, which has many, is stored without its course and
// its histogram: with these the file would be three times as large.
func (p *program) row(
	ctx context.Context, plan *plan, on *running, underway *liveRow, point, trial int,
) (result.Row, error) {
	o := on.optionsOf(plan, plan.config.Points[point])
	o.History = plan.historyOf(point, trial)
	o.Seed += uint64(trial - 1) // prices are drawn again, and are the same for all rows of a round
	o.Trial = trial

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Why an interval could not be printed. It belongs to the goroutine of Progress until
	// measureRow has returned.
	var unprinted error
	o.Progress = func(soFar result.Row) {
		underway.update(soFar)
		if plan.out.format != asJSONL || unprinted != nil {
			return
		}
		// The one that has just ended, or at the start of the load none.
		unprinted = view.Intervals(p.stdout, "", soFar, max(0, len(soFar.Course)-1))
		if errors.Is(unprinted, syscall.EPIPE) { // the reader of stdout has gone: no server has failed
			unprinted = errUnread
		}
		if unprinted != nil { // the row ends as at an interrupt
			stop()
		}
	}
	if !p.follows() && plan.out.format != asJSONL { // nobody looks
		o.Progress = nil
	}

	unfollow := p.follow(underway)
	row, err := p.measureRow(ctx, plan.config.Points[point], o)
	unfollow()
	if len(plan.config.Axes) > 0 {
		row.Course, row.CourseP50MS, row.CourseP99MS = nil, nil, nil
		row.Histogram = ""
	}
	return row, errors.Join(err, unprinted)
}

// violated is an error for a row whose audit found something wrong.
func violated(row result.Row, trials int) error {
	if !row.Audit.Done || row.Audit.OK {
		return nil
	}
	where := row.Name()
	if trials > 1 {
		where += fmt.Sprintf(" in round %d", row.Trial)
	}
	return fmt.Errorf("%w: the audit of %s found %s and %s wrong", errViolation, where,
		english.Plural(int(row.Audit.ItemProblems), "item", ""), english.Plural(int(row.Audit.MoneyProblems), "account", ""))
}

// order is the order of the rows in a round. It is drawn from the seed, so that no
// strategy is favoured by changes in the course of a run, or by what the row before it
// leaves behind. A single round is in the order that was asked for.
func (p *plan) order(round int) []int {
	order := rand.New(rand.NewPCG(p.options.Seed, uint64(round))).Perm(len(p.config.Points))
	if p.config.Trials == 1 {
		slices.Sort(order)
	}
	return order
}

// incomplete says what a command had done when it failed or, if failure is nil,
// was interrupted.
func incomplete(failure error, done string, args ...any) error {
	if failure != nil {
		return fmt.Errorf("incomplete: %s\n%w", fmt.Sprintf(done, args...), failure)
	}
	return fmt.Errorf("%w: %s", errInterrupted, fmt.Sprintf(done, args...))
}

// manifest says what is about to run, and where. What cannot be found out about
// this machine stays empty. A text of the user's or a server's must be one of those that
// passwords.hideIn goes through.
func manifest(ctx context.Context, p *program, plan *plan, on *running) (runs.Manifest, error) {
	first := on.markets[0]
	server, err := first.Info(ctx)
	m := runs.Manifest{
		Version: version(),
		Command: p.commandLine(),
		Scripts: plan.scripts,
		Config:  plan.config,
		Seed:    plan.options.Seed,
		Started: time.Now().UTC().Truncate(time.Second),

		Go:   runtime.Version(),
		OS:   runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(),

		Backend:       string(first.Name),
		Server:        server.Product,
		ServerVersion: server.Version,
		ServerConfig:  server.Config,
	}
	// The first server stands above, as it did when runs had one; of --server all have names.
	m.Config.Target = first.Target.String()
	for _, market := range on.markets {
		if market.name == "" {
			continue
		}
		info, failed := market.Info(ctx)
		err = errors.Join(err, failed)
		m.Servers = append(m.Servers, runs.Server{
			Name:    market.name,
			Product: info.Product,
			Version: info.Version,
			Config:  info.Config,
		})
	}
	m.Config.LockServers = lockServers(on.locks)
	m.Kernel, _ = host.KernelVersion()
	if info, err := cpu.Info(); err == nil && len(info) > 0 {
		m.CPU = info[0].ModelName
	}
	return m, err
}

// prepare makes sure, before anything runs, that the result can be stored, and that the
// folder holds no history yet.
func (p *plan) prepare() error {
	if err := p.out.prepare(); err != nil {
		return err
	}
	dir := p.options.History
	if dir == "" {
		return nil
	}

	// An error means that none was found, as where the folder is not there yet, or that one below it
	// cannot be read: a history that is there is not overwritten in any case.
	if _, err := history.Find(dir); err == nil {
		return fmt.Errorf("--history: %w: %s; name another folder", history.ErrExists, dir)
	}
	err := p.takesHistories()
	if err == nil {
		err = makeFolder(dir)
	}
	if err != nil {
		return usagef("--history: %w", err)
	}
	return nil
}

// takesHistories refuses a folder in which those of rows cannot be made: in the place of one is
// something else, or a link that another user may have put there.
func (p *plan) takesHistories() error {
	folders := []string{p.options.History}
	for trial := 1; trial <= p.config.Trials; trial++ {
		for i := range p.config.Points {
			dir := p.historyOf(i, trial)
			// Each level by itself, and historyOf adds two at most: takesFolder sees nothing
			// wrong with a path that leads through a file.
			folders = append(folders, filepath.Dir(dir), dir)
		}
	}

	for _, dir := range folders {
		if err := takesFolder(dir); err != nil {
			return err
		}
	}
	return nil
}
