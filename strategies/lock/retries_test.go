package lock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

// attempts are the times, since an acquisition began, at which a worker tried to take a
// lock that another holds, and how the acquisition ended. Call it in a bubble.
func attempts(t *testing.T, params param.Values) (at []time.Duration, err error) {
	t.Helper()
	start := time.Now()
	l := answers(func(redis.Cmder) bool {
		at = append(at, time.Since(start))
		return false
	}).open(t, kind(t, "set-px"), params)
	for range 2 { // the second acquisition counts from the start
		at, start = nil, time.Now()
		_, err = l.Acquire(t.Context(), name)
	}
	return at, err
}

func TestPollsWaitAsTheirParametersSay(t *testing.T) {
	t.Parallel()
	ms := func(n ...time.Duration) (all []time.Duration) {
		for _, n := range n {
			all = append(all, n*time.Millisecond)
		}
		return all
	}

	for _, c := range []struct {
		params param.Values
		at     []time.Duration
	}{
		{param.Values{"timeout": "3ms"}, ms(0, 1, 2, 3)},
		// As ever: the last wait is a whole one.
		{param.Values{"timeout": "3ms", "poll": "2ms"}, ms(0, 2, 4)},
		{param.Values{"timeout": "20ms", "backoff": "exp", "cap": "4ms"}, ms(0, 1, 3, 7, 11, 15, 19, 20)},
		// Which a wait of 16 ms would pass.
		{param.Values{"timeout": "20ms", "backoff": "exp"}, ms(0, 1, 3, 7, 15, 20)},
		{
			param.Values{"poll": "1s", "timeout": "3s"},
			ms(0, 1000, 2000, 3000), // as the book's lock in Java
		},
		{param.Values{"tries": "3"}, ms(0, 1, 2)},
		{param.Values{"tries": "1"}, ms(0)},
	} {
		synctest.Test(t, func(t *testing.T) {
			at, err := attempts(t, c.params)
			if !slices.Equal(at, c.at) || !errors.Is(err, lock.ErrTimeout) {
				t.Errorf("%v: attempts at %v, then %v; want them at %v, and a time-out",
					c.params, at, err, c.at)
			}
		})
	}
}

func TestRandomWaitsDiffer(t *testing.T) {
	t.Parallel()
	for _, params := range []param.Values{
		{"jitter": "1"}, {"backoff": "full"}, {"backoff": "decorrelated"},
	} {
		synctest.Test(t, func(t *testing.T) {
			params["timeout"] = "100ms"
			at, err := attempts(t, params)

			waits := map[time.Duration]bool{}
			for i := range at[1:] {
				waits[at[i+1]-at[i]] = true
			}

			if len(waits) < 2 || !errors.Is(err, lock.ErrTimeout) {
				t.Errorf("%v: attempts at %v, then %v", params, at, err)
			}
		})
	}
}

// A lock that is out of tries says so, and not that time passed.
func TestOutOfTriesIsNotOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := attempts(t, param.Values{"tries": "3"})
		if err == nil ||
			!strings.HasSuffix(err.Error(), "lock was held at each of as many tries as there may be, 3") {
			t.Error(err)
		}
	})
}
