package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify"
)

// Leases that last longer than what happens to a server.
const (
	restartLease  = 6 * time.Second
	electionLease = 10 * time.Second
)

// serverFaults are scenarios in which the servers of the locks die.
var serverFaults = []Scenario{{
	Name: "restart-empty",
	Title: "the Redis of the locks, apart from the market's, " +
		"is killed and restarted empty while the lock is held",
	Needs:   "redis-server",
	Lease:   restartLease,
	Applies: onOneRedis,
	run:     restartEmpty,
}, {
	Name:    "failover",
	Title:   "the master of the locks dies, and a replica that had not received the lock is promoted",
	Needs:   "redis-server",
	Lease:   restartLease,
	Applies: onOneRedis,
	run:     failover,
}, {
	Name: "server-stalls",
	Title: "the Redis of the locks stands still for 1.5 leases; " +
		"then the holder checks its lease and writes",
	Promise: "notices loss",
	Needs:   "redis-server, Unix signals",
	Applies: inRedis,
	run: func(s *setup) observed {
		return pauseServers(s, step.Read)
	},
}, {
	Name:    "server-stalls-late",
	Title:   "the same, but the holder has checked its lease before the server stands still",
	Needs:   "redis-server, Unix signals",
	Applies: inRedis,
	run: func(s *setup) observed {
		return pauseServers(s, step.BeforeWrite)
	},
}, {
	Name: "evicted",
	Title: "the Redis of the locks evicts by volatile-ttl: " +
		"its memory is full of keys without an expiry while the lock is held",
	Needs:   "redis-server",
	Lease:   restartLease,
	Applies: inRedis,
	run:     evictLock,
}, {
	Name: "oom",
	Title: "the memory of the Redis of the locks is full and nothing is evicted: " +
		"the holder releases, and another tries",
	Needs:   "redis-server",
	Applies: inRedis,
	run:     outOfMemory,
},
	redlockDown("redlock-1-down", "one of Redlock's five masters down", 1, "survives node loss"),
	redlockDown("redlock-2-down", "two of Redlock's five masters down", 2, "survives node loss"),
	redlockDown("redlock-3-down", "three of Redlock's five masters down", 3, ""),
	{
		Name:    "redlock-restart",
		Title:   "a Redlock master on which the lock was taken restarts empty, two that were down return",
		Needs:   "redis-server",
		Lease:   restartLease,
		Applies: onMasters,
		run:     redlockRestart,
	}, {
		Name: "redlock-expiry",
		Title: "the lock expires early on one Redlock master, " +
			"two masters that the holder could not reach are back",
		Needs:   "redis-server",
		Lease:   restartLease,
		Applies: onMasters,
		run:     redlockExpiry,
	}, {
		Name:    "leader-killed",
		Title:   "the leader of three lock servers is killed while the lock is held",
		Promise: "survives node loss",
		Needs:   "ZooKeeper or etcd",
		Lease:   electionLease,
		Applies: lockThat(Scheme.inSession, "no session holds its lock"),
		run:     leaderKilled,
	}}

var inRedis = lockThat(Scheme.inRedis,
	"its lock is not in Redis, and its servers keep what they know on disk")

func (s Scheme) inRedis() bool { return s.Lock.Needs.InRedis() }

// inSession reports whether the lock is held by a session of ZooKeeper or etcd.
func (s Scheme) inSession() bool { return !s.inRedis() }

// onOneRedis is inRedis without locks on several masters.
func onOneRedis(s Scheme) string {
	if s.Lock.Needs == lock.NeedsMasters {
		return "its lock is on several masters: see the redlock scenarios"
	}
	return inRedis(s)
}

var onMasters = only(Scheme.onMasters, "its lock is not on several masters")

func (s Scheme) onMasters() bool { return s.Lock.Needs == lock.NeedsMasters }

// besideHolder holds a buyer just before it writes, strikes the servers, and has another
// buy the same item before the first goes on. Then the other buys an item whose lock is
// free and was used: see newcomer. before is called in between: the locks have been used,
// and the first buyer has not begun. The replica of failover then has what the locks have left,
// and lacks the lock that this buyer takes.
func besideHolder(s *setup, before, strike func(), how string) observed {
	lister, a := s.client("S"), s.client("A")
	// Under the item's lock, as every item was listed: a fence has begun to count.
	lister.list(s.spare(0))
	if o := lister.ends(); !o.Applied() {
		fail(fmt.Errorf("%w: nothing is wrong yet, and a listing is %s", errLate, o))
	}
	// So that the lock has been used, and is free when servers forget it: a counter of fences
	// that they lose is then behind what the market knows.
	for range 4 {
		lister.buyAt(price+1, s.item(0)) // is refused under the lock: the item stays
		lister.ends()
	}

	before()
	item := s.spare(0).Item
	start := a.buyUntil(item, step.BeforeWrite)
	strike()

	b := s.client("B") // connects to what there is now
	in := s.getsBeside(b, item, start)
	s.checkInTime(start) // or the lease has run out, which is another story
	first := a.finish()
	b.finish()

	kept := s.newcomer(b, s.item(0))
	otherwise := "nobody else gets in beside the holder"
	switch {
	case kept == verify.CounterCaughtUp:
		otherwise = how + "; after that, newcomers are refused as stale for a while"
	case in && first.Reason == "stale":
		otherwise = how + "; the market refused the first write as stale"
	case in:
		otherwise = how + "; the first write was refused (" + first.Reason + ")"
	}

	return s.concludeBeside(in && first.Applied(), kept, how, otherwise)
}

