package lock_test

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/strategies/lock"
)

func fence(t testing.TB, lease lock.Lease) int64 {
	t.Helper()
	return lease.(lock.Fencer).Fence()
}

func TestFencedEachHolderGetsALargerNumber(t *testing.T) {
	t.Parallel()
	for _, lockName := range []string{"fenced", "fenced+watchdog"} {
		t.Run(lockName, func(t *testing.T) {
			eachServer(t, func(t *testing.T, b *bench) {
				one, other := b.worker(lockName, setting{}), b.worker(lockName, setting{})
				first := b.try(one)
				b.expire() // and only it, not the counter
				second := b.try(other)
				_, err := one.Try(t.Context(), name)
				wants(t, "Try of a held lock", err, lock.ErrHeld)
				wants(t, "second release", second.Release(t.Context()), nil)
				third := b.try(other)
				numbers := []int64{fence(t, first), fence(t, second), fence(t, third)}
				if !slices.Equal(numbers, []int64{1, 2, 3}) {
					t.Errorf("its holders got the numbers %v, want 1 2 3", numbers)
				}
				wants(t, "late release", first.Release(t.Context()), lock.ErrLost)
				wants(t, "third release", third.Release(t.Context()), nil)
			})
		})
	}
}

func TestFencedListsItsKeys(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		b.try(b.worker("fenced", setting{}))
		keys, err := b.conn.Keys(t.Context(), b.keys.Prefix()+"*").Result()
		b.must(err)
		slices.Sort(keys)
		if want := kind(t, "fenced").AllKeys(b.keys.Lock(name)); !slices.Equal(keys, want) {
			t.Errorf("it made the keys %q and lists %q", keys, want)
		}
	})
}

// The flaw that its doc comment admits: the numbers are as durable as the server's data.
func TestFencedNumbersStartAgainWhenTheServerForgets(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, b *bench) {
		w := b.worker("fenced", setting{})
		b.must(b.try(w).Release(t.Context()))
		paused := b.try(w)
		b.must(b.conn.Del(t.Context(), kind(t, "fenced").AllKeys(b.keys.Lock(name))...).Err())
		next := b.try(b.worker("fenced", setting{}))
		if fence(t, next) > fence(t, paused) {
			t.Errorf("the next holder got %d after %d", fence(t, next), fence(t, paused))
		}
	})
}
