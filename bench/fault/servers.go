package fault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies/lock"
)

// Leases that outlast what happens to a server.
const (
	restartLease  = 6 * time.Second
	electionLease = 10 * time.Second
)

// serverFaults are scenarios in which the servers of the locks die.
func serverFaults() []Scenario {
	return []Scenario{{
		Name:  "restart-empty",
		Title: "the Redis of the locks, apart from the market's, is killed and restarted empty while the lock is held",
		Needs: "redis-server", Lease: restartLease, Applies: needsOneRedis, run: restartedEmpty,
	}, {
		Name:  "failover",
		Title: "the master of the locks dies, and a replica that had not received the lock is promoted",
		Needs: "redis-server", Lease: restartLease, Applies: needsOneRedis, run: failover,
	},
		{
			Name:  "failover-wait",
			Title: "one of two replicas has the lock for sure (WAIT 1), the master dies, and the other is promoted",
			Needs: "redis-server", Lease: restartLease, Applies: needsOneRedis, Replicas: 1, run: failoverWait,
		},
		redlockDown("redlock-1-down", "one of Redlock's five masters down", 1, "survives node loss"),
		redlockDown("redlock-2-down", "two of Redlock's five masters down", 2, "survives node loss"),
		redlockDown("redlock-3-down", "three of Redlock's five masters down", 3, ""),
		{
			Name:  "redlock-restart",
			Title: "a Redlock master on which the lock was taken restarts empty, two that were down return",
			Needs: "redis-server", Lease: restartLease, Applies: needsMasters, run: redlockRestart,
		}, {
			Name:  "redlock-clock",
			Title: "the clock of one Redlock master jumps ahead, two masters that the holder could not reach are back",
			Needs: "redis-server", Lease: restartLease, Applies: needsMasters, run: redlockClock,
		}, {
			Name: "session-expires", Title: "the holder sleeps until its session has expired, wakes and writes",
			Needs: "ZooKeeper or etcd, Unix signals", Applies: needsSession, run: pausePastTTL,
		}, {
			Name: "leader-killed", Title: "the leader of three lock servers is killed while the lock is held",
			Promise: "survives node loss", Needs: "ZooKeeper or etcd", Lease: electionLease,
			Applies: needsSession, run: leaderKilled,
		}}
}

// needsOneRedis keeps out schemes without a lock, and locks that are not in one Redis.
func needsOneRedis(s Scheme) string {
	if why := needsLock(s); why != "" {
		return why
	}
	switch need := s.need(); {
	case need == lock.NeedsMasters:
		return "its lock is on several masters: see the redlock scenarios"
	case !need.InRedis():
		return "its lock is not in Redis, and its servers keep what they know on disk"
	}
	return ""
}

// needsMasters keeps out all but locks on several masters.
func needsMasters(s Scheme) string {
	if s.need() != lock.NeedsMasters {
		return "its lock is not on several masters"
	}
	return ""
}

// needsSession keeps out locks that no session holds.
func needsSession(s Scheme) string {
	if why := needsLock(s); why != "" {
		return why
	}
	if s.need() != lock.NeedsZooKeeper && s.need() != lock.NeedsEtcd {
		return "no session holds its lock"
	}
	return ""
}

// besideHolder holds a buyer just before it writes, does something to the servers, and lets another buy the same item
// before and after the first goes on. Then the other buys an item whose lock is free, and was used before. before is
// called just before the first takes the lock.
func besideHolder(s *setup, before, strike func(), how string) observed {
	lister, a := s.client("S"), s.client("A")
	lister.list(s.unlisted()) // under the same lock, as every item was: a fence has begun to count
	if o := lister.ends(); !o.Applied() {
		s.fail(fmt.Errorf("%w: nothing is wrong yet, and a listing is %s", errLate, o))
	}
	for range usedBefore {
		lister.buyAt(price+1, s.item(0)) // is refused under the lock: the item stays
		lister.ends()
	}
	before()
	item := s.unlisted().Item
	start := time.Now()
	a.buyUntil(item, step.BeforeWrite)
	strike()
	b := s.client("B") // connects to what there is now
	b.buy(item, at(step.BeforeWrite))
	in := b.held(s.ttl/4) == step.BeforeWrite
	s.checkInTime(start) // or the lease has run out, which is another story
	first := a.finish()
	b.finish()
	kept := s.newcomer(b, s.item(0))
	beside := in && first.Applied()
	otherwise := "the lock is still there: nobody else gets in"
	switch {
	case kept == result.CounterCaughtUp:
		otherwise = "the fences count from 1 again: newcomers are refused as stale until they have passed the last one " +
			"registered"
	case in && first.Reason == "stale":
		otherwise = how + "; the market refused the first write as stale"
	case in:
		otherwise = how + "; the first write was refused (" + first.Reason + ")"
	}
	return s.sawBeside(beside, kept, how, otherwise)
}

