// Package backoff says how long to wait before something is tried again, and
// how often it is tried.
//
// A wait that grows with each failure thins out the tries of many clients; a random part
// keeps those who failed together from meeting again. In the simulation of the source,
// full jitter does the least work.
//
// Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package backoff

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

// The kinds of back-off: how the wait after the n-th failure, counted from 0,
// follows from a base and a cap.
const (
	None         = "none"         // base
	Exponential  = "exp"          // min(cap, base x 2^n)
	Full         = "full"         // random between 0 and that: full jitter
	Decorrelated = "decorrelated" // min(cap, random between base and 3 x the last wait)
)

// Parameters of whatever tries again.
var (
	KindParam = param.Choice("backoff",
		"how the wait grows with each failure: exp doubles it, full is random up to that, "+
			"decorrelated up to 3 times the last",
		None, Exponential, Full, Decorrelated)
	CapParam    = param.Duration("cap", 100*time.Millisecond, time.Microsecond, "longest wait of a back-off")
	JitterParam = param.Fraction("jitter", "0", "random part of the wait: 0.5 is from half of it to one and a half")
	TriesParam  = param.Count("tries", 0, 1, "how often it is tried at most").Or("any")
)

// Check refuses parameters that are each valid but do not go together.
func Check(v param.Values) error {
	switch kind := v.Text(KindParam); {
	case v.Fraction(JitterParam) > 0 && (kind == Full || kind == Decorrelated):
		return errors.New("jitter is a part of backoff=full and backoff=decorrelated already: leave it out")
	case kind == None && v.Text(CapParam) != CapParam.Default:
		return errors.New("cap bounds a wait that grows: add backoff=exp, full or decorrelated")
	}
	return nil
}

// Waits are the waits between the tries of one thing, and, after Reset, of the
// next. It is for one goroutine.
type Waits struct {
	kind      string
	base, cap time.Duration
	jitter    float64
	most      int // tries; 0: any number

	failed int
	last   time.Duration
}

// New returns the waits that parameters ask for, from a base.
func New(v param.Values, base time.Duration) *Waits {
	w := &Waits{
		kind: v.Text(KindParam), base: base, cap: max(base, v.Duration(CapParam)), jitter: v.Fraction(JitterParam),
	}
	if v.Text(TriesParam) != TriesParam.Default {
		w.most = v.Count(TriesParam)
	}
	return w
}

// Jitter makes a part of each wait random that is not random already.
func (w *Waits) Jitter(part float64) {
	if w.kind == None || w.kind == Exponential {
		w.jitter = part
	}
}

// Tries is how many tries there may be; 0: any number.
func (w *Waits) Tries() int { return w.most }

// Longest is how long a wait can be.
func (w *Waits) Longest() time.Duration {
	longest := w.cap
	if w.kind == None {
		longest = w.base
	}
	return longest + time.Duration(w.jitter*float64(longest))
}

// Reset begins with the first try again.
func (w *Waits) Reset() { w.failed, w.last = 0, w.base }

// Next is how long to wait after one more failure. It reports false when there
// were as many tries as may be.
func (w *Waits) Next() (time.Duration, bool) {
	doubled := w.base << min(w.failed, 40)
	if doubled <= 0 || doubled > w.cap { // it may have overflowed
		doubled = w.cap
	}
	w.failed++
	if w.most > 0 && w.failed >= w.most {
		return 0, false
	}
	switch w.kind {
	case Exponential:
		w.last = doubled
	case Full:
		w.last = between(0, doubled)
	case Decorrelated:
		w.last = min(w.cap, between(w.base, 3*w.last))
	default:
		w.last = w.base
	}
	part := time.Duration(w.jitter * float64(w.last))
	return between(w.last-part, w.last+part), true
}

// Sleep returns when d has passed or it is woken; nil: nobody wakes it. It returns
// ctx's error when ctx ends first.
func Sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	select {
	case <-time.After(d):
	case <-woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// between is a random time, both ends included.
func between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + rand.N(high-low+1)
}
