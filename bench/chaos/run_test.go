package chaos

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies"
)

// attempt makes a purchase as the strategy does.
type attempt func() (market.Receipt, error)

// tampered is a strategy whose purchases a test watches or spoils.
type tampered struct {
	strategies.Spec
	purchase func(next attempt) (market.Receipt, error)
}

func (s tampered) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	p, closer, err := s.Spec.Open(env)
	return tamperedPurchaser{p, s.purchase}, closer, err
}

type tamperedPurchaser struct {
	market.Purchaser
	purchase func(next attempt) (market.Receipt, error)
}

func (p tamperedPurchaser) Purchase(ctx context.Context, o market.Order) (market.Receipt, error) {
	return p.purchase(func() (market.Receipt, error) { return p.Purchaser.Purchase(ctx, o) })
}

// errLost is an outcome that the client was not told.
var errLost = errors.New("connection reset by a test")

// scripted is the driver of a 1x1 row on s, in rounds whose faults are a function's.
func scripted(t *testing.T, s *backend.Server, subject bench.Subject, rounds int,
	strike func(ctx context.Context, round int) error,
) *driver {
	struck := int64(0)
	return &driver{
		config: bench.Config{
			Subject: subject, Mix: result.Mix{Sellers: 1, Buyers: 1}, Duration: time.Hour, Seed: bench.DefaultSeed,
			Funds: bench.DefaultFunds, Keys: testkit.Keys(t), Dial: s.Dial,
		},
		rounds: rounds, settle: func(context.Context) error { return nil },
		strike: func(ctx context.Context, round int) error { struck++; return strike(ctx, round) },
		struck: func() map[string]int64 { return map[string]int64{"test": struck} },
	}
}

// gone checks that nothing of a market is left.
func gone(t *testing.T, s *backend.Server, keys market.Keys) {
	t.Helper()
	if left := testkit.Dial(t, s).Keys(t.Context(), keys.Prefix()+"*").Val(); len(left) > 0 {
		t.Errorf("%d keys are left behind: %v", len(left), left[:min(len(left), 10)])
	}
}

// await waits until a number has grown by some.
func await(ctx context.Context, n *atomic.Int64, by int64) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	for want := n.Load() + by; n.Load() < want && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// TestRowGoesOn: workers go on through errors of every kind, the books stay right, and each round is reported.
func TestRowGoesOn(t *testing.T) {
	const rounds = 3
	s := testkit.Local(t)
	var calls atomic.Int64
	subject := tampered{parse(t, "fine"), func(next attempt) (market.Receipt, error) {
		switch n := calls.Add(1) % 20; {
		case n == 1:
			r, err := next()
			return r, errors.Join(err, errLost) // it was applied, and nobody was told
		case n == 2:
			return market.Receipt{}, errLost
		case n >= 5 && n < 8:
			return market.Receipt{}, market.ErrNotSent // as often as it takes to connect anew
		case n == 9:
			return market.Receipt{}, market.ErrRejected
		}
		return next()
	}}
	d := scripted(t, s, subject, rounds, func(ctx context.Context, _ int) error { return await(ctx, &calls, 40) })
	var told []result.Row
	d.onRound = func(r result.Row) { told = append(told, r) }
	settled := 0
	d.settle = func(context.Context) error { settled++; return nil }
	row, err := d.run(t.Context())
	if err != nil || row.Status != result.Complete || !row.Audit.OK || row.Bought == 0 || row.Seconds == 0 {
		t.Fatalf("%v, %+v", err, row)
	}
	if row.Unknown < 2*rounds || row.Audit.Applied < rounds || row.Audit.NotApplied < rounds ||
		row.Refused["not_sent"] == 0 || row.Refused["rejected"] == 0 {
		t.Errorf("outcomes were lost: %+v", row)
	}
	if row.Chaos.Rounds != rounds || row.Chaos.Struck() != rounds || row.Chaos.Reopened == 0 || settled != rounds {
		t.Errorf("settled %d times, %+v", settled, row.Chaos)
	}
	if len(told) != rounds || told[2].Chaos.Rounds != 3 || told[2].Bought != row.Bought ||
		told[2].Unknown != row.Unknown || told[2].Seconds <= told[0].Seconds || row.Seconds != told[2].Seconds ||
		told[1].Chaos.Struck() != 2 || !told[0].Audit.OK {
		t.Errorf("the rounds are reported as %+v", told)
	}
	var traded int64
	for _, n := range row.Series.Purchases {
		traded += n
	}
	if traded != row.Bought {
		t.Errorf("the series has %d purchases, and the row %d", traded, row.Bought)
	}
	for i, quiet := range row.Chaos.Times {
		if quiet.Kind != result.Quiet || !(quiet.Start < quiet.End) || i > 0 && quiet.Start < row.Chaos.Times[i-1].End {
			t.Errorf("the time between two rounds is %+v", row.Chaos.Times)
		}
	}
	if len(row.Chaos.Times) != rounds {
		t.Errorf("%d times between rounds", len(row.Chaos.Times))
	}
	gone(t, s, d.config.Keys)
}

