package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// answeringMasters opens a redlock over five masters that are functions, for
// tests on synctest's clock.
func answeringMasters(
	t testing.TB, params param.Values, master func(i int) answers, now ...func() time.Time,
) lock.Locker {
	t.Helper()
	env := lock.Env{Key: func(name string) string {
		return name
	}, Params: params}
	if len(now) > 0 {
		env.Now = now[0]
	}

	for i := range 5 {
		a := master(i)
		dial := func(context.Context) (*redis.Client, error) {
			return a.client(), nil
		}
		env.Servers.Masters = append(env.Servers.Masters, lock.Master{NewClient: dial, Background: dial})
	}

	l := testkit.Must(kind(t, "redlock").New(env))(t)
	t.Cleanup(func() {
		closeLocker(t, l)
	})
	return l
}

// A TTL of a second less 1 % and 2 ms for drift is the longest that an acquisition may
// take, and how long it is valid.
func TestRedlockCountsTheTimeTakenAndDrift(t *testing.T) {
	const valid = 988 * time.Millisecond
	for _, c := range []struct {
		took time.Duration
		held bool
	}{
		{0, true},
		{valid - time.Nanosecond, true},
		{valid, false}, // the key is still there, by this clock
		{time.Second, false},
		{time.Minute, false},
	} {
		t.Run(c.took.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				given := map[int]bool{}
				params := param.Values{"ttl": "1s", "node-timeout": "250ms"}
				l := answeringMasters(t, params, func(i int) answers {
					return func(cmd redis.Cmder) bool {
						given[i] = cmd.Name() == "set"
						if i == 2 && given[i] {
							time.Sleep(c.took)
						}
						return true
					}
				})

				start := time.Now()
				lease, err := l.Try(t.Context(), name)
				if !c.held {
					wants(t, "Try, which took too long", err, lock.ErrHeld)
					for i := range 5 {
						if given[i] {
							t.Errorf("the lock was not given back on master %d", i)
						}
					}
					return
				}

				if err != nil {
					t.Fatal(err)
				}
				if lasted := ends(t, lease, start); lasted != valid {
					t.Errorf("it was valid for %s, want %s", lasted, valid)
				}
			})
		})
	}
}

// A client whose wall clock is set while it asks the masters. If that is what it
// reads, it works on beside the next holder after a step back, and gives back what it
// was granted after a step ahead.
func TestRedlockByTheWallClockBelievesAStep(t *testing.T) {
	const ttl = time.Second
	for _, c := range []struct {
		clock       string
		set         time.Duration
		held, aware bool // aware: it knows that its lock has expired
	}{
		{"monotonic", -time.Hour, true, true}, {"monotonic", time.Hour, true, true},
		{"wall", 0, true, true}, {"wall", -time.Hour, true, false}, {"wall", time.Hour, false, false},
	} {
		t.Run(c.clock+c.set.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends [5]time.Time // of the key on each master
				master := func(i int) answers {
					return func(cmd redis.Cmder) bool {
						free := !time.Now().Before(ends[i])
						if free && cmd.Name() == "set" {
							ends[i] = time.Now().Add(ttl)
						}
						return free
					}
				}

				readings := 0
				set := func() time.Time {
					readings++
					if readings > 1 {
						return time.Now().Add(c.set)
					}
					return time.Now()
				}

				params := param.Values{"ttl": ttl.String(), "clock": c.clock}
				lease, err := answeringMasters(t, params, master, set).Try(t.Context(), name)
				if !c.held {
					wants(t, "Try", err, lock.ErrHeld)
					return
				}
				wants(t, "Try", err, nil)

				time.Sleep(ttl)
				if _, err := answeringMasters(t, nil, master).Try(t.Context(), name); err != nil {
					t.Errorf("Try when the lock has expired: %v", err)
				}

				synctest.Wait()
				if aware := lease.Context().Err() != nil; aware != c.aware {
					t.Errorf("when another holds its lock, it knows: %t, want %t", aware, c.aware)
				}
			})
		})
	}
}

func TestRedlockRenewalCountsTheTimeTakenAndDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := answeringMasters(t, param.Values{"ttl": "1s"}, func(int) answers {
			return func(cmd redis.Cmder) bool {
				if cmd.Name() != "set" {
					time.Sleep(10 * time.Millisecond)
				}
				return true
			}
		})

		lease := testkit.Must(l.Try(t.Context(), name))(t)
		time.Sleep(500 * time.Millisecond)

		start := time.Now()
		testkit.Succeeds(t, lease.Renew(t.Context()))
		lasted := ends(t, lease, start)
		if want := 988 * time.Millisecond; lasted != want {
			t.Errorf("it was valid for %s from the renewal on, want %s", lasted, want)
		}
	})
}

// Waits are random between nothing and twice the poll, so that clients that split the
// masters between them do not meet again and again. Of 200 waits, that none is in the
// lowest quarter, or none in the highest, has a chance of 10^-25.
func TestRedlockWaitsForARandomTime(t *testing.T) {
	const poll, waits = time.Second, 200
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		params := param.Values{"poll": poll.String(), "timeout": "1h0m0s"}
		l := answeringMasters(t, params, func(i int) answers {
			return func(cmd redis.Cmder) bool {
				if i == 0 && cmd.Name() == "set" {
					asked = append(asked, time.Now())
				}
				return len(asked) > waits
			}
		})

		lease := testkit.Must(l.Acquire(t.Context(), name))(t)

		shortest := time.Hour
		longest := time.Duration(0)
		for i := range waits {
			wait := asked[i+1].Sub(asked[i])
			shortest = min(shortest, wait)
			longest = max(longest, wait)
		}
		if shortest >= poll/2 || longest < 3*poll/2 || longest >= 2*poll {
			t.Errorf("it waited from %s to %s, want anything from nothing to %s", shortest, longest, 2*poll)
		}

		release(t, lease)
	})
}
