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

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/compare"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/process"
	protocol "github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/reference"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/internal/view"
)

// measure measures a plan on servers of the user's or its own, stores the result
// after each row, and draws it.
func (p *program) measure(ctx context.Context, plan *plan) (err error) {
	p.passwords.add(plan.server.passwords...)
	if err := plan.prepare(); err != nil {
		return err
	}
	ctx, stop := p.interruptible(ctx)
	defer stop()

	p.progress("getting the servers ready")
	on := new(running)
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

type running struct {
	locks   *servers.Locks
	markets []marketServer
}

// A marketServer is a server on which rows are measured: the only one, whose name is empty, or one
// of --server.
type marketServer struct {
	name string
	*backend.Server
	sites []load.Site // where the markets of the row lie that has the most; none: each row has one
}

// market is the server of rows by its name.
func (on *running) market(name string) marketServer {
	i := slices.IndexFunc(on.markets, func(m marketServer) bool { return m.name == name })
	return on.markets[i]
}

// start starts the servers that locks need and the market's, or takes the user's. A
// server of a lock that cannot be started is a mistake in the command line: the user
// asked for a lock that this machine cannot have.
func (on *running) start(ctx context.Context, p *program, plan *plan) (err error) {
	var needs []string
	for _, spec := range plan.specs {
		kind, _ := spec.Lock()
		if need := string(kind.Needs); !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
	}

	on.locks, err = starting(p, func() (*servers.Locks, error) {
		return servers.ForLock(ctx, plan.server.locks, needs...)
	})
	if errors.Is(err, process.ErrUnavailable) {
		return usageError{err}
	}
	if err != nil {
		return err
	}

	missing, err := on.locks.Preflight(ctx)
	if err != nil {
		return err
	}
	for _, without := range missing {
		fmt.Fprintf(p.stderr, "warning: %s\n", p.withoutSecrets(errors.New(without)))
	}

	for _, named := range plan.server.markets() {
		server, err := starting(p, func() (*backend.Server, error) { return plan.server.start(ctx, named) })
		if err != nil {
			return err
		}
		if server.Name == backend.OriginEmbedded && len(plan.config.Reproduces) > 0 {
			plan.shorten()
		}

		sites, err := p.place(plan, server)
		if err != nil {
			return err
		}
		on.markets = append(on.markets, marketServer{name: named.name, Server: server, sites: sites})
	}
	return nil
}

// place finds places on a server for the markets of the row that has the most of them; none:
// each row has one market, under the run's prefix.
func (p *program) place(plan *plan, server *backend.Server) (sites []load.Site, err error) {
	n := mostMarkets(plan.config.Points)
	if n == 1 {
		return nil, onOneSlot(server, plan.options.Keys)
	}
	sites, err = load.Sites(server, plan.options.Keys, n)
	if err != nil {
		return nil, err
	}

	slots := map[int]bool{}
	for _, site := range sites {
		if err := onOneSlot(server, site.Keys); err != nil {
			return nil, err
		}
		slots[redisconn.Slot(site.Keys.Prefix())] = true
	}
	if server.Cluster() != nil && len(slots) == 1 {
		fmt.Fprintf(p.stderr, "warning: the braces in --prefix %s put all %d markets on one master; without them they are "+
			"spread\n", plan.config.Prefix, n)
	}
	return sites, nil
}

// optionsOf are the plan's options for a point, with the servers that were started.
func (on *running) optionsOf(plan *plan, point result.Point) load.Options {
	o := plan.options
	at := on.market(point.Server)
	if len(at.sites) > 0 { // a row with one market has it at the first
		o.Sites = at.sites[:max(1, point.Markets)]
	}
	o.Servers = connect.MarketServers{
		Market:    at.Dialer(plan.config.Prefix),
		Masters:   servers.Dialers(on.locks.Masters),
		ZooKeeper: on.locks.ZooKeeper,
		Etcd:      on.locks.Etcd,
	}
	o.Subject = plan.specs[point.Spec()]
	return o
}

// ready refuses a prefix that already holds keys, and tries every command that the
// strategies need. It names the prefix before the first key is made, so that the user
// knows it if the run is killed.
func (on *running) ready(ctx context.Context, p *program, plan *plan) error {
	for _, m := range on.markets {
		if m.name == "" {
			p.notice("backend: %s", m.Describe())
		} else {
			p.notice("server %s: %s", m.name, m.Describe())
		}
		if err := plan.rights().check(ctx, m.Dialer(plan.config.Prefix)); err != nil {
			return err
		}
		if plan.drawn {
			continue
		}
		if err := refuseOccupied(ctx, plan, m); err != nil {
			return err
		}
	}

	if !plan.options.Private {
		how := "removed at the end; after a kill by"
		if plan.options.Keep {
			how = "kept until"
		}
		p.notice("keys: under %s, %s: %s", plan.config.Prefix, how, plan.server.clean(plan.config.Prefix))
	}

	type rehearsal struct{ spec, server string }
	done := map[rehearsal]bool{}
	for _, point := range plan.config.Points {
		this := rehearsal{point.Spec(), point.Server}
		if done[this] {
			continue
		}
		done[this] = true
		if err := on.rehearse(ctx, p, plan, point); err != nil {
			return err
		}
	}

	// Now, because nobody knows how long the rehearsals of locks with servers take.
	p.progress("%s", plan.ahead())
	return nil
}

// refuseOccupied refuses a prefix under which there are keys already.
func refuseOccupied(ctx context.Context, plan *plan, on marketServer) error {
	all := []redisconn.Dialer{on.Dialer(plan.config.Prefix)}
	if len(on.sites) > 0 {
		all = everyMaster(on.Server)
	}

	for _, dialer := range all {
		err := onMaster(ctx, dialer, func(conn *redisconn.Conn) error {
			return marketstore.Occupied(ctx, conn.Client, plan.options.Keys)
		})
		if errors.Is(err, marketstore.ErrOccupied) {
			return fmt.Errorf("%w (%s)", err, plan.server.clean(plan.config.Prefix))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rehearse tries what a point sends, and says so if it takes long.
func (on *running) rehearse(ctx context.Context, p *program, plan *plan, point result.Point) error {
	const long = 2 * time.Second
	said := make(chan struct{})
	silent := time.AfterFunc(long, func() {
		defer close(said)
		p.notice("rehearsing %s: it tries each command once, and waits for a lock", point.Spec())
	})

	refused, err := load.Rehearse(ctx, point, on.optionsOf(plan, point))
	if !silent.Stop() { // it is said just now, or was
		<-said
	}

	if err != nil {
		return err
	}
	if refused > 0 {
		p.notice("pipe: one process of %s, alone, answers %s orders/s for an item that is gone",
			point.Spec(), humanize.Comma(int64(refused)))
	}
	return nil
}

// rounds measures until a row fails or the user stops it, and stores the result after
// each. wrong is what audits found.
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
			p.passwords.hideIn(run)

			done := len(run.Rows)
			left := time.Since(began) / time.Duration(done) * time.Duration(all-done) // with stocking and auditing
			p.advance(done, all, left.Round(time.Second), view.Line(row))
			wrong = errors.Join(wrong, violated(row, plan.config.Trials))
			switch {
			case err != nil:
				return ended(stored.Incomplete, err)
			case row.Status == stored.Interrupted:
				return ended(stored.Interrupted, nil)
			}

			complete++
			if err := plan.out.save(run); err != nil {
				return ended(stored.Incomplete, err)
			}
		}
	}
	run.Status = stored.Complete
	return wrong, nil
}

// restAfter is about how long the rows take that follow the one under way.
func (p *plan) restAfter(done, all int, began time.Time) time.Duration {
	each := p.options.Warmup + p.options.Duration
	if done > 0 {
		each = time.Since(began) / time.Duration(done) // with stocking and auditing
	}
	return time.Duration(all-done-1) * each
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
	var unprinted error
	o.Progress = func(soFar result.Row) {
		underway.update(soFar)
		if plan.out.format != asJSONL || unprinted != nil {
			return
		}
		unprinted = view.Intervals(p.stdout, "", soFar, max(0, len(soFar.Course)-1))
		if errors.Is(unprinted, syscall.EPIPE) { // which is about no server
			unprinted = errUnread
		}
		if unprinted != nil {
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
// this machine stays empty.
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

// takesHistories refuses a folder in which those of rows cannot be made.
func (p *plan) takesHistories() error {
	folders := []string{p.options.History}
	for trial := 1; trial <= p.config.Trials; trial++ {
		for i := range p.config.Points {
			dir := p.historyOf(i, trial)
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
