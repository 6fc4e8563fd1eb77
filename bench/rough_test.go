package bench

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/step"
)

// script is a Storm made of a function.
type script struct {
	rounds  int
	strike  func(ctx context.Context, round int) error
	settled int
	struck  int64
}

func (s *script) Rounds() int                  { return s.rounds }
func (s *script) Settle(context.Context) error { s.settled++; return nil }
func (s *script) Struck() map[string]int64     { return map[string]int64{"test": s.struck} }
func (s *script) Steps(bool) step.Observer     { return nil }

func (s *script) Strike(ctx context.Context, round int) error {
	s.struck++
	return s.strike(ctx, round)
}

// roughly is config for a rough row.
func roughly(t *testing.T, s *backend.Server, subject Subject, storm Storm) Config {
	c := config(t, s, subject)
	c.Purchases, c.Duration = 0, time.Minute
	c.Rough = &Rough{Storm: storm, Direct: s.Dial}
	return c
}

// await waits until a number has grown by some.
func await(ctx context.Context, n *atomic.Int64, by int64) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for want := n.Load() + by; n.Load() < want && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// TestRoughRowGoesOn: workers go on through errors of every kind, the books stay right, and each round is told.
func TestRoughRowGoesOn(t *testing.T) {
	const rounds = 3
	s := backendtest.Local(t)
	var calls atomic.Int64
	subject := onPurchase(t, "fine", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		switch n := calls.Add(1) % 20; {
		case n == 1:
			r, err := next.Purchase(ctx, o)
			return r, errors.Join(err, errLost) // it was applied, and nobody was told
		case n == 2:
			return market.Receipt{}, errLost
		case n >= 5 && n < 8:
			return market.Receipt{}, market.ErrNotSent // as often as it takes to connect anew
		case n == 9:
			return market.Receipt{}, market.ErrRejected
		}
		return next.Purchase(ctx, o)
	})
	storm := &script{rounds: rounds, strike: func(ctx context.Context, _ int) error { return await(ctx, &calls, 40) }}
	c := roughly(t, s, subject, storm)
	var told []Round
	c.Rough.Tell = func(r Round) { told = append(told, r) }
	row, err := Run(t.Context(), c)
	if err != nil || row.Status != Complete || !row.Audit.OK || row.Bought == 0 || row.Seconds == 0 {
		t.Fatalf("%v, %+v", err, row)
	}
	if row.Unknown < 2*rounds || row.Audit.Applied < rounds || row.Audit.NotApplied < rounds ||
		row.Refused["not_sent"] == 0 || row.Refused["rejected"] == 0 {
		t.Errorf("outcomes were lost: %+v", row)
	}
	if row.Chaos.Rounds != rounds || row.Chaos.Struck() != rounds || row.Chaos.Reopened == 0 || storm.settled != rounds {
		t.Errorf("settled %d times, %+v", storm.settled, row.Chaos)
	}
	if len(told) != rounds || told[2].Number != 3 || told[2].Bought != row.Bought || told[2].Unknown != row.Unknown ||
		told[2].Loaded <= told[0].Loaded || row.Seconds != told[2].Loaded.Seconds() || told[1].Faults != 2 || !told[0].Audit.OK {
		t.Errorf("the rounds are told as %+v", told)
	}
	gone(t, s, c.Keys)
}

// TestRoughRowEndsAtItsFirstViolation: a Purchaser lies about one purchase in the second round.
func TestRoughRowEndsAtItsFirstViolation(t *testing.T) {
	s := backendtest.Local(t)
	var calls atomic.Int64
	var lie atomic.Bool
	subject := onPurchase(t, "fine", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		calls.Add(1)
		r, err := next.Purchase(ctx, o)
		if err == nil && lie.CompareAndSwap(true, false) {
			err = market.ErrNotListed
		}
		return r, err
	})
	storm := &script{rounds: 5, strike: func(ctx context.Context, round int) error {
		lie.Store(round == 1)
		return await(ctx, &calls, 20)
	}}
	row, err := Run(t.Context(), roughly(t, s, subject, storm))
	if err != nil || row.Audit.OK || !row.Audit.Done || row.Audit.ItemProblems != 1 || row.Chaos.Rounds != 2 {
		t.Errorf("%v, %+v after %+v", err, row.Audit, row.Chaos)
	}
}

// TestRoughRowThatCannotBeHealed: what the storm cannot mend is a failure of the environment, and no verdict.
func TestRoughRowThatCannotBeHealed(t *testing.T) {
	s := backendtest.Local(t)
	storm := &script{rounds: 2, strike: func(context.Context, int) error { return errLost }}
	c := roughly(t, s, spec(t, "watch"), storm)
	row, err := Run(t.Context(), c)
	if !errors.Is(err, errLost) || row.Status != Incomplete || row.Audit.Done || row.Chaos.Rounds != 0 {
		t.Errorf("%v, %+v", err, row)
	}
	gone(t, s, c.Keys)
}

// TestRoughRowFreesLocksThatNobodyHolds: the book's lock stays taken when its holder is gone.
func TestRoughRowFreesLocksThatNobodyHolds(t *testing.T) {
	s := backendtest.Local(t)
	conn := backendtest.Dial(t, s)
	var sold atomic.Int64
	subject := onPurchase(t, "coarse:timeout=50ms", func(ctx context.Context, o market.Order, next market.Purchaser) (market.Receipt, error) {
		r, err := next.Purchase(ctx, o)
		if err == nil {
			sold.Add(1)
		}
		return r, err
	})
	var keys market.Keys
	storm := &script{rounds: 2, strike: func(ctx context.Context, round int) error {
		if err := await(ctx, &sold, 5); err != nil || round > 0 {
			return err // in the second round, things are sold again
		}
		for { // take it when it is free
			taken, err := conn.SetNX(ctx, keys.Lock("market"), "a dead holder", 0).Result()
			if taken || err != nil {
				return err
			}
		}
	}}
	c := roughly(t, s, subject, storm)
	keys, c.Rough.FreeLocks = c.Keys, true
	row, err := Run(t.Context(), c)
	if err != nil || !row.Audit.OK || row.Chaos.FreedLocks != 1 || row.Chaos.Rounds != 2 {
		t.Errorf("%v, %+v, audit %+v", err, row.Chaos, row.Audit)
	}
}

func TestRoughRowInterrupted(t *testing.T) {
	s := backendtest.Local(t)
	ctx, cancel := context.WithCancel(t.Context())
	storm := &script{rounds: 5, strike: func(context.Context, int) error { cancel(); return nil }}
	row, err := Run(ctx, roughly(t, s, spec(t, "watch"), storm))
	if err != nil || row.Status != Interrupted || !row.Audit.Done || !row.Audit.OK || row.Chaos.Rounds != 1 {
		t.Errorf("%v, %+v", err, row)
	}
}

func TestRoughConfig(t *testing.T) {
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Warmup = time.Second },
		func(c *Config) { c.Browsers = 1 },
		func(c *Config) { c.Purchases = 1 },
	} {
		c := Config{Subject: noSubject{}, Mix: mix1x1, Duration: time.Second, Rough: &Rough{}}
		spoil(&c)
		if err := c.validate(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "rough") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
