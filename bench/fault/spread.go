package fault

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/spread"
	"github.com/marketsim/marketsim/market/step"
)

// spreadFaults are scenarios of a market whose keys share no slot of a Redis Cluster (see package spread).
func spreadFaults() []Scenario {
	return []Scenario{{
		Name: "crash-between-writes", Title: "buyers die, each between two other writes of a purchase; no two keys share a slot",
		Needs: "redis-server, redis-cli", spread: true, place: sharedCluster, run: crashBetweenWrites,
	}, {
		Name: "spread-promoted", Title: "the buyer's master dies, and a replica that lags behind is promoted; no two keys " +
			"share a slot",
		Needs: "redis-server, redis-cli, Unix signals", spread: true, place: ownCluster, run: buyersMasterPromoted,
	}}
}

// Spread reports whether the market's keys share no slot in the scenario: it is for strategies that are made for that, and
// they for it.
func (sc Scenario) Spread() bool { return sc.spread }

// seedSpread makes a market whose keys share no slot.
func (s *setup) seedSpread(opening market.Opening) {
	nodes := s.server.Cluster().Nodes(backend.Dial)
	s.own(nodes)
	s.slots = nodes
	s.check(spread.Seed(s.ctx, s.slots, s.keys, opening))
	var err error
	s.first, err = spread.Mint(s.ctx, s.slots, new(market.Minter), s.keys, seller)
	s.check(err)
	for item := s.first; item < s.first+offered; item++ {
		key := s.keys.Item(item)
		rdb, err := s.slots.For(s.ctx, key)
		s.check(err)
		s.check(rdb.HSet(s.ctx, key, "price", price).Err())
	}
}

// snapshot reads the market.
func (s *setup) snapshot() (market.Snapshot, error) {
	if s.slots == nil {
		return market.ReadSnapshot(s.ctx, s.conn.Client, s.keys, accounts)
	}
	return spread.ReadSnapshot(s.ctx, s.slots, s.keys, accounts, s.first+market.BatchSize-1)
}

// endOperations finishes what clients have left under way, which the layout asks for before anybody counts.
func (s *setup) endOperations() (ended int) {
	if s.slots == nil {
		return 0
	}
	ended, err := spread.EndAll(s.ctx, s.slots, s.keys, s.first+market.BatchSize-1)
	s.check(err)
	return ended
}

// crashBetweenWrites lets the first buyer die when it has made one write of its purchase, the next one when it has made two,
// and so on, until one lives to make all.
func crashBetweenWrites(s *setup) observed {
	between := []step.Point{
		at(step.BetweenWrites), at(step.BetweenWrites), // of a strategy with three writes
		at(step.BeforePay), at(step.BeforeDecide), at(step.BeforeCredit), at(step.BeforeEnd), // of one with five
	}
	died, c := 0, s.client("A")
	for c.buy(s.item(0), between...); c.heldAgain(died); c.buy(s.item(died), between...) {
		c.kill()
		died++
		c = s.client(string(rune('A' + died)))
	}
	if !c.op.done || !c.op.outcome.Applied() {
		s.fail(fmt.Errorf("%w: a buyer who lives does not buy: %s", errLate, c.op.outcome))
	}
	ended := s.endOperations()
	how := fmt.Sprintf("%s, each between two other writes", english.Plural(died, "buyer dies", "buyers die"))
	o := s.saw(result.NotAsked, fmt.Sprintf("%s; anybody can finish what they leave at the items (%d of them)", how, ended))
	if o.harm != result.NoHarm {
		o.why = how + ", and nothing says what was under way: " + o.why
	}
	return o
}

// heldAgain reports whether a client is held once more after it was held so many times, and let go.
func (c *client) heldAgain(times int) bool {
	for range times {
		if c.held(clientTimeout) == "" {
			return false
		}
		c.goOn()
	}
	return c.held(clientTimeout) != ""
}

// buyersMasterPromoted lets a buyer make purchases whose debits the replica of its account's master does not get, kills that
// master, and lets the buyer go on when the replica has taken its place. The items and the seller's account are elsewhere.
func buyersMasterPromoted(s *setup) observed {
	a := s.client("A")
	pair := s.replicated(s.keys.Account(a.account), guard{})
	elsewhere := s.elsewhere(pair.master)
	buys := func(item market.ItemID) bool {
		a.buy(item)
		return a.ends().Applied()
	}
	if !buys(elsewhere[0]) {
		s.fail(fmt.Errorf("%w: nothing is wrong yet, and a purchase is %s", errLate, a.op.outcome))
	}
	pair.fallBehind(s)
	for _, item := range elsewhere[1:][:boughtBehind] {
		if !buys(item) {
			s.fail(fmt.Errorf("%w: the master lives, and a purchase is %s", errLate, a.op.outcome))
		}
	}
	last := time.Now()
	s.check(s.cluster.Kill(pair.master))
	s.check(s.cluster.Resume(pair.replica))
	for next := 1 + boughtBehind; !buys(elsewhere[next]); {
		if a.op.outcome.Unknown() {
			next++ // it may be bought
		}
		if next == len(elsewhere) || time.Since(last) > clientTimeout {
			s.fail(fmt.Errorf("%w: no purchase after the promotion is known to be made", errLate))
		}
	}
	unserved := time.Since(last)
	o := s.sawDebitsGone(a.account)
	o.unserved = unserved
	return o
}

// elsewhere are listed items of other masters than this one, enough for the purchases of a failover.
func (s *setup) elsewhere(master int) (items []market.ItemID) {
	const enough = boughtBehind + 3
	off := func(key string) bool {
		i, err := s.cluster.Master(s.ctx, key)
		s.check(err)
		return i != master
	}
	for i := range offered {
		if off(s.keys.Item(s.item(i))) {
			items = append(items, s.item(i))
		}
	}
	if len(items) < enough || !off(s.keys.Account(seller)) {
		s.fail(fmt.Errorf("%d items are on other masters than the buyer's account, want %d, and the seller's account, too",
			len(items), enough))
	}
	return items
}

// sawDebitsGone counts the market, and the debits of a buyer's acknowledged purchases that the server has lost. They are no
// mistake of the scheme; anything else that is wrong is judged as ever.
func (s *setup) sawDebitsGone(buyer market.UserID) observed {
	s.check(s.endClients())
	s.endOperations()
	after, err := s.snapshot()
	s.check(err)
	back := after.Funds[buyer] - (s.before.Funds[buyer] - price*int64(len(after.Inventory[buyer])))
	gone := min(max(back/price, 0), boughtBehind)
	s.before.Funds[buyer] += gone * price // as if these purchases had been free
	o := s.saw(result.NotAsked, "no debit that was acknowledged is gone")
	if o.harm == result.NoHarm && gone > 0 {
		o.harm, o.gone = result.CoinsMade, int(gone)
		o.why = fmt.Sprintf("Redis lost the debits of %s that it had acknowledged: the buyer has the items and the coins back, "+
			"and %d coins came from nowhere", english.Plural(int(gone), "purchase", ""), gone*price)
	}
	return o
}
