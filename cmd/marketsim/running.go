package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/connect"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
)

// running are the servers that a command measures on: started by it, or the user's.
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

// market is the server of rows by its name, which must be one of plan.server.markets(), as that
// of every point is.
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
	for _, without := range missing { // locks do without a minority of their servers
		fmt.Fprintf(p.stderr, "warning: %s\n", p.withoutSecrets(errors.New(without)))
	}

	for _, named := range plan.server.markets() {
		server, err := starting(p, func() (*backend.Server, error) { return plan.server.start(ctx, named) })
		if err != nil {
			return err
		}
		// The embedded server's numbers are not worth the time that the book's tables take.
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

// optionsOf are the plan's options for a point, with the servers that were started. Which trial
// it is, its history and its progress are added by whoever measures the row.
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
		if plan.drawn { // nobody else has keys there, and to look takes a walk over all keys
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
	if len(on.sites) > 0 { // on several masters: a SCAN sees only what lies on the one that it asks
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
