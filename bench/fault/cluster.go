package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
)

// clusterFaults are scenarios of a market on a Redis Cluster.
func clusterFaults() []Scenario {
	const needs = "redis-server, redis-cli, Unix signals"
	promoted := func(name, how string, guard guard) Scenario {
		return Scenario{
			Name: name, Title: "the market's master dies, and a replica that lags behind is promoted" + how, Needs: needs,
			Applies: needsToFollow, place: ownCluster, run: func(s *setup) observed { return masterPromoted(s, guard) },
		}
	}
	return []Scenario{{
		Name: "slot-moved", Title: "the market's slot moves to another master of a cluster while clients buy",
		Needs: "redis-server, redis-cli", Applies: needsToFollow, place: sharedCluster, run: slotMoved,
	},
		promoted("master-promoted", "", guard{}),
		promoted("master-promoted-wait", "; each purchase asks with WAIT 1 whether a replica has it", guard{wait: true}),
		promoted("master-promoted-min", "; masters have min-replicas-to-write 1", guard{min: true}),
	}
}

// needsToFollow keeps out schemes whose clients are held at a proxy.
func needsToFollow(s Scheme) string {
	if !s.Steps {
		return "its clients are held at a proxy of one master, and cannot follow to another"
	}
	return ""
}

// A guard is what protects purchases from a failover.
type guard struct {
	wait bool // clients ask whether a replica has a purchase
	min  bool // masters refuse writes where they miss their replicas
}

// sharedCluster places the market on the cluster that all setups share.
func sharedCluster(s *setup) *backend.Server {
	s.runner.mu.Lock()
	defer s.runner.mu.Unlock()
	if s.runner.cluster == nil {
		c, err := servers.StartCluster(s.ctx)
		s.check(err)
		s.runner.cluster = c
	}
	s.cluster = s.runner.cluster
	return s.cluster.Server()
}

// ownCluster places the market on a cluster that ends with the setup.
func ownCluster(s *setup) *backend.Server {
	c, err := servers.StartCluster(s.ctx)
	s.check(err)
	s.own(c)
	s.cluster = c
	return c.Server()
}

// slotMoved moves the market's slot under three buyers: one is held before it writes while a part of the keys moves
// (TRYAGAIN), one buys when all have (ASK), and one when the slot belongs to the other master (MOVED). Whoever is refused
// because of that tries again when the slot has moved.
func slotMoved(s *setup) observed {
	a, b, c := s.client("A"), s.client("B"), s.client("C")
	other, err := s.cluster.OtherMaster(s.ctx, s.keys.Market())
	s.check(err)
	move, err := s.cluster.BeginMove(s.ctx, s.keys.Market(), other)
	s.check(err)
	a.buyUntil(s.item(0), step.BeforeWrite)
	s.check(move.Keys(s.ctx, s.keys.Market()))
	a.goOn()
	a.endsWithin(s.ttl / 4)
	s.check(move.Keys(s.ctx))
	b.buy(s.item(1))
	b.endsWithin(s.ttl / 4)
	s.check(move.End(s.ctx))
	c.buy(s.item(2))
	refused := 0
	for i, x := range []*client{a, b, c} {
		for x.ends().Reason == market.Reason(market.ErrRejected) {
			refused++
			x.buy(s.item(i))
		}
		if !x.op.outcome.Applied() {
			return s.saw(result.NotAsked, fmt.Sprintf("a purchase of client %s ends otherwise: %s", x.name, x.op.outcome))
		}
	}
	why := "each buyer follows the slot and is served once"
	if refused > 0 {
		why += "; a transaction begun before a move is refused, and made again"
	}
	return s.saw(result.NotAsked, why)
}

const (
	// boughtBehind is how many purchases are made that no replica gets.
	boughtBehind = 3
	// minReplicasLag is min-replicas-max-lag where masters miss their replicas: how many seconds.
	minReplicasLag = 2
)

// masterPromoted lets a buyer make purchases that the master's replica does not get, kills the master, and lets another
// buy when the replica has taken its place: first an item that was bought.
func masterPromoted(s *setup, g guard) observed {
	if g.wait {
		s.config.Confirm = 1
	}
	a, b := s.client("A"), s.client("B")
	pair := s.replicated(s.keys.Market(), g)
	buys := func(c *client, item int) Outcome {
		c.buy(s.item(item))
		o, ended := c.endsWithin(minReplicasLag * time.Second)
		if !ended { // a master that misses its replica already
			s.fail(errLate)
		}
		return o
	}
	if o := buys(a, boughtBehind); !o.Applied() {
		s.fail(fmt.Errorf("%w: nothing is wrong yet, and a purchase is %s", errLate, o))
	}
	last := time.Now()
	pair.fallBehind(s)
	for i := range boughtBehind {
		if buys(a, i).Applied() {
			last = time.Now()
		}
	}
	if g.min {
		s.check(backend.Await(s.ctx, pollEvery, pair.refuses(s)))
	}
	s.check(s.cluster.Kill(pair.master))
	s.check(s.cluster.Resume(pair.replica))
	b.buy(s.item(0))
	if g != (guard{}) { // nobody is served until the promoted one has a replica
		promotion, cancel := context.WithTimeout(s.ctx, clientTimeout)
		defer cancel()
		s.check(s.cluster.AwaitMaster(promotion, s.keys.Market(), pair.replica))
		s.check(s.cluster.Restart(s.ctx, pair.master))
	}
	for item := 0; !b.ends().Applied(); b.buy(s.item(item)) {
		s.wait(pollEvery)
		if b.op.outcome.Unknown() {
			item++ // it may be bought
		}
		if item == boughtBehind {
			s.fail(fmt.Errorf("%w: no purchase after the promotion is known to be made", errLate))
		}
	}
	unserved := time.Since(last)
	o := s.sawGone(g, pair)
	o.unserved = unserved
	return o
}