// getsBeside has a client try to buy an item whose lock is held, and reports whether it
// comes to its write. While it is refused as stale it tries again: a counter that counts
// from 1 again may reach the fence of the holder. It gives up half a lease after since, when
// the holder's lease began, as the run fails after three quarters: see checkInTime.
func (s *setup) getsBeside(c *client, item market.ItemID, since time.Time) bool {
	for {
		c.buy(item, at(step.BeforeWrite))
		at := c.held(s.ttl / 4)
		if !c.op.done || c.op.outcome.Reason != "stale" || time.Since(since) > s.ttl/2 {
			return at == step.BeforeWrite
		}
	}
}

// newcomer says how long a client is kept out of a lock that is free. While it is
// refused as stale, it tries again. A wait is measured from the order, as nobody holds a
// lease that it could wait for.
func (s *setup) newcomer(c *client, item market.ItemID) verify.KeptOut {
	start := time.Now()
	for stale := false; ; stale = true {
		c.buy(item)
		in := c.getsIn(s.forGood())

		switch {
		case c.op.outcome.Reason == "stale" && time.Since(start) < s.forGood():
		case c.op.outcome.Reason == "stale":
			return verify.NeverIn
		case stale && in:
			return verify.CounterCaughtUp
		default:
			return s.classifyWait(c, c.op.began, in)
		}
	}
}

func restartEmpty(s *setup) observed {
	server := s.locksApart()
	restart := func() { check(server.Restart(s.ctx)) }
	return besideHolder(s, func() {}, func() { s.forgets(server, server, restart) },
		"the server comes back empty, and another gets in beside the holder")
}

// pauseServers stops the servers of the locks while a buyer is at a step and another waits.
func pauseServers(s *setup, holder step.Name) observed {
	all := s.lockServers()
	conn := s.dial(all[0])
	a, b := s.client("A"), s.client("B")

	lease := a.buyUntil(s.item(0), holder)
	s.pauses(all...)
	b.buy(s.item(0))

	late, cancel := context.WithTimeout(s.ctx, s.ttl+s.ttl/2)
	defer cancel()
	// No answer comes before late: this call is how the 1.5 leases pass.
	s.noteFault(conn.Ping(late).Err() != nil, "the server answers")

	// A client need not wait for servers that do not answer.
	_, gaveUp := b.endsWithin(time.Millisecond)
	for _, server := range all {
		check(server.Resume())
	}
	if gaveUp { // it comes again, and has waited since it first came
		began := b.op.began
		b.buy(s.item(0))
		b.op.began = began
	}

	kept := s.keptOut(b, lease)
	return s.concludeTakeover(a.finish(), b, kept)
}

// failover gives the locks a master with a replica that falls behind, and is
// promoted when the master dies.
func failover(s *setup) observed {
	master := s.locksApart()
	// Between the master and the replica. StartRedis would not do: it cannot read replication.
	link := own(s, must(wire.Start(master.Target.Addr)))
	host, port, _ := net.SplitHostPort(link.Addr())
	// It logs in to the master by its own password, which therefore is the master's.
	replica := s.redis(master.Target.Password, "--replicaof", host, port)

	fallBehind := func() {
		s.replicates(s.dial(master), "written")
		link.Partition()
	}
	promote := func() {
		check(master.Kill())
		check(s.dial(replica).Do(s.ctx, "REPLICAOF", "NO", "ONE").Err())
		s.config.Locks = new(endpointOf(replica.Target)) // for the clients to come
	}

	return besideHolder(s, fallBehind, func() { s.forgets(master, replica, promote) },
		"the replica lacks what the master had, and another gets in beside the holder")
}

// redlockDown kills n masters before anybody takes the lock. promise is empty where those
// that are left are no majority.
func redlockDown(name, title string, n int, promise string) Scenario {
	return Scenario{
		Name: name, Title: title, Promise: promise, Needs: "redis-server", Applies: onMasters,
		run: func(s *setup) observed {
			a, b := s.client("A"), s.client("B")
			for i := range n {
				check(s.masters[i].Kill())
			}
			s.noteFault(true, "") // every client asks all masters

			start := a.buy(s.item(0), at(step.BeforeWrite))
			if a.held(clientTimeout) == "" {
				return s.conclude(verify.OrdersFail, "an order fails ("+a.op.outcome.Reason+")")
			}

			in := b.comesBeside(s.item(0), start, a)
			return s.concludeBeside(in, s.newcomer(b, s.item(1)),
				"two held it at the same time", "one gets in at a time")
		},
	}
}

