package load

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/suite/subjects"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
)

// TestOtherWork lasts as long as it should, between the reads and the write alone, ends
// with the operation's context, and lets those observe who want to.
func TestOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []step.Name
		o := &otherWork{lasts: 50 * time.Millisecond, alarm: redisconn.NewTimerAlarm(),
			steps: func(_ context.Context, at step.Name) { seen = append(seen, at) }}

		took := func(ctx context.Context, at step.Name) time.Duration {
			start := time.Now()
			o.observe(ctx, at)
			return time.Since(start)
		}

		for at, want := range map[step.Name]time.Duration{
			step.Read:        0,
			step.BeforeWrite: 50 * time.Millisecond,
			step.Written:     0,
		} {
			if got := took(t.Context(), at); got != want {
				t.Errorf("%s took %s, want %s", at, got, want)
			}
		}

		if len(seen) != 3 {
			t.Errorf("the other observer saw %v", seen)
		}

		o.steps = nil
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if got := took(ctx, step.BeforeWrite); got != 20*time.Millisecond {
			t.Errorf("the work of an operation whose context ends took %s", got)
		}
	})
}

func TestOtherWorkAllocatesNothing(t *testing.T) {
	o := &otherWork{lasts: 10 * time.Microsecond, alarm: redisconn.NewAlarm()}
	defer o.alarm.Close()
	if n := testing.AllocsPerRun(100, func() { o.observe(t.Context(), step.BeforeWrite) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHold: with every strategy a listing and a purchase take as long as the other work,
// and a lock is held meanwhile.
func TestHold(t *testing.T) {
	t.Parallel()
	const hold = 20 // ms
	s := testkit.Embedded(t)

	names := []string{"fine:set-px:write=fused", "fine:fenced:fencing=on", "watch:gate=local"}
	for _, strategy := range strategies.All() {
		names = append(names, strategy.Name)
	}

	for _, name := range names {
		c := config(t, s, spec(t, name))
		c.HoldMS = hold
		c.buys(3)
		row, err := c.run(t.Context())
		if err != nil || !row.Audit.OK || row.HoldMS != hold {
			t.Fatalf("%s: %v, audit %+v, %+v", name, err, row.Audit, row.Load)
		}

		if row.WaitMS.P50 < hold || row.ListMS.P50 < hold {
			t.Errorf("%s: a purchase took %v ms, and a listing %v ms; want %d or more",
				name, row.WaitMS.P50, row.ListMS.P50, hold)
		}

		_, locks := spec(t, name).Lock()
		if locks && (row.LockHoldMS < hold || row.LockHoldMS > row.WaitMS.Mean) {
			t.Errorf("%s: locks were held for %v of %v ms, want %d or more",
				name, row.LockHoldMS, row.WaitMS.Mean, hold)
		}
	}
}

// TestRTT: each round trip of a worker takes as long as the delay, whichever connection
// it is on: its own, its locks', and those to servers that only its locks use.
func TestRTT(t *testing.T) {
	t.Parallel()
	const rtt = 20 // ms
	s := testkit.Best(t)

	late := func(what string, conn *redis.Client) {
		t.Helper()
		start := time.Now()
		testkit.Succeeds(t, conn.Ping(t.Context()).Err())
		if took := time.Since(start); took < rtt*time.Millisecond {
			t.Errorf("%s: a round trip took %s", what, took)
		}
	}

	var envs []strategies.Env
	c := config(t, s, subjects.WithOpener(spec(t, "lua"), func(open subjects.Opener) subjects.Opener {
		return func(env strategies.Env) (market.Purchaser, io.Closer, error) {
			envs = append(envs, env)
			return open(env)
		}
	}))
	c.RTTMS = rtt
	c.buys(3)
	c.Servers.Masters = []redisconn.Dialer{s.Dialer("")}

	row, err := c.run(t.Context())
	if err != nil || !row.Audit.OK || row.RTTMS != rtt {
		t.Fatalf("%v, audit %+v, %+v", err, row.Audit, row.Load)
	}

	if row.WaitMS.P50 < rtt || row.ListMS.P50 < rtt || row.Market.RoundTrips < 3 {
		t.Errorf("a purchase took %v ms, a listing %v, in %v round trips",
			row.WaitMS.P50, row.ListMS.P50, row.Market.RoundTrips)
	}

	own := c
	own.of(strategies.Own("own", spec(t, "lua").OpenFor))
	row, err = own.run(t.Context())
	if err != nil || row.WaitMS.P50 < rtt || row.ListMS.P50 < rtt {
		t.Errorf("over connections of its own a purchase took %v ms, a listing %v: %v",
			row.WaitMS.P50, row.ListMS.P50, err)
	}

	// The workers of the rows are closed by now: the last env is that of one connected here.
	defer connected(t, c).close()
	env := envs[len(envs)-1]
	late("the worker's connection", env.Redis)
	for what, dial := range map[string]func(context.Context) (*redis.Client, error){
		"one for its lock":               env.NewClient,
		"one to a lock's own server":     env.Servers.Masters[0].NewClient,
		"one in the background, to such": env.Servers.Masters[0].Background,
		"one that all workers share":     env.SharedClient,
	} {
		conn := testkit.Must(dial(t.Context()))(t)
		late(what, conn)
		conn.Close()
	}
}

// Workers have numbers of their own, even if they open a user's own Purchaser.
func TestWorkersHaveNumbers(t *testing.T) {
	t.Parallel()
	var numbers []int
	lua := spec(t, "lua")
	own := strategies.Own("own",
		func(ctx context.Context, w market.Worker) (market.Purchaser, io.Closer, error) {
			numbers = append(numbers, w.Number)
			return lua.OpenFor(ctx, w)
		})

	c := config(t, testkit.Local(t), own)
	c.Mix = result.Mix{Sellers: 2, Buyers: 3}
	if _, err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}

	if last := numbers[max(0, len(numbers)-5):]; !slices.Equal(last, []int{0, 1, 2, 3, 4}) {
		t.Errorf("the workers of the row have the numbers %v", last)
	}
}
