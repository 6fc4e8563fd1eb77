package fault

import (
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
)

func slotMove() Scenario {
	return Scenario{
		Name: "slot-move", Title: "the market's slot moves to another master while clients buy",
		Needs: "redis-server, redis-cli", OnCluster: true, run: moveSlot,
	}
}

// moveSlot moves the market's slot under two clients, of which one follows: first when all keys
// have moved and the slot has not (ASK), then when the slot has (MOVED). What is refused was
// not executed. Whoever connects anew afterwards finds the slot; the scenario looks whether it
// is kept out by a lock that a client could not release meanwhile.
func moveSlot(s *setup) observed {
	stays := s.client("A")
	s.config.Follow = true
	follows := s.client("B")
	s.config.Follow = false

	other := must(s.cluster.OtherMaster(s.ctx, s.keys.Market()))
	move := must(s.cluster.BeginMove(s.ctx, s.keys.Market(), other))
	check(move.AllKeys(s.ctx))

	var refused [2][2]bool    // of the one that stays and of the one that follows, by the stage
	var asked [2][2]time.Time // since when a lock may have been left behind, at the earliest
	for stage := range 2 {
		if stage == 1 {
			check(move.AllKeys(s.ctx)) // those that clients have made
			check(move.End(s.ctx))
			s.noteFault(true, "")
		}
		for who, c := range []*client{stays, follows} {
			asked[who][stage] = time.Now()
			o := c.buyToEnd(s.item(2*stage + who))
			if o.Unknown() || !o.Applied() && o.Reason != market.Reason(market.ErrRejected) {
				fail(fmt.Errorf("%w: an order of client %s is %s", errLate, c.name, o))
			}
			refused[who][stage] = !o.Applied()
		}
	}

	s.awaitMaster(other)
	anew := s.client("C")
	kept := verify.AtOnce
	for who, stages := range refused {
		for stage, was := range stages {
			if !was {
				continue
			}
			since := asked[who][stage]
			if !s.scheme.TakesLock() {
				since = time.Now()
			}
			kept = longer(kept, anew.keptFrom(s.item(2*stage+who), since))
		}
	}
	return s.conclude(kept, toldOf("one that does not follow", refused[0])+"; "+toldOf("one that follows", refused[1]))
}

// awaitMaster returns when the cluster says that a node has the market's slot, and goes there.
func (s *setup) awaitMaster(node int) {
	check(process.Await(s.ctx, pollEvery, func() error {
		master, err := s.cluster.Master(s.ctx, s.keys.Market())
		if err == nil && master != node {
			err = fmt.Errorf("%s has the slot, and not yet %s", s.cluster.Addrs()[master], s.cluster.Addrs()[node])
		}
		return err
	}))
	s.conn = own(s, must(s.server.Dialer(s.keys.Market()).Dial(s.ctx)))
}

// toldOf says what a client met while the slot moved, and afterwards.
func toldOf(who string, refused [2]bool) string {
	switch refused {
	case [2]bool{true, true}:
		return who + " is refused while the slot moves, and afterwards until it connects anew"
	case [2]bool{true, false}:
		return who + " is refused while the slot moves, and served afterwards"
	case [2]bool{false, true}:
		return who + " is served while the slot moves, and refused once afterwards"
	}
	return who + " is served all the time"
}