func redlockRestart(s *setup) observed {
	check(errors.Join(s.masters[3].Kill(), s.masters[4].Kill()))
	restart := func() { // of the masters on which the lock was taken, 0, 1 and 2, one forgets it
		for _, i := range []int{2, 3, 4} { // then a majority that does not know the lock
			check(s.masters[i].Restart(s.ctx))
		}
	}
	return besideHolder(s, func() {}, func() { s.forgets(s.masters[2], s.masters[2], restart) },
		"one master forgets, two return, and another gets in beside the holder")
}

// redlockExpiry lets the holder reach masters 0, 1 and 2 only, and the next one
// all of them.
func redlockExpiry(s *setup) observed {
	all := s.config.Masters // stays without proxies: lockProxies changes a copy
	proxies := s.lockProxies()
	for _, p := range proxies[3:] {
		p.Disconnect()
	}

	conn := s.dial(s.masters[2])
	expire := func() { // whatever would expire one day, as when the server's clock jumps to that day
		for _, key := range must(conn.Keys(s.ctx, "*").Result()) {
			if must(conn.PTTL(s.ctx, key).Result()) > 0 {
				check(conn.PExpireAt(s.ctx, key, time.Unix(1, 0)).Err())
			}
		}
	}

	return besideHolder(s, func() {}, func() {
		s.forgets(s.masters[2], s.masters[2], expire)
		s.config.Masters = all
	}, "the lock expires early on one master, two return, and another gets in beside the holder")
}

// leaderKilled kills a member, and so starts an ensemble of its own: the runner's is shared by
// all cells.
func leaderKilled(s *setup) observed {
	start := servers.StartEtcd
	addrs := &s.config.Etcd
	if s.scheme.Lock.Needs == lock.NeedsZooKeeper {
		start = servers.StartZooKeeper
		addrs = &s.config.ZooKeeper
	}

	three := own(s, must(start(s.ctx, 3)))
	s.listenToMembers(three)
	*addrs = three.Addrs()

	killLeader := func() {
		ctx, cancel := context.WithTimeout(s.ctx, clientTimeout)
		defer cancel()
		leader := must(three.Leader(ctx))
		check(three.Members[leader].Kill())
		s.noteFault(must(three.Leader(ctx)) != leader, "") // which waits for the next leader
	}

	return besideHolder(s, func() {}, killLeader,
		"after another is elected, another client gets in beside the holder")
}

// evictLock puts the lock among 6,000 keys without an expiry, and fills the memory
// for a moment while it is held.
func evictLock(s *setup) observed {
	var others []any
	for i := range 6000 {
		others = append(others, fmt.Sprint("other:", i), "")
	}

	all := s.limitMemory("volatile-ttl")
	for _, server := range all {
		check(s.dial(server).MSet(s.ctx, others...).Err())
	}

	return besideHolder(s, func() {}, func() {
		knew := s.known(all...)
		for _, server := range all {
			s.fillMemory(server)()
			// others has a name and a value of each.
			if left := len(must(s.dial(server).Keys(s.ctx, "other:*").Result())); left != len(others)/2 {
				fail(fmt.Errorf("of %d keys without an expiry %d are left", len(others)/2, left))
			}
		}
		if maps.Equal(knew, s.known(all...)) {
			notApplicable("it has no key here that expires, and only those are evicted")
		}
	}, "of all keys on the server the lock was evicted, because it expires: another gets in beside the holder")
}

// outOfMemory fills the memory while the lock is held, until the holder has
// released it and another has tried for the lock of another item. Then there is room
// again: if that one is kept out of the holder's item, the release has failed.
func outOfMemory(s *setup) observed {
	all := s.limitMemory("noeviction")
	a, b := s.client("A"), s.client("B")

	b.buyToEnd(s.item(0)) // loads the scripts
	a.listUntilRelease(0)

	var makeRoom []func()
	for _, server := range all {
		makeRoom = append(makeRoom, s.fillMemory(server))
	}

	a.finish()
	b.buy(s.item(1))
	o, ended := b.endsWithin(s.ttl / 4)

	for _, free := range makeRoom {
		free()
	}
	b.ends()

	kept := b.keptFrom(s.spare(0).Item, a.op.began)
	taking := "another order fails"
	if ended && o.Applied() {
		taking = "another lock is taken"
	}
	why := fmt.Sprintf("while the memory is full %s; when the holder has released, %s",
		taking, entry(kept))
	return s.conclude(kept, why)
}
