package bench

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/alarm"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/lock"
)

// elsewhere is a subject whose lock is not kept in Redis.
type elsewhere struct{ noSubject }

func (elsewhere) Lock() (lock.Kind, bool) { return lock.Kind{Needs: lock.NeedsZooKeeper}, true }

// TestWorkload: what cannot be run is refused, and what can be is not.
func TestWorkload(t *testing.T) {
	good := Config{
		Subject: noSubject{}, Mix: result.Mix{Buyers: 3}, Duration: time.Second, Funds: maxPrice, Wallets: 2, Browsers: 1,
		Workload: result.Workload{Hot: MaxHot, HoldMS: 10_000, RTTMS: 1000},
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"-1 hot items":             func(c *Config) { c.Hot = -1 },
		"1000001 hot items":        func(c *Config) { c.Hot = MaxHot + 1 },
		"hold of -0.1 ms":          func(c *Config) { c.HoldMS = -0.1 },
		"want 0 to 10s":            func(c *Config) { c.HoldMS = 10_001 },
		"rtt of -0.1 ms":           func(c *Config) { c.RTTMS = -0.1 },
		"rtt of 1000.1 ms":         func(c *Config) { c.RTTMS = 1000.1 },
		"kept elsewhere":           func(c *Config) { c.Subject = elsewhere{} },
		"want 0 sellers":           func(c *Config) { c.Mix.Sellers = 1 },
		"at least one seller":      func(c *Config) { c.Hot = 0 },
		"hot items at a rate":      func(c *Config) { c.Rate, c.Arrivals = 1, Poisson },
		"funds 99: want 100":       func(c *Config) { c.Funds = 99 },
		"and one buyer are needed": func(c *Config) { c.Mix.Buyers = 0 },
	} {
		bad := good
		spoil(&bad)
		if row, err := Run(t.Context(), bad); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) || row.Strategy != "" {
			t.Errorf("got %v, want ErrConfig and %q", err, want)
		}
	}
	elsewhere := Config{Subject: elsewhere{}, Mix: mix1x1, Duration: time.Second, Workload: result.Workload{HoldMS: 1}}
	if err := elsewhere.validate(); err != nil {
		t.Errorf("other work under a lock that is kept elsewhere: %v", err)
	}
}