// usedBefore is how often a lock was taken that is free when servers forget it.
const usedBefore = 4

// newcomer lets a client buy an item whose lock is free, again as long as it is refused as stale, and says how long it
// is kept out.
func (s *setup) newcomer(c *client, item market.ItemID) result.KeptOut {
	for start, stale := time.Now(), false; ; stale = true {
		c.buy(item)
		in := c.getsIn(s.forGood())
		switch {
		case c.op.outcome.Reason == "stale" && time.Since(start) < s.forGood():
		case c.op.outcome.Reason == "stale":
			return result.NeverIn
		case stale && in:
			return result.CounterCaughtUp
		default:
			return s.kept(c, c.op.began, in)
		}
	}
}

func restartedEmpty(s *setup) observed {
	server := s.redis()
	s.locksAt(server.Target)
	return besideHolder(s, func() {}, func() { s.check(server.Restart(s.ctx)) },
		"the lock is gone with the server's memory: another gets in beside the holder")
}

func failover(s *setup) observed {
	return promoted(s, 1, "the lock was never replicated: another gets in beside the holder")
}

func failoverWait(s *setup) observed {
	return promoted(s, 2, "the replica that has the lock is not the one that is promoted: another gets in beside the holder")
}

// promoted gives the locks a master with so many replicas, of which the last falls behind and is promoted when the master
// dies. Clients wait for the others.
func promoted(s *setup, replicas int, how string) observed {
	master := s.redis(syncAtOnce...)
	link := s.started(wire.Start(master.Target.Addr)) // between the master and the replica that falls behind
	var ahead *backend.Server
	if replicas > 1 {
		ahead = s.redis(replicaOf(master.Target)...)
	}
	behind := s.redis(replicaOf(link.Target())...)
	conn, err := master.Dial(s.ctx)
	s.check(err)
	s.own(conn)
	// written makes the replicas have all that was written until now.
	written := func() {
		s.check(conn.Set(s.ctx, "written", "", 0).Err())
		n, err := conn.Wait(s.ctx, replicas, clientTimeout).Result()
		if s.check(err); n != int64(replicas) {
			s.fail(fmt.Errorf("%w: %d of %d replicas have what was written", errLate, n, replicas))
		}
	}
	written()
	s.locksAt(master.Target)
	s.config.Replicas = replicas - 1
	fallBehind := func() {
		written()
		link.Partition()
	}
	promote := func() {
		s.check(master.Kill())
		promoted, err := behind.Dial(s.ctx)
		s.check(err)
		s.own(promoted)
		s.check(promoted.Do(s.ctx, "REPLICAOF", "NO", "ONE").Err())
		if s.scheme.replicas() > 0 { // nobody would get its lock without one
			s.follow(ahead, promoted, behind.Target)
		}
		s.locksAt(behind.Target) // for those who come now
		s.config.Replicas = 0
	}
	return besideHolder(s, fallBehind, promote, how)
}

// follow makes a server the replica of a new master.
func (s *setup) follow(replica *backend.Server, master *backend.Conn, at backend.Target) {
	conn, err := replica.Dial(s.ctx)
	s.check(err)
	defer conn.Close()
	host, port, _ := net.SplitHostPort(at.Addr)
	s.check(conn.Do(s.ctx, "REPLICAOF", host, port).Err())
	n, err := master.Wait(s.ctx, 1, clientTimeout).Result()
	if s.check(err); n < 1 {
		s.fail(fmt.Errorf("%w: the new master has no replica", errLate))
	}
}

