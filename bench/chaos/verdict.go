package chaos

import (
	"fmt"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// conclude adds to a row what its operations and its audit have shown of the market and of the lock, and what they
// cannot have shown, because nothing struck that could have broken it.
func (n *nemesis) conclude(r *result.Row) {
	c := r.Chaos
	n.mu.Lock()
	outlasted := n.outlasted
	n.mu.Unlock()
	lost := r.LeasesLost + r.Refused[market.Reason(market.ErrLockLost)]
	stale := r.Refused[market.Reason(market.ErrStale)]
	c.Times = n.allTimes(c.Times)
	c.LeasesLost, c.StaleRefused, c.LeasesOutlasted = &lost, &stale, &outlasted
	c.Market = result.MarketRight
	if r.Audit.Done && !r.Audit.OK {
		c.Market = result.MarketWrong
	}
	c.NotTested = nil
	not := func(format string, args ...any) { c.NotTested = append(c.NotTested, fmt.Sprintf(format, args...)) }
	struck := func(kinds ...FaultKind) (total int64) {
		for _, k := range kinds {
			total += c.Faults[string(k)]
		}
		return total
	}
	switch e := n.Expiry; {
	case struck(ClientPause) == 0:
		not("what a pause of a client does: none was paused")
	case e.After > 0 && e.Renewed && outlasted == 0:
		where := "give more --duration"
		if n.child == nil {
			where = "no worker has a process of its own that can be paused"
		}
		not("what the end of a lease does: no process stopped for longer than its lock's lease of %s, which it renews "+
			"in the background; %s", e.After, where)
	case e.After > 0 && outlasted == 0:
		not("what the end of a lease does: no client was paused for longer than its lock's lease of %s; "+
			"shorten the lease, or give more --duration", e.After)
	}
	onCluster := n.Setup != nil && n.cluster != nil
	switch {
	case onCluster && (struck(SlotMove) == 0 || struck(MasterKill) == 0):
		not("what a move of the market's slot and the death of its master do")
	case !onCluster && (struck(ServerKill) == 0 || struck(ServerPause) == 0):
		not("what a crash and a pause of the market's server do")
	}
	if n.OwnLockServers && struck(LockKill, LockPause) == 0 {
		not("what a failure of the lock's own servers does: none was struck")
	}
	if n.Accounts && r.Refused[market.Reason(market.ErrInsufficientFunds)] == 0 {
		not("whether an account is overdrawn: none ran short of coins")
	}
	if r.Bought == 0 || r.Gone+r.Polls+r.Retries == 0 {
		not("whether two who want one item both get it: no two met")
	}
}

// Conclude adds to a row what its history shows: the audit looks at the end of a round, and the history at all that was
// answered on the way there.
func Conclude(c *result.Chaos, v history.CheckResult) {
	switch {
	case c.Market == result.MarketWrong || v.Market() == history.Violated:
		c.Market = result.MarketWrong
	case v.Market() != history.Linearizable:
		c.Market = result.MarketUndecided
	}
	if p := v.Part(history.LocksPart); p.Answer != history.NotChecked {
		n := int64(p.Wrong)
		c.HeldByTwo = &n
	}
	if p := v.Part(history.TokensPart); p.Answer != history.NotChecked {
		n := int64(p.Wrong)
		c.TokensNotGrown = &n
	}
}
