package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/chaos"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/step"
)

func parse(t *testing.T, spec string) strategies.Spec {
	t.Helper()
	s, err := catalogue.Full().Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a rough row and checks what holds of all: no key is left.
func run(ctx context.Context, t *testing.T, a *chaos.Arena, keys market.Keys, spec string, mix bench.Mix, storm bench.Storm, tell func(bench.Round)) bench.Row {
	t.Helper()
	s := parse(t, spec)
	_, locked := s.Lock()
	row, err := bench.Run(ctx, bench.Config{
		Subject: s, Mix: mix, Duration: time.Second, Seed: 1, Funds: bench.DefaultFunds, Keys: keys, Dial: a.Dial,
		Rough: &bench.Rough{
			Storm: storm, Direct: a.Direct, FreeLocks: locked && !s.Promises().SurvivesCrash, Tell: tell,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := a.Direct(context.WithoutCancel(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if left := conn.Keys(t.Context(), "*").Val(); len(left) > 0 {
		t.Errorf("keys are left behind: %q", left)
	}
	return row
}

// sound are combinations that lose nothing, whatever strikes.
var sound = []struct {
	spec string
	ttl  time.Duration
}{
	{"watch", 0},
	{"fine:setnx", 0},
	{"coarse:setnx", 0},
	{"fine:set-px:ttl=500ms:fencing=token", 500 * time.Millisecond},
	{"fine:fenced:ttl=500ms:fencing=on", 500 * time.Millisecond},
}

// index is where a kind stands when the last comes first.
func index(k chaos.Kind) int { return -slices.Index(chaos.Kinds(), k) }

// TestSoundLoseNothing lets every kind of fault strike while they trade.
func TestSoundLoseNothing(t *testing.T) {
	for _, c := range sound {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			a := chaos.Open(t)
			_, locked := parse(t, c.spec).Lock()
			rounds := chaos.Plan{Seed: 3, Duration: 8 * time.Second, TTL: c.ttl}.Rounds()
			// Clients are held first: under the book's lock, nobody may get far after a reply was lost.
			slices.SortStableFunc(rounds[0].Faults, func(a, b chaos.Fault) int {
				return cmp.Compare(index(a.Kind), index(b.Kind))
			})
			storm := a.NewStorm(rounds, chaos.Traders{Locked: locked})
			told := 0
			row := run(t.Context(), t, a, backendtest.Keys(t), c.spec, bench.Mix{Sellers: 5, Buyers: 5}, storm, func(r bench.Round) {
				if told++; r.Number != told || !r.Audit.Done || r.Faults == 0 {
					t.Errorf("round %d is told as %+v", told, r)
				}
			})
			if row.Status != bench.Complete || !row.Audit.OK || row.Bought == 0 || told != len(rounds) {
				t.Errorf("after %d rounds: %+v", told, row)
			}
			for _, k := range chaos.Kinds() {
				if row.Chaos.Faults[string(k)] == 0 && k != chaos.LockKill { // their locks are on the market's server
					t.Errorf("no %s has struck: %v", k, row.Chaos.Faults)
				}
			}
			if row.Chaos.Reopened == 0 {
				t.Error("nobody had to connect anew")
			}
			t.Logf("%d bought, %d unknown, %+v", row.Bought, row.Unknown, row.Chaos)
		})
	}
}

// usurped is a storm of one fault, made by hand: it holds a buyer who is about to write until somebody else has bought
// the item.
type usurped struct {
	*chaos.Arena
	keys market.Keys
	gate *step.Gate
}

// Rounds: the first is to show it. The gate is open in the second.
func (usurped) Rounds() int { return 2 }

func (u usurped) Struck() map[string]int64 { return map[string]int64{string(chaos.ClientPause): 1} }

func (u usurped) Steps(seller bool) step.Observer {
	if seller {
		return nil
	}
	return u.gate.Observe
}

// Strike waits until all items that were on the market when the buyer was held, and so the buyer's too, are sold.
func (u usurped) Strike(ctx context.Context, round int) error {
	defer u.gate.Open()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	select {
	case <-u.gate.Reached():
	case <-ctx.Done():
		return errors.New("no buyer came to the gate")
	}
	conn, err := u.Direct(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	offered, err := conn.ZRange(ctx, u.keys.Market(), 0, -1).Result()
	if err != nil {
		return err
	}
	for _, member := range offered {
		for conn.ZScore(ctx, u.keys.Market(), member).Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("nobody else bought the item: %w", ctx.Err())
	}
	return nil
}

// TestUnsoundAreCaught holds a buyer who is about to write for longer than the lock lives, until somebody else has bought
// the item. The audit of the first quiet point must see it.
func TestUnsoundAreCaught(t *testing.T) {
	for _, spec := range []string{"fine:set-px:ttl=100ms", "fine:fenced:ttl=100ms:fencing=off", "unsafe"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			a := chaos.Open(t)
			storm := usurped{a, backendtest.Keys(t), step.Hold(step.BeforeWrite)}
			row := run(t.Context(), t, a, storm.keys, spec, bench.Mix{Sellers: 2, Buyers: 3}, storm, nil)
			if !row.Audit.Done || row.Audit.OK || row.Audit.ItemProblems == 0 || row.Chaos.Rounds != 1 {
				t.Errorf("after %d rounds: %+v", row.Chaos.Rounds, row.Audit)
			}
		})
	}
}

// TestFencesHold plays the same with fences compared at the market: the buyer who comes late is refused.
func TestFencesHold(t *testing.T) {
	for _, spec := range []string{"fine:set-px:ttl=100ms:fencing=token", "fine:fenced:ttl=100ms:fencing=on"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			a := chaos.Open(t)
			storm := usurped{a, backendtest.Keys(t), step.Hold(step.BeforeWrite)}
			row := run(t.Context(), t, a, storm.keys, spec, bench.Mix{Sellers: 2, Buyers: 3}, storm, nil)
			if !row.Audit.OK || row.Refused["stale"] == 0 {
				t.Errorf("refused %v, audit %+v", row.Refused, row.Audit)
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	a := chaos.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	rounds := []chaos.Round{{Faults: []chaos.Fault{{Kind: chaos.ServerPause, Length: time.Hour}}}}
	storm := a.NewStorm(rounds, chaos.Traders{Tell: func(chaos.Fault) { once.Do(cancel) }})
	row := run(ctx, t, a, backendtest.Keys(t), "watch", bench.Mix{Sellers: 1, Buyers: 1}, storm, nil)
	if row.Status != bench.Interrupted || !row.Audit.Done || !row.Audit.OK || row.Chaos.Rounds != 1 {
		t.Errorf("got %+v", row)
	}
}
