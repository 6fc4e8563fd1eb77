package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies/lock"
)

// TestNotTested: "survived" is said only where something could have failed.
func TestNotTested(t *testing.T) {
	all := map[string]int64{string(ClientPause): 3, string(ServerKill): 1, string(ServerPause): 1, string(LockKill): 1}
	without := func(kind FaultKind) map[string]int64 {
		some := map[string]int64{}
		for k, n := range all {
			if k != string(kind) {
				some[k] = n
			}
		}
		return some
	}
	met := result.Row{Bought: 10, Gone: 3}
	for _, c := range []struct {
		name      string
		row       result.Row
		faults    map[string]int64
		expiry    lock.Expiry
		own       bool
		outlasted int64
		says      string // empty: it survived
	}{
		{"without a lease", met, all, lock.Expiry{}, false, 0, ""},
		{"pauses longer than leases", met, all, lock.Expiry{After: time.Second}, false, 1, ""},
		{"servers of its own, struck", met, all, lock.Expiry{After: time.Second}, true, 1, ""},
		{"servers of its own, left alone", met, without(LockKill), lock.Expiry{After: time.Second}, true, 1,
			"the lock's own servers"},
		{"no long pause", met, all, lock.Expiry{After: 10 * time.Second}, false, 0, "longer than its lock's lease of 10s"},
		{"renewed all the while", met, all, lock.Expiry{After: time.Second, Renewed: true}, false, 0, "renews in the background"},
		{"no pause", met, without(ClientPause), lock.Expiry{}, false, 0, "none was paused"},
		{"no crash", met, without(ServerKill), lock.Expiry{}, false, 0, "a crash and a pause of the market's server"},
		{"coins ran short", result.Row{Bought: 10, Gone: 3, Refused: map[string]int64{"insufficient_funds": 2}}, all,
			lock.Expiry{}, false, 0, ""},
		{"coins never ran short", result.Row{Bought: 10, Gone: 3, Refused: map[string]int64{}}, all,
			lock.Expiry{}, false, 0, "whether an account is overdrawn"},
		{"nobody bought", result.Row{Gone: 3}, all, lock.Expiry{}, false, 0, "no two met"},
		{"no two met", result.Row{Bought: 10}, all, lock.Expiry{}, false, 0, "no two met"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNemesis(nil, Options{Expiry: c.expiry, OwnLockServers: c.own, Accounts: c.row.Refused != nil})
			n.outlasted = c.outlasted
			c.row.Audit = result.Audit{Done: true, OK: true}
			c.row.Chaos = &result.Chaos{Faults: c.faults}
			n.conclude(&c.row)
			if got := strings.Join(c.row.Chaos.NotTested, "; "); !strings.Contains(got, c.says) || (got == "") != (c.says == "") ||
				c.row.Chaos.Survived() != (c.says == "") {
				t.Errorf("not tested is %q, want %q", got, c.says)
			}
		})
	}
}

// TestConclude: what became of the market and of the lock are two findings.
func TestConclude(t *testing.T) {
	part := func(name string, answer history.Answer, wrong int) history.Part {
		return history.Part{Name: name, Answer: answer, Wrong: wrong}
	}
	for _, c := range []struct {
		name    string
		audited result.MarketState
		parts   []history.Part
		market  result.MarketState
		two     int64 // -1: it is not known
	}{
		{"held by two, and nothing wrong", result.MarketRight,
			[]history.Part{part("items", history.Linearizable, 0), part(history.LocksPart, history.Violated, 5)},
			result.MarketRight, 5},
		{"wrong, and never held by two", result.MarketRight,
			[]history.Part{part("items", history.Violated, 1), part(history.LocksPart, history.Linearizable, 0)},
			result.MarketWrong, 0},
		{"an audit's finding stays", result.MarketWrong, []history.Part{part("items", history.Linearizable, 0)},
			result.MarketWrong, -1},
		{"not decided", result.MarketRight,
			[]history.Part{part("accounts", history.Undecided, 0), part(history.LocksPart, history.NotChecked, 0)},
			result.MarketUndecided, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := result.Chaos{Market: c.audited}
			if !slices.ContainsFunc(c.parts, func(p history.Part) bool { return p.Name == history.LocksPart }) {
				c.parts = append(c.parts, part(history.LocksPart, history.NotChecked, 0))
			}
			c.parts = append(c.parts, part(history.TokensPart, history.NotChecked, 0))
			Conclude(&got, history.CheckResult{Parts: c.parts})
			two := int64(-1)
			if got.HeldByTwo != nil {
				two = *got.HeldByTwo
			}
			if got.Market != c.market || two != c.two || got.TokensNotGrown != nil {
				t.Errorf("got %+v, held by two %d; want %s and %d", got, two, c.market, c.two)
			}
		})
	}
}