// redis starts a Redis for the locks, apart from the market's, that ends with the setup.
func (s *setup) redis(args ...string) *backend.Server {
	server, err := backend.Local{Args: args}.Start(s.ctx)
	if err != nil {
		s.fail(fmt.Errorf("a Redis for the locks (apt-get install redis-server installs it): %w", err))
	}
	s.own(server)
	return server
}

// syncAtOnce lets a replica not wait for others before it synchronizes.
var syncAtOnce = []string{"--repl-diskless-sync-delay", "0"}

// replicaOf are the arguments that make a Redis a replica.
func replicaOf(t backend.Target) []string {
	host, port, _ := net.SplitHostPort(t.Addr)
	return append([]string{"--replicaof", host, port}, syncAtOnce...)
}

// redlockDown is a scenario with n of Redlock's five masters down.
func redlockDown(name, title string, n int, promise string) Scenario {
	return Scenario{
		Name: name, Title: title, Promise: promise, Needs: "redis-server", Applies: needsMasters,
		run: func(s *setup) observed {
			a, b := s.client("A"), s.client("B")
			for i := range n {
				s.check(s.masters.Kill(i))
			}
			start := time.Now()
			a.buy(s.item(0), at(step.BeforeWrite))
			if a.held(s.forGood()) == "" {
				return s.saw(result.NeverIn, "no majority is left: nobody gets in until a master is back")
			}
			in := b.buyBeside(s.item(0))
			s.checkInTime(start)
			a.finish()
			b.finish()
			return s.sawBeside(in, s.newcomer(b, s.item(1)), "two held it at the same time",
				"a majority is left: one gets in at a time")
		},
	}
}

func redlockRestart(s *setup) observed {
	s.check(errors.Join(s.masters.Kill(3), s.masters.Kill(4)))
	return besideHolder(s, func() {}, func() { // it holds masters 0, 1 and 2
		for _, i := range []int{2, 3, 4} {
			s.check(s.masters.Restart(s.ctx, i))
		}
	}, "one master forgot, so another majority was free: another gets in beside the holder")
}

// redlockClock lets the holder reach masters 0, 1 and 2 only, and the next one all of them.
func redlockClock(s *setup) observed {
	all := s.config.Masters
	proxies := s.lockProxies()
	for _, p := range proxies[3:] {
		p.Disconnect()
	}
	return besideHolder(s, func() {}, func() {
		s.expireAll(2)
		s.config.Masters = all
	}, "one master let the lock expire early, so another majority was free: another gets in beside the holder")
}

// expireAll makes everything on a master expire that would do so one day, as if its clock had jumped there.
func (s *setup) expireAll(master int) {
	conn, err := s.masters.Dial(s.ctx, master)
	s.check(err)
	defer conn.Close()
	keys, err := conn.Keys(s.ctx, "*").Result() // of a server of this setup's own
	s.check(err)
	for _, key := range keys {
		left, err := conn.PTTL(s.ctx, key).Result()
		s.check(err)
		if left > 0 {
			s.check(conn.PExpireAt(s.ctx, key, time.Unix(1, 0)).Err())
		}
	}
}

func leaderKilled(s *setup) observed {
	start, addrs := servers.StartEtcd, &s.config.Etcd
	if s.scheme.need() == lock.NeedsZooKeeper {
		start, addrs = servers.StartZooKeeper, &s.config.ZooKeeper
	}
	three, err := start(s.ctx, 3)
	s.check(err)
	s.own(three)
	*addrs = three.Addrs()
	killLeader := func() {
		ctx, cancel := context.WithTimeout(s.ctx, clientTimeout)
		defer cancel()
		leader, err := three.Leader(ctx)
		s.check(err)
		s.check(three.Kill(leader))
		_, err = three.Leader(ctx) // waits for the next one
		s.check(err)
	}
	return besideHolder(s, func() {}, killLeader, "the lock was lost with its leader")
}