func TestParseHotMix(t *testing.T) {
	for text, want := range map[string]int{"0x1": 1, "0x64": 64, "0x1000": 1000} {
		if m, err := ParseHotMix(text); err != nil || m != (result.Mix{Buyers: want}) {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "5x5", "1x5", "0x0", "x5", "00x5", "0x05", "-0x5", "0x1001", "0x5 "} {
		if m, err := ParseHotMix(text); !errors.Is(err, ErrConfig) || m != (result.Mix{}) {
			t.Errorf("%q: %v, %v; want ErrConfig", text, m, err)
		}
	}
}

// TestOtherWork lasts as long as it should, between the reads and the write alone, ends with the operation's context, and
// lets those observe who want to.
func TestOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []step.Name
		o := &otherWork{lasts: 50 * time.Millisecond, alarm: alarm.NewTimer(),
			steps: func(_ context.Context, at step.Name) { seen = append(seen, at) }}
		took := func(ctx context.Context, at step.Name) time.Duration {
			start := time.Now()
			o.observe(ctx, at)
			return time.Since(start)
		}
		for at, want := range map[step.Name]time.Duration{step.Read: 0, step.BeforeWrite: 50 * time.Millisecond, step.Written: 0} {
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
	o := &otherWork{lasts: 10 * time.Microsecond, alarm: alarm.New()}
	defer o.alarm.Close()
	if n := testing.AllocsPerRun(100, func() { o.observe(t.Context(), step.BeforeWrite) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHold: with every strategy a listing and a purchase take as long as the other work, a lock is held meanwhile, and
// the parts of a purchase's time add up.
func TestHold(t *testing.T) {
	t.Parallel()
	const hold = 20 // ms
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		names := []string{"fine:set-px:write=fused", "fine:fenced:fencing=on", "watch:gate=local"}
		for _, strategy := range strategies.All() {
			names = append(names, strategy.Name)
		}
		for _, name := range names {
			c := config(t, s, spec(t, name))
			c.Purchases, c.HoldMS = 3, hold
			row, err := Run(t.Context(), c)
			if err != nil || !row.Audit.OK || row.HoldMS != hold {
				t.Fatalf("%s: %v, audit %+v, %+v", name, err, row.Audit, row.Workload)
			}
			if row.WaitMS.P50 < hold || row.ListMS.P50 < hold {
				t.Errorf("%s: a purchase took %v ms, and a listing %v ms; want %d or more", name, row.WaitMS.P50, row.ListMS.P50, hold)
			}
			split := row.TimeMS
			if _, locks := spec(t, name).Lock(); locks && split.LockHold < hold {
				t.Errorf("%s: locks were held for %v ms, want %d or more", name, split.LockHold, hold)
			}
			all := split.LockWait + split.LockHold + split.Thrown + split.Rest
			if off := all - row.WaitMS.Mean; off < -0.001-row.WaitMS.Mean/500 || off > 0.001+row.WaitMS.Mean/500 {
				t.Errorf("%s: %+v adds up to %v ms, and a purchase took %v", name, *split, all, row.WaitMS.Mean)
			}
		}
	})
}

// TestRTT: each round trip of a worker takes as long as the delay, whichever connection it is on: its own, its locks', and
// those to servers that only its locks use.
func TestRTT(t *testing.T) {
	const rtt = 20 // ms
	testkit.Each(t, func(t *testing.T, s *backend.Server) {
		late := func(what string, conn *redis.Client) {
			t.Helper()
			start := time.Now()
			if err := conn.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < rtt*time.Millisecond {
				t.Errorf("%s: a round trip took %s", what, took)
			}
		}
		var envs []strategies.Env
		c := config(t, s, opening{spec(t, "lua"), func(env strategies.Env) { envs = append(envs, env) }})
		c.Purchases, c.RTTMS = 3, rtt
		c.Servers.Masters = []func(context.Context) (*redis.Client, error){func(ctx context.Context) (*redis.Client, error) {
			conn, err := s.Dial(ctx)
			return conn.Client, err
		}}
		row, err := Run(t.Context(), c)
		if err != nil || !row.Audit.OK || row.RTTMS != rtt {
			t.Fatalf("%v, audit %+v, %+v", err, row.Audit, row.Workload)
		}
		if row.WaitMS.P50 < rtt || row.ListMS.P50 < rtt || row.RoundTripsPerPurchase < 1 {
			t.Errorf("a purchase took %v ms, a listing %v, in %v round trips", row.WaitMS.P50, row.ListMS.P50, row.RoundTripsPerPurchase)
		}

		ws := connected(t, c)
		defer ws.Close()
		env := envs[len(envs)-1]
		late("the worker's connection", env.Redis)
		for what, dial := range map[string]func(context.Context) (*redis.Client, error){
			"one for its lock": env.Dial, "one to a lock's own server": env.Servers.Masters[0],
		} {
			conn, err := dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			late(what, conn)
			conn.Close()
		}
	})
}

// opening is a strategy of which a test sees what it works with.
type opening struct {
	strategies.Spec
	see func(strategies.Env)
}

func (o opening) Open(env strategies.Env) (market.Purchaser, io.Closer, error) {
	o.see(env)
	return o.Spec.Open(env)
}

// TestSlowWorkloads: an operation of a slow workload gets its time after the end of the row, too.
func TestSlowWorkloads(t *testing.T) {
	c := Config{Workload: result.Workload{HoldMS: 10_000, RTTMS: 1000}}
	if got := c.grace(); got < leastGrace+MaxHold+5*MaxRTT {
		t.Errorf("the grace is %s", got)
	}
	if got := (Config{}).grace(); got != leastGrace {
		t.Errorf("that of the book's workload is %s", got)
	}
}
