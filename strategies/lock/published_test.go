package lock_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// The parameters have the values that the articles print, from which a reader knows a
// scheme again.
func TestParametersAreAsPublished(t *testing.T) {
	kinds := lock.All()
	for _, test := range []struct {
		kind, param, want, source string
	}{
		{"setnx", "timeout", "10s", "Redis in Action, 6.2.3: acquire_timeout=10"},
		{"setnx-expire", "ttl", "10s", "Redis in Action, 6.2.5: lock_timeout=10"},
		{"reentrant-local", "ttl", "10s", "a lock that its client counts: ten seconds if it is not told"},
		{"rw-hash", "read-ttl", "1s", "a read-write lock in one hash: readers have a second"},
		{"rw-hash", "write-ttl", "3s", "the same: a writer has three"},
		{"redisson", "ttl", "30s", "Redisson: lockWatchdogTimeout"},
		{
			"redlock", "node-timeout", "50ms",
			"redis.io, distributed locks: 5 to 50 ms for a lease of 10 s",
		},
	} {
		t.Run(test.kind+"/"+test.param, func(t *testing.T) {
			i := slices.IndexFunc(kinds, func(k lock.Kind) bool {
				return k.Name == test.kind
			})
			if i < 0 {
				t.Fatalf("there is no lock %s", test.kind)
			}

			params := kinds[i].Params
			j := slices.IndexFunc(params, func(p param.Param) bool {
				return p.Name == test.param
			})
			if j < 0 {
				t.Fatalf("%s has no parameter %s", test.kind, test.param)
			}

			if got := params[j].Default; got != test.want {
				t.Errorf("%s is %s, and published as %s (%s)", test.param, got, test.want, test.source)
			}
		})
	}
}

// The script that leaves a reentrant lock answers as the published one: nothing to whoever is
// not in it, 0 while an entry is left, and 1 when the last one was left.
func TestReentrantScriptsAnswerAsPublished(t *testing.T) {
	enter := redis.NewScript(string(testkit.Must(os.ReadFile("reentrant_enter.lua"))(t)))
	leave := redis.NewScript(string(testkit.Must(os.ReadFile("reentrant_leave.lua"))(t)))

	onServer(t, func(t *testing.T, b *bench) {
		keys := []string{b.keys.Lock(name)}
		answers := func(script *redis.Script, what string, want int64, args ...any) {
			t.Helper()
			got, err := script.Run(t.Context(), b.conn, keys, args...).Int64()
			if err != nil || got != want {
				t.Errorf("%v %s: it answers %d, %v, want %d", args[0], what, got, err, want)
			}
		}
		enters := func(owner string, want int64) {
			t.Helper()
			answers(enter, "enters", want, owner, "EXPIRE", 10)
		}
		leaves := func(owner string, want int64) {
			t.Helper()
			answers(leave, "leaves", want, owner)
		}

		enters("a", 1)
		enters("b", 0)
		enters("a", 1)
		if answer, err := leave.Run(t.Context(), b.conn, keys, "b").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("b, who is not in it, leaves: %v, %v, want nothing", answer, err)
		}
		leaves("a", 0)
		leaves("a", 1)
		b.free()
	})
}
