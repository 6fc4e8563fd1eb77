package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// What a market is seeded with.
const (
	seller   = market.UserID(1)
	accounts = 8
	funds    = 1000 // coins of each account
	price    = 40   // coins of each item
	offered  = 12   // items that are listed when a scenario begins
)

// errLate ends a run in which this machine was too slow to tell the scheme's fault from its own.
var errLate = errors.New("the machine was too slow for this scenario's short leases")

// errSilent ends a run in which a client waits for a lock, as it seems, that does not say so.
var errSilent = errors.New("the lock keeps a client out without calling step.Waiting, by which a scenario knows " +
	"(see package step)")

// A setup is one market with the clients and servers of one run of a scenario. A scenario reads as a story because it
// handles no errors: where something fails, [setup.fail] ends the run on the spot, and [setup.attempt] returns the
// failure.
type setup struct {
	scheme Scheme
	ttl    time.Duration // how long its leases last
	ctx    context.Context
	runner *Runner
	place  func(*setup) *backend.Server // starts the server of the market; nil: it is the runner's

	server     *backend.Server // of the market
	config     clientConfig    // of clients to come; a scenario may change it
	conn       *backend.Conn
	keys       market.Keys
	first      market.ItemID // of the seller's; the first few are listed
	before     market.Snapshot
	clients    []*client
	operations []*operation
	nth        int              // the command at which a client is held whose scheme calls no steps
	masters    *servers.Masters // of a lock that needs some
	cluster    *servers.Cluster // that the market is on; nil: it is on none of this setup's
	closers    []io.Closer      // what was started for this run alone
}

func newSetup(ctx context.Context, r *Runner, scheme Scheme, ttl time.Duration) *setup {
	return &setup{scheme: scheme.lasting(ttl), ttl: ttl, ctx: ctx, runner: r}
}

// failure is what fail panics with. It never leaves attempt.
type failure struct{ err error }

// cannot ends the run of a scenario that cannot happen to the scheme, with the reason.
func (s *setup) cannot(why string) { s.fail(inapplicable(why)) }

// fail ends the run with an error that is not nil. It does not return, so that no scenario goes on with a server or a
// client that is not there. Only the goroutine that runs attempt may call it.
func (s *setup) fail(err error) { panic(failure{err}) }

// check ends the run where there is an error. Where a cluster refuses what the scenario itself asks of it, this machine has
// held up its nodes for so long that they took each other for dead.
func (s *setup) check(err error) {
	if backend.Redirected(err) {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	if err != nil {
		s.fail(err)
	}
}

// attempt makes the market and runs a scenario until it ends or fails, and returns the failure.
func (s *setup) attempt(run func()) error {
	return s.guard(func() {
		s.prepare()
		run()
	})
}

// guard runs something until it ends or fails, and returns the failure.
func (s *setup) guard(run func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default: // a defect of this program
			panic(r)
		}
	}()
	run()
	return nil
}

// prepare makes the market and what the scheme's lock needs.
func (s *setup) prepare() {
	s.server = s.runner.redis
	if s.place != nil {
		s.server = s.place(s)
	}
	s.config = clientConfig{
		Scheme: s.scheme.String(), Prefix: s.runner.prefix(), Accounts: accounts, Market: endpointOf(s.server.Target),
	}
	s.config.Market.Cluster = s.server.Cluster() != nil
	var err error
	s.keys, err = market.NewKeys(s.config.Prefix)
	s.check(err)
	s.conn, err = s.server.Dialer(s.keys.Market())(s.ctx)
	s.check(err)
	if spec, ok := s.scheme.Purchasing.(strategies.Spec); ok {
		s.check(spec.CheckServer(s.ctx, s.conn.Client, s.keys))
	}
	s.seed(market.Opening{Accounts: accounts, Funds: funds, Strategy: s.config.Scheme})
	s.before, err = s.snapshot()
	s.check(err)
	s.prepareLocks()
}

// snapshot reads the market.
func (s *setup) snapshot() (market.Snapshot, error) {
	return market.ReadSnapshot(s.ctx, s.conn.Client, s.keys, accounts)
}

// seed makes the market.
func (s *setup) seed(opening market.Opening) {
	s.check(market.Seed(s.ctx, s.conn.Client, s.keys, opening))
	var err error
	s.first, err = market.Mint(s.ctx, s.conn.Client, s.keys, seller)
	s.check(err)
	_, err = s.conn.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
		for item := s.first; item < s.first+offered; item++ {
			p.SRem(s.ctx, s.keys.Inventory(seller), int64(item))
			p.ZAdd(s.ctx, s.keys.Market(), redis.Z{Score: price, Member: market.Member(item, seller)})
		}
		return nil
	})
	if err != nil {
		s.fail(fmt.Errorf("list the first items: %w", err))
	}
}

// prepareLocks starts the servers that the scheme's lock needs, if it needs any, and tells the clients where they are.
func (s *setup) prepareLocks() {
	if s.scheme.need() != lock.NeedsMasters {
		locks, err := s.runner.servers(s.ctx, s.scheme.need())
		s.check(err)
		s.config.ZooKeeper, s.config.Etcd = locks.ZooKeeper, locks.Etcd
		return
	}
	locks, err := servers.ForLock(s.ctx, servers.Addresses{}, string(lock.NeedsMasters))
	s.check(err)
	s.own(locks)
	s.masters = locks.PrivateMasters
	for _, t := range locks.Masters {
		s.config.Masters = append(s.config.Masters, endpointOf(t))
	}
}

