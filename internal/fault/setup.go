package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/marketstore"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// What a market is seeded with.
const (
	seller   = market.UserID(1)
	accounts = 10
	funds    = 1000 // coins of each account
	price    = 40   // coins of each item
	offered  = 12   // items that are listed when a scenario begins
)

// errLate ends a run in which this machine was too slow to tell the scheme's
// fault from its own.
var errLate = errors.New("the machine was too slow for this scenario's short leases")

// errUnclear ends a run in which a lock does not tell a scenario what that has to know.
var errUnclear = errors.New("the lock does not tell that it keeps a client out, " +
	"by step.Waiting (see package step), " +
	"or that it does so for good, by giving up in time (parameter timeout)")

// A setup is one market with the clients and servers of one run of a scenario. A scenario
// reads as a story because it handles no errors: where something fails, [fail] ends the
// run, and [setup.attempt] returns the failure.
type setup struct {
	ctx    context.Context
	runner *Runner
	scheme Scheme
	ttl    time.Duration // how long its leases last

	openMarket
	masters servers.Redises   // of a lock that needs several
	closers redisconn.Closers // what was started for this run alone

	config     clientConfig // of clients to come; a scenario may change it
	clients    []*client
	operations []*operation

	runNotes
}

// openMarket is the market in which a scenario plays.
type openMarket struct {
	server  *backend.Server
	cluster *servers.Cluster // of this setup's own, which the market is on; nil: there is none
	conn    *redisconn.Conn
	keys    market.Keys
	opening market.Opening
	granted map[market.UserID]int64 // coins that accounts have beyond those of the opening
	first   market.ItemID           // of the seller's
	listed  []market.Listing        // when the scenario begins: the first few items
}

// runNotes are what a run noted about itself.
type runNotes struct {
	faultSeen bool   // what the scenario makes fail was seen to fail: see noteFault
	whyUnseen string // why it was not, if so
	// For how many leases somebody was kept out, at most, until one ran out or a waiter
	// gave up.
	leases float64

	heartbeats []*heartbeat  // of the servers
	stood      time.Duration // for how long one of them stood still that the scenario had not stopped
}

type failure struct{ err error } // what fail panics with, and guard recovers

// fail ends the run with an error that is not nil, and does not return. Only the
// goroutine that runs guard may call it.
func fail(err error) { panic(failure{err}) }

// notApplicable ends the run of a scenario that cannot happen to the scheme, and says why.
func notApplicable(why string) { fail(notPlayed{verify.NotApplicable, why}) }

// notPlayable ends the run of a scenario that can happen to the scheme, but cannot be
// played with it on any machine.
func notPlayable(why string) { fail(notPlayed{verify.NotPlayable, why}) }

// noteFault notes whether what is to fail was seen to fail. If it never was, the cell does
// not apply: otherwise says why.
func (s *setup) noteFault(arrived bool, otherwise string) {
	s.faultSeen = s.faultSeen || arrived
	if !arrived {
		s.whyUnseen = otherwise
	}
}

