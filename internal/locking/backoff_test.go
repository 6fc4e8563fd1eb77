package locking_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/locking"
	"github.com/marketsim/marketsim/strategies/param"
)

const (
	base = time.Millisecond
	most = 16 * time.Millisecond
)

// bounds are the shortest and the longest of many waits after each of the first failures.
func bounds(v param.Values) (low, high []time.Duration) {
	const rounds, failures = 2000, 6
	low, high = make([]time.Duration, failures), make([]time.Duration, failures)
	w := locking.NewBackoff(v, base)

	for round := range rounds {
		w.Reset()
		for n := range failures {
			wait, _ := w.Next()
			if round == 0 || wait < low[n] {
				low[n] = wait
			}
			high[n] = max(high[n], wait)
		}
	}
	return low, high
}

func TestWaitsStayInTheirBounds(t *testing.T) {
	for _, c := range []struct {
		values param.Values
		// the bounds of the wait after each failure, as multiples of base
		low, high [6]float64
	}{
		{param.Values{}, [6]float64{1, 1, 1, 1, 1, 1}, [6]float64{1, 1, 1, 1, 1, 1}},
		{param.Values{"jitter": "0.5"},
			[6]float64{.5, .5, .5, .5, .5, .5}, [6]float64{1.5, 1.5, 1.5, 1.5, 1.5, 1.5}},
		{param.Values{"backoff": "exp", "cap": "16ms"},
			[6]float64{1, 2, 4, 8, 16, 16}, [6]float64{1, 2, 4, 8, 16, 16}},
		{param.Values{"backoff": "full", "cap": "16ms"}, [6]float64{}, [6]float64{1, 2, 4, 8, 16, 16}},
		{param.Values{"backoff": "decorrelated", "cap": "16ms"},
			[6]float64{1, 1, 1, 1, 1, 1}, [6]float64{3, 9, 16, 16, 16, 16}},
	} {
		low, high := bounds(c.values)
		for n := range low {
			from, to := time.Duration(c.low[n]*float64(base)), time.Duration(c.high[n]*float64(base))
			if low[n] < from || high[n] > to {
				t.Errorf("%v: after failure %d from %s to %s, want %s to %s",
					c.values, n+1, low[n], high[n], from, to)
			}

			// Of 2,000 random waits some come close to each end; what decorrelated
			// reaches depends on the waits before.
			if c.values["backoff"] != "decorrelated" &&
				(low[n] > from+(to-from)/10 || high[n] < to-(to-from)/10) {
				t.Errorf("%v: after failure %d only from %s to %s of %s to %s",
					c.values, n+1, low[n], high[n], from, to)
			}
		}
	}
}

func TestWaitsDoNotOverflow(t *testing.T) {
	w := locking.NewBackoff(param.Values{"backoff": "exp", "cap": most.String()}, base)
	w.Reset()
	for range 200 {
		if wait, _ := w.Next(); wait <= 0 || wait > most {
			t.Fatalf("a wait of %s", wait)
		}
	}
}

func TestTriesAreBounded(t *testing.T) {
	w := locking.NewBackoff(param.Values{"tries": "3"}, base)
	for range 2 {
		w.Reset()
		for failure, again := range []bool{true, true, false} {
			if _, more := w.Next(); more != again {
				t.Errorf("after failure %d of 3 tries it is tried again: %v", failure+1, more)
			}
		}
	}
}

func TestParametersThatDoNotGoTogether(t *testing.T) {
	for _, v := range []param.Values{
		{"backoff": "full", "jitter": "0.5"}, {"backoff": "decorrelated", "jitter": "1"}, {"cap": "1s"},
	} {
		if locking.CheckBackoff(v) == nil {
			t.Errorf("%v is accepted", v)
		}
	}

	for _, v := range []param.Values{
		{},
		{"jitter": "0.5"},
		{"backoff": "exp", "jitter": "0.5"},
		{"backoff": "full", "cap": "1s"},
	} {
		if err := locking.CheckBackoff(v); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}
