package fault

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

// Scenarios lists DefaultScenarios, and then those on a Redis Cluster, which run if asked
// for: each starts one, which takes seconds.
func Scenarios() []Scenario {
	return append(DefaultScenarios(), Scenario{
		Name:      "master-promoted",
		Title:     "the market's master dies, and a replica that lags behind is promoted",
		Needs:     "redis-server, redis-cli, Unix signals",
		OnCluster: true,
		run:       masterPromoted,
	}, slotMove())
}

const boughtBehind = 3 // how many purchases are made that no replica gets

// masterPromoted lets a buyer make purchases that the master's replica does not
// get, kills the master, and lets another buy when the replica has taken its place:
// first an item that was bought, and the next one whenever it is unknown whether an order was
// applied.
func masterPromoted(s *setup) observed {
	a, b := s.client("A"), s.client("B")
	master := must(s.cluster.Master(s.ctx, s.keys.Market()))
	replica := must(s.cluster.ReplicaOf(s.ctx, master))

	if o := a.buyToEnd(s.item(boughtBehind)); !o.Applied() {
		fail(fmt.Errorf("%w: nothing is wrong yet, and a purchase is %s", errLate, o))
	}

	last := time.Now()
	s.fallBehind(s.dial(s.cluster.Redises[master]), s.cluster.Redises[replica])
	for i := range boughtBehind {
		if a.buyToEnd(s.item(i)).Applied() {
			last = time.Now()
		}
	}

	check(s.cluster.Redises[master].Kill())
	s.noteFault(true, "") // the market was there
	check(s.cluster.Redises[replica].Resume())

	b.buy(s.item(0))
	for item := 0; !b.ends().Applied(); b.buy(s.item(item)) {
		s.wait(pollEvery)
		if b.op.outcome.Unknown() {
			item++ // it may be bought
		}
		// All were tried, and none is known to be bought: the scheme waits for replicas, and
		// the promoted master has none.
		if n := s.scheme.value("replicas"); item == boughtBehind && n != "" && n != "0" {
			o := s.concludeGone(replica)
			o.Why += "; and none is acknowledged until the promoted master has a replica of its own"
			return o
		}
		if item == boughtBehind || time.Since(last) > clientTimeout {
			fail(fmt.Errorf("%w: no purchase after the promotion is known to be made", errLate))
		}
	}

	unserved := time.Since(last)
	o := s.concludeGone(replica)
	o.SecondsWithoutService = math.Round(10*unserved.Seconds()) / 10
	return o
}

// fallBehind stops a replica that has all that was written, and fills its connection:
// what is written after that stays in the master's memory, and dies with it. Neither of
// the two notices at once, just as when packets are lost.
func (s *setup) fallBehind(master *redisconn.Conn, replica *backend.Server) {
	flood := s.keys.Market() + "flood" // in the same slot, by its braces
	s.replicates(master, flood)
	s.pauses(replica)

	// What the connection takes has been taken when the rest stays where it is.
	const much, enough, settles = 1 << 20, 4 << 20, 20 * time.Millisecond
	block := strings.Repeat("x", much)

	for {
		if s.unsentBytes(master) >= enough {
			s.wait(settles)
			if s.unsentBytes(master) >= enough {
				return
			}
		}
		check(master.Set(s.ctx, flood, block, 0).Err())
	}
}

// unsentBytes is how many bytes a master could not send to its replica.
func (s *setup) unsentBytes(master *redisconn.Conn) (bytes int) {
	clients := must(master.Do(s.ctx, "client", "list", "type", "replica").Text())
	for _, field := range strings.Fields(clients) {
		_, _ = fmt.Sscanf(field, "omem=%d", &bytes)
	}
	return bytes
}

// concludeGone counts the market, and the purchases that were acknowledged and are gone, which
// is no mistake of the scheme. Other harm is one: a purchase is one write, so the new
// master has what it had at some time, and what was done since.
func (s *setup) concludeGone(replica int) observed {
	check(s.endClients())
	check(process.Await(s.ctx, pollEvery, func() error {
		master, err := s.cluster.Master(s.ctx, s.keys.Market())
		if err == nil && master != replica {
			addrs := s.cluster.Addrs()
			err = fmt.Errorf("%s has not taken the place of %s", addrs[replica], addrs[master])
		}
		if err == nil { // until now it was to the master that is dead
			s.conn, err = s.server.Dialer(s.keys.Market()).Dial(s.ctx)
		}
		return err
	}))
	own(s, s.conn)

	after := s.snapshot()
	sold := map[market.ItemID]bool{}
	again := false // an item was sold again
	gone := 0      // purchases that were applied, and that the new master lacks

	// conclude must not see those that are gone: it would count each as wrongly told yes.
	s.operations = slices.DeleteFunc(s.operations, func(op *operation) bool {
		if !op.outcome.Applied() {
			return false
		}
		again = again || sold[op.Order.Item]
		sold[op.Order.Item] = true
		if after.Inventory[op.Order.Buyer][op.Order.Item] {
			return false
		}
		gone++
		return true
	})

	o := s.conclude(verify.NotAsked, "no purchase that was acknowledged is gone")
	if o.Harm != verify.NoHarm {
		return o
	}

	o.Gone = gone
	if gone > 0 {
		o.Harm = verify.PurchasesGone
		o.Why = fmt.Sprintf("%s that had been acknowledged %s gone", english.Plural(gone, "purchase", ""),
			english.PluralWord(gone, "is", "are"))
	}
	if again {
		o.Why += ", and an item of them was sold again: two buyers were told that it is theirs"
	}
	return o
}