// check ends the run at an error. A cluster whose nodes this machine held up for too long
// redirects or refuses clients.
func check(err error) {
	if redisconn.Redirected(err) {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	if err != nil {
		fail(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt makes the market, runs a scenario until it ends or fails, and ends
// everything. It returns what failed.
func (s *setup) attempt(onCluster bool, run func()) error {
	err := guard(func() {
		s.prepare(onCluster)
		run()
	})
	s.endHeartbeats()
	return errors.Join(err, s.endClients(), s.closers.Close())
}

// guard runs something until it ends or fails, and returns the failure.
func guard(run func()) (err error) {
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

func (s *setup) prepare(onCluster bool) {
	s.scheme = must(s.scheme.withLease(s.ttl))
	s.chooseServer(onCluster)
	s.makeMarket()
	s.prepareLocks()
}

// chooseServer chooses where the market is, and begins the configuration of clients.
func (s *setup) chooseServer(onCluster bool) {
	s.server = s.runner.Market
	if onCluster {
		s.cluster = own(s, must(servers.StartCluster(s.ctx)))
		s.server = s.cluster.Server
		s.listenTo(s.cluster.Redises...)
	} else {
		s.listenTo(s.server)
	}

	s.config = clientConfig{Scheme: s.scheme.String()} // with its leases: see prepare
	s.config.Own.Name = s.scheme.Strategy().Name
	s.config.Own.Text = s.scheme.Strategy().Script
	s.config.Market = endpointOf(s.server.Target)
	// Runs share the runner's server: each has keys of its own, by their braces in one slot.
	s.config.Prefix = fmt.Sprintf("marketsim:{faults-%d}:", s.runner.setups.Add(1))
	if cluster := s.server.Cluster(); cluster != nil {
		s.config.Market.Cluster = true
		// A busy machine may have held up a master for so long that its replica took over.
		check(cluster.Refresh(s.ctx))
	}
}

// makeMarket makes accounts and items, and lists the first few.
func (s *setup) makeMarket() {
	s.keys = must(market.NewKeys(s.config.Prefix))
	s.conn = own(s, must(s.server.Dialer(s.keys.Market()).Dial(s.ctx)))
	check(s.scheme.CheckServer(s.ctx, s.conn.Client, s.keys))

	s.granted = map[market.UserID]int64{}
	s.opening = market.Opening{Accounts: accounts, Funds: funds, Strategy: s.config.Scheme}
	check(marketstore.Seed(s.ctx, s.conn.Client, s.keys, s.opening))

	s.first = must(marketstore.Mint(s.ctx, s.conn.Client, s.keys, seller))
	for i := range offered {
		s.listed = append(s.listed, market.Listing{Item: s.item(i), Seller: seller, Price: price})
	}
	check(marketstore.Offer(s.ctx, s.conn.Client, s.keys, s.listed...))
}

// prepareLocks tells clients of the servers that their lock needs. Those that scenarios
// harm, several masters, are started for this run alone.
func (s *setup) prepareLocks() {
	if s.scheme.Lock.Needs != lock.NeedsMasters {
		locks := must(s.runner.servers(s.ctx, s.scheme.Lock.Needs))
		s.config.ZooKeeper = locks.ZooKeeper
		s.config.Etcd = locks.Etcd
		s.listenToMembers(locks.PrivateZooKeeper)
		s.listenToMembers(locks.PrivateEtcd)
		return
	}

	locks := own(s, must(servers.ForLock(s.ctx, servers.Addresses{}, string(lock.NeedsMasters))))
	s.masters = locks.PrivateMasters
	s.listenTo(s.masters...)
	for _, t := range locks.Masters {
		s.config.Masters = append(s.config.Masters, endpointOf(t))
	}
}

func (s *setup) snapshot() market.Snapshot {
	return must(market.ReadSnapshot(s.ctx, s.conn.Client, s.keys, accounts))
}

// own returns something that is closed with the setup.
func own[T io.Closer](s *setup, c T) T {
	s.closers = append(s.closers, c)
	return c
}

// endClients kills all clients. The outcome of what they were still doing is unknown.
func (s *setup) endClients() (err error) {
	for _, c := range s.clients {
		err = errors.Join(err, c.end())
	}
	return err
}

// item is the i-th listed item, from 0.
func (s *setup) item(i int) market.ItemID { return s.first + market.ItemID(i) }

// spare is the i-th item that the seller has not listed, from 0.
func (s *setup) spare(i int) market.Listing {
	return market.Listing{Item: s.first + offered + market.ItemID(i), Seller: seller, Price: price}
}

func (s *setup) fund(id market.UserID, coins int64) {
	check(s.conn.HSet(s.ctx, s.keys.User(id), "funds", coins).Err())
	s.granted[id] = coins - funds
}

func (s *setup) wait(d time.Duration) { s.waitFor(nil, d) }

func (s *setup) await(what <-chan struct{}) {
	if !s.waitFor(what, clientTimeout) {
		fail(errLate)
	}
}

func (s *setup) waitFor(what <-chan struct{}, within time.Duration) bool {
	select {
	case <-what:
		return true
	case <-time.After(within):
	case <-s.ctx.Done():
		fail(s.ctx.Err())
	}
	return false
}

// forGood is how long a scenario watches: until an order has given up, after two leases,
// and the next is kept out too.
func (s *setup) forGood() time.Duration { return 3*s.ttl + s.ttl/2 }

// classifyWait says how long a client's operation was kept out. It was let in just now, or not at
// all. leaseBegan is when the lease that may have kept it out began, at the earliest. The run
// fails where that cannot be told.
func (s *setup) classifyWait(c *client, leaseBegan time.Time, in bool) verify.KeptOut {
	since := time.Since(leaseBegan)
	atOnce := time.Since(c.op.began) < s.ttl*3/10
	ranOut := since > s.ttl*9/10

	switch {
	case in && c.op.done && !c.op.outcome.entered():
		return verify.OrdersFail
	case !in && c.op.gaveUp == 0:
		fail(errUnclear)
	case !in:
		return verify.NeverIn
	case atOnce == ranOut || ranOut && !s.scheme.TakesLock():
		// Both: the client came when the lease was nearly over. Neither: it waited, and not
		// for the lease. Or what ran out was no lock.
		fail(errLate)
	case ranOut:
		s.leases = max(s.leases, since.Seconds()/s.ttl.Seconds())
		return verify.LeaseRanOut
	case !s.scheme.TakesLock(): // a dead client leaves nothing behind that keeps others out
		return verify.NoLease
	}
	return verify.AtOnce
}

// keptOut watches a client's operation until it gets in, for as long as
// forGood, and says what classifyWait says.
func (s *setup) keptOut(c *client, leaseBegan time.Time) verify.KeptOut {
	return s.classifyWait(c, leaseBegan, c.getsIn(s.forGood()))
}

// checkInTime fails the run as late if a lease that began at since may have
// ended by now, or soon will.
func (s *setup) checkInTime(since time.Time) {
	if time.Since(since) > s.ttl*3/4 {
		fail(errLate)
	}
}

// marketProxy puts a proxy between the clients to come and the market. Locks that are
// requests of their own do not use it: they get a copy of the endpoint as it was.
func (s *setup) marketProxy() *wire.Proxy {
	s.config.Locks = cmp.Or(s.config.Locks, new(s.config.Market))
	return s.proxy(&s.config.Market)
}

// lockProxies puts a proxy between the clients to come and each Redis that their lock
// lives on: of several masters in their order, by which redlockExpiry chooses.
func (s *setup) lockProxies() (proxies []*wire.Proxy) {
	if s.scheme.FusesLock() { // its lock is with the market, on the same connection
		return []*wire.Proxy{s.proxy(&s.config.Market)}
	}

	// proxy changes the endpoint that it is given. It gets copies: the market's own is not
	// meant, and redlockExpiry goes back to the masters' own.
	if s.masters == nil {
		s.config.Locks = new(*cmp.Or(s.config.Locks, &s.config.Market))
		return []*wire.Proxy{s.proxy(s.config.Locks)}
	}
	s.config.Masters = slices.Clone(s.config.Masters)
	for i := range s.config.Masters {
		proxies = append(proxies, s.proxy(&s.config.Masters[i]))
	}
	return proxies
}

// ensembleProxies puts a proxy between the clients to come and each ZooKeeper
// or etcd server of their lock.
func (s *setup) ensembleProxies() (proxies []*wire.Proxy) {
	proxied := func(addrs []string) (all []string) {
		for _, addr := range addrs {
			p := own(s, must(wire.Start(addr)))
			proxies = append(proxies, p)
			all = append(all, p.Addr())
		}
		return all
	}

	s.config.ZooKeeper = proxied(s.config.ZooKeeper)
	s.config.Etcd = proxied(s.config.Etcd)
	return proxies
}

// proxy puts a proxy before a Redis for the length of the run: on a cluster,
// before the market's master.
func (s *setup) proxy(before *endpoint) *wire.Proxy {
	target := before.target()
	if before.Cluster {
		target = s.server.Master(s.keys.Market())
	}
	p := own(s, must(wire.StartRedis(target.Network, target.Addr, target.TLS)))
	*before = endpointOf(target.Through(p.Addr()))
	return p
}

// dial connects to a private server for the length of the run.
func (s *setup) dial(server *backend.Server) *redisconn.Conn {
	return own(s, must(server.Dial(s.ctx)))
}

// record names the commands that a proxy sees while something happens. Its callers then
// play the n-th of them with item n, and need item 0 and the last for something else: there
// may be as many commands as items between these.
func (s *setup) record(p *wire.Proxy, happens func()) []string {
	p.Record()
	happens()
	names := p.Commands()
	if len(names) >= offered-1 { // a late reply may have been asked for again
		fail(fmt.Errorf("the rehearsal took %d commands: %w", len(names), errLate))
	}
	return names
}

// sent names the commands of what a client does. If it connects in the midst of them more
// often than it is meant to, a reply was late, and it has sent again. It may connect
// first: its connection may have broken before.
func sent(p *wire.Proxy, again int, does func()) []string {
	p.Record()
	does()
	names := p.Commands()
	if strings.Count(strings.Join(names[min(1, len(names)):], " "), "hello") > again {
		fail(errLate)
	}
	return names
}