// A pair is the master of a key and its replica, by their numbers in the cluster.
type pair struct {
	key             string
	master, replica int
	conn            *backend.Conn // to the master, and nobody else
}

// replicated returns the master of a key and its replica, which has all that was written.
func (s *setup) replicated(key string, g guard) pair {
	p := pair{key: key}
	var err error
	p.master, err = s.cluster.Master(s.ctx, key)
	s.check(err)
	p.replica, err = s.cluster.ReplicaOf(s.ctx, p.master)
	s.check(err)
	p.conn, err = backend.Dial(s.ctx, backend.Target{Network: "tcp", Addr: s.cluster.Addrs()[p.master]})
	s.check(err)
	s.own(p.conn)
	if g.min {
		s.check(s.cluster.Configure(s.ctx, p.master, "min-replicas-max-lag", fmt.Sprint(minReplicasLag)))
		for _, node := range []int{p.replica, p.master} {
			s.check(s.cluster.Configure(s.ctx, node, "min-replicas-to-write", "1"))
		}
	}
	s.check(p.conn.Set(s.ctx, p.flood(), "", 0).Err())
	n, err := p.conn.Wait(s.ctx, 1, clientTimeout).Result()
	if s.check(err); n != 1 {
		s.fail(fmt.Errorf("%w: %d replicas have what was written", errLate, n))
	}
	return p
}

// flood is a key in the same slot, by its braces, that is written to fill what lies between the two.
func (p pair) flood() string { return p.key + "flood" }

// fallBehind stops the replica, and fills its connection: what is written after that stays in the master's memory, and
// dies with it. Neither of the two notices at once, as where packets are lost.
func (p pair) fallBehind(s *setup) {
	s.check(s.cluster.Pause(p.replica))
	const much, enough, settles = 1 << 20, 4 << 20, 20 * time.Millisecond
	block := strings.Repeat("x", much)
	for {
		if p.unsent(s) >= enough {
			s.wait(settles)
			if p.unsent(s) >= enough {
				return
			}
		}
		s.check(p.conn.Set(s.ctx, p.flood(), block, 0).Err())
	}
}

// unsent is how many bytes the master could not send to its replica.
func (p pair) unsent(s *setup) (bytes int) {
	clients, err := p.conn.Do(s.ctx, "client", "list", "type", "replica").Text()
	s.check(err)
	for _, field := range strings.Fields(clients) {
		_, _ = fmt.Sscanf(field, "omem=%d", &bytes)
	}
	return bytes
}

// refuses says why the master does not refuse writes yet.
func (p pair) refuses(s *setup) func() error {
	return func() error {
		if err := p.conn.Set(s.ctx, p.flood(), "", 0).Err(); !backend.Redirected(err) {
			return fmt.Errorf("the master goes on without its replica: %v", err)
		}
		return nil
	}
}

// sawGone counts the market, and the purchases that were acknowledged and are gone. What is gone is no mistake of the
// scheme; anything else that is wrong is judged as ever: each purchase is one write, so that what the server has is what it
// had at one time, and then what was done since.
func (s *setup) sawGone(g guard, p pair) observed {
	s.check(s.endClients())
	s.check(s.conn.Close())
	s.check(s.cluster.AwaitMaster(s.ctx, p.key, p.replica))
	s.check(backend.Await(s.ctx, pollEvery, func() (err error) { // until every node knows
		if err = s.server.Cluster().Refresh(s.ctx); err == nil {
			s.conn, err = s.server.Dialer(p.key)(s.ctx)
		}
		return err
	}))
	after, err := s.snapshot()
	s.check(err)
	sold, again, gone := map[market.ItemID]bool{}, false, 0
	s.operations = slices.DeleteFunc(s.operations, func(op *operation) bool {
		if !op.outcome.Applied() {
			return false
		}
		again = again || sold[op.order.Item]
		sold[op.order.Item] = true
		if after.Inventory[op.order.Buyer][op.order.Item] {
			return false
		}
		gone++
		return true
	})
	o := s.saw(result.NotAsked, "no purchase that was acknowledged is gone")
	if o.harm != result.NoHarm {
		return o
	}
	if o.gone = gone; gone > 0 {
		o.harm = result.PurchasesGone
		o.why = english.Plural(gone, "purchase", "") + " that had been acknowledged are gone"
	}
	if again {
		o.why += ", and an item of them was sold again: two buyers were told that it is theirs"
	}
	if g.wait {
		o.why += "; of those that no replica had in time nobody was told that they were made"
	}
	if g.min {
		o.why += fmt.Sprintf("; the master refused writes when it had missed its replica for %d s (min-replicas-max-lag), and "+
			"the promoted one does until it has a replica", minReplicasLag)
	}
	return o
}