// TestRowEndsAtItsFirstViolation: a Purchaser lies about one purchase in the second round.
func TestRowEndsAtItsFirstViolation(t *testing.T) {
	s := testkit.Local(t)
	var calls atomic.Int64
	var lie atomic.Bool
	subject := tampered{parse(t, "fine"), func(next attempt) (market.Receipt, error) {
		calls.Add(1)
		r, err := next()
		if err == nil && lie.CompareAndSwap(true, false) {
			err = market.ErrNotListed
		}
		return r, err
	}}
	d := scripted(t, s, subject, 5, func(ctx context.Context, round int) error {
		lie.Store(round == 1)
		return await(ctx, &calls, 20)
	})
	row, err := d.run(t.Context())
	if err != nil || row.Audit.OK || !row.Audit.Done || row.Audit.ItemProblems != 1 || row.Chaos.Rounds != 2 {
		t.Errorf("%v, %+v after %+v", err, row.Audit, row.Chaos)
	}
}

// TestRowThatCannotBeHealed: what cannot be healed is a failure of the environment, and no verdict.
func TestRowThatCannotBeHealed(t *testing.T) {
	s := testkit.Local(t)
	d := scripted(t, s, parse(t, "watch"), 2, func(context.Context, int) error { return errLost })
	row, err := d.run(t.Context())
	if !errors.Is(err, errLost) || row.Status != result.Incomplete || row.Audit.Done || row.Chaos.Rounds != 0 {
		t.Errorf("%v, %+v", err, row)
	}
	gone(t, s, d.config.Keys)
}

// TestRowFreesLocksThatNobodyHolds: a lock stays taken when its holder is gone. It is freed, the time that this cost is
// counted, and the counter of its holders goes on.
func TestRowFreesLocksThatNobodyHolds(t *testing.T) {
	s := testkit.Local(t)
	conn := testkit.Dial(t, s)
	var sold atomic.Int64
	spec := parse(t, "coarse:fenced:timeout=50ms:ttl=1h")
	subject := tampered{spec, func(next attempt) (market.Receipt, error) {
		r, err := next()
		if err == nil {
			sold.Add(1)
		}
		return r, err
	}}
	const stuck = 100 * time.Millisecond
	var d *driver
	d = scripted(t, s, subject, 2, func(ctx context.Context, round int) error {
		counter := d.config.Keys.Lock("market") + ":fence"
		if before := conn.Get(ctx, counter).Val(); round > 0 && before == "" {
			t.Errorf("%s is gone", counter)
		}
		if err := await(ctx, &sold, 5); err != nil || round > 0 {
			return err // in the second round, things are sold again
		}
		for { // take it when it is free
			taken, err := conn.SetNX(ctx, d.config.Keys.Lock("market"), "a dead holder", 0).Result()
			if taken || err != nil {
				sleep(ctx, stuck)
				return err
			}
		}
	})
	d.frees = spec.HolderKeys
	row, err := d.run(t.Context())
	if blocked := *row.Chaos.BlockedSeconds; blocked < stuck.Seconds() || blocked > row.Seconds {
		t.Errorf("nobody could trade for %f s of %f s", blocked, row.Seconds)
	}
	if err != nil || !row.Audit.OK || row.Chaos.FreedLocks != 1 || row.Chaos.Rounds != 2 {
		t.Errorf("%v, %+v, audit %+v", err, row.Chaos, row.Audit)
	}
}

func TestRowInterrupted(t *testing.T) {
	s := testkit.Local(t)
	ctx, cancel := context.WithCancel(t.Context())
	row, err := scripted(t, s, parse(t, "watch"), 5, func(context.Context, int) error { cancel(); return nil }).run(ctx)
	if err != nil || row.Status != result.Interrupted || !row.Audit.Done || !row.Audit.OK || row.Chaos.Rounds != 1 {
		t.Errorf("%v, %+v", err, row)
	}
}

func TestConfig(t *testing.T) {
	for _, spoil := range []func(*bench.Config){
		func(c *bench.Config) { c.Warmup = time.Second },
		func(c *bench.Config) { c.Browsers = 1 },
		func(c *bench.Config) { c.Purchases = 1 },
	} {
		c := bench.Config{Subject: parse(t, "watch"), Mix: result.Mix{Sellers: 1, Buyers: 1}, Duration: time.Second}
		spoil(&c)
		_, err := (&driver{config: c}).run(t.Context())
		if !errors.Is(err, bench.ErrConfig) || !strings.Contains(err.Error(), "chaos") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestPool: sellers and buyers who share two poor accounts are short of coins, and yet trade for many times what there
// is, because what is sold is spent again.
func TestPool(t *testing.T) {
	for _, spec := range []string{"watch", "coarse", "fine-wallet"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := testkit.Local(t)
			var bought, short atomic.Int64
			subject := tampered{parse(t, spec), func(next attempt) (market.Receipt, error) {
				r, err := next()
				switch {
				case err == nil:
					bought.Add(1)
				case errors.Is(err, market.ErrInsufficientFunds):
					short.Add(1)
				}
				return r, err
			}}
			d := scripted(t, s, subject, 1, func(ctx context.Context, _ int) error {
				return errors.Join(await(ctx, &bought, 60), await(ctx, &short, 1))
			})
			d.config.Mix, d.config.Pool, d.config.Funds = result.Mix{Sellers: 4, Buyers: 4}, 2, 150
			row, err := d.run(t.Context())
			if err != nil || !row.Audit.OK || row.Audit.Funds != 300 || row.Chaos.Pool != 2 || row.Chaos.Funds != 150 {
				t.Errorf("%v, audit %+v, chaos %+v", err, row.Audit, row.Chaos)
			}
		})
	}
}