// own closes something with the setup.
func (s *setup) own(c io.Closer) { s.closers = append(s.closers, c) }

// endClients kills all clients. The outcome of what they were still doing is unknown.
func (s *setup) endClients() error {
	var errs []error
	for _, c := range s.clients {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}

// close ends everything, also after a failure.
func (s *setup) close() error {
	errs := []error{s.endClients()}
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(errs...)
}

// item is the i-th listed item, from 0.
func (s *setup) item(i int) market.ItemID { return s.first + market.ItemID(i) }

// unlisted is an item that the seller has not listed.
func (s *setup) unlisted() market.Listing { return s.spare(0) }

// spare is the i-th item that the seller has not listed, from 0.
func (s *setup) spare(i int) market.Listing {
	return market.Listing{Item: s.first + offered + market.ItemID(i), Seller: seller, Price: price}
}

// fund makes an account hold that many coins.
func (s *setup) fund(id market.UserID, coins int64) {
	s.check(s.conn.HSet(s.ctx, s.keys.User(id), "funds", coins).Err())
	s.before.Funds[id] = coins
}

// wait lets time pass.
func (s *setup) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
		s.fail(s.ctx.Err())
	}
}

// forGood is how long a scenario watches before it says that nobody gets in.
func (s *setup) forGood() time.Duration { return 3*s.ttl + s.ttl/2 }

// kept says how long a client's operation was kept out that was let in just now, or was not in all the time that the
// scenario watched. lease is when the lease began, at the earliest, that may have kept it out. It fails the setup as
// late where it cannot tell a wait for that lease from none.
func (s *setup) kept(c *client, lease time.Time, in bool) result.KeptOut {
	if !in {
		return result.NeverIn
	}
	atOnce, ranOut := time.Since(c.op.began) < s.ttl*3/10, time.Since(lease) > s.ttl*9/10
	switch {
	case atOnce == ranOut || ranOut && s.scheme.holdsNothing():
		s.fail(errLate)
	case ranOut:
		return result.LeaseRanOut
	case s.scheme.holdsNothing():
		return result.NoLease
	}
	return result.AtOnce
}

// keptOut watches a client's operation until it ends, for as long as forGood, and says how long it was kept out by a
// lease that began at lease, at the earliest.
func (s *setup) keptOut(c *client, lease time.Time) result.KeptOut {
	in := c.getsIn(s.forGood())
	return s.kept(c, lease, in)
}

// checkInTime fails the setup as late if a lease that began at since may have ended by now, or soon will.
func (s *setup) checkInTime(since time.Time) {
	if time.Since(since) > s.ttl*3/4 {
		s.fail(errLate)
	}
}

// marketProxy puts a proxy between the clients to come and the market. Their locks go past it, straight to their
// servers.
func (s *setup) marketProxy() *wire.Proxy {
	p := s.proxy(s.config.Market)
	if s.config.Locks == nil {
		direct := s.config.Market
		s.config.Locks = &direct
	}
	s.config.Market = endpointOf(p.Target())
	return p
}

// lockProxies puts a proxy between the clients to come and each Redis that their lock lives on.
func (s *setup) lockProxies() []*wire.Proxy {
	if spec, ok := s.scheme.Purchasing.(strategies.Spec); ok && spec.FusesLock() {
		s.cannot("it takes its lock and reads in one go, on the connection to the market")
	}
	if s.masters == nil {
		where := s.config.Market
		if s.config.Locks != nil {
			where = *s.config.Locks
		}
		p := s.proxy(where)
		s.locksAt(p.Target())
		return []*wire.Proxy{p}
	}
	proxies := make([]*wire.Proxy, len(s.config.Masters))
	through := make([]endpoint, len(s.config.Masters))
	for i, m := range s.config.Masters {
		proxies[i] = s.proxy(m)
		through[i] = endpointOf(proxies[i].Target())
	}
	s.config.Masters = through
	return proxies
}

// ensembleProxies puts a proxy between the clients to come and each ZooKeeper or etcd server of their lock.
func (s *setup) ensembleProxies() (proxies []*wire.Proxy) {
	through := func(addrs []string) []string {
		all := make([]string, len(addrs))
		for i, addr := range addrs {
			p := s.started(wire.Start(addr))
			proxies, all[i] = append(proxies, p), p.Addr()
		}
		return all
	}
	s.config.ZooKeeper, s.config.Etcd = through(s.config.ZooKeeper), through(s.config.Etcd)
	return proxies
}

// proxy starts a proxy of a Redis for the length of the run. On a cluster it is one of the market's master.
func (s *setup) proxy(to endpoint) *wire.Proxy {
	target := to.target()
	if to.Cluster {
		target = s.server.Master(s.keys.Market())
	}
	return s.started(wire.StartRedis(target))
}

func (s *setup) started(p *wire.Proxy, err error) *wire.Proxy {
	s.check(err)
	s.own(p)
	return p
}

// locksAt tells the clients to come where the locks live.
func (s *setup) locksAt(t backend.Target) {
	where := endpointOf(t)
	s.config.Locks = &where
}
