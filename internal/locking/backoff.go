package locking

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
	BackoffNone         = "none"         // base
	BackoffExponential  = "exp"          // min(cap, base x 2^n)
	BackoffFull         = "full"         // random between 0 and that: full jitter
	BackoffDecorrelated = "decorrelated" // min(cap, random between base and 3 x the last wait)
)

// Parameters of whatever tries again.
var (
	BackoffParam = param.OneOf("backoff",
		"how the wait grows with each failure: exp doubles it, full is random up to that, "+
			"decorrelated up to 3 times the last",
		BackoffNone, BackoffExponential, BackoffFull, BackoffDecorrelated)
	LongestWaitParam = param.Duration("cap", 100*time.Millisecond, time.Microsecond, "longest wait of a back-off")
	JitterParam      = param.Fraction("jitter", "0", "random part of the wait: 0.5 is from half of it to one and a half")
	TriesParam       = param.Count("tries", 0, 1, "how often it is tried at most").Or("any")
)

// CheckBackoff refuses parameters that are each valid but do not go together.
func CheckBackoff(v param.Values) error {
	switch kind := v.Text(BackoffParam); {
	case v.Fraction(JitterParam) > 0 && (kind == BackoffFull || kind == BackoffDecorrelated):
		return errors.New("jitter is a part of backoff=full and backoff=decorrelated already: leave it out")
	case kind == BackoffNone && v.Text(LongestWaitParam) != LongestWaitParam.Default:
		return errors.New("cap bounds a wait that grows: add backoff=exp, full or decorrelated")
	}
	return nil
}

// A Backoff is the waits between the tries of one thing, and, after Reset, of the
// next. It is for one goroutine.
type Backoff struct {
	kind      string
	base, cap time.Duration
	jitter    float64
	most      int // tries; 0: any number

	failed int
	last   time.Duration
}

// NewBackoff returns the waits that parameters ask for, from a base.
func NewBackoff(v param.Values, base time.Duration) *Backoff {
	b := &Backoff{
		kind:   v.Text(BackoffParam),
		base:   base,
		cap:    max(base, v.Duration(LongestWaitParam)),
		jitter: v.Fraction(JitterParam),
	}
	if v.Text(TriesParam) != TriesParam.Default {
		b.most = v.Count(TriesParam)
	}
	return b
}

// Jitter makes a part of each wait random that is not random already.
func (b *Backoff) Jitter(part float64) {
	if b.kind == BackoffNone || b.kind == BackoffExponential {
		b.jitter = part
	}
}

// Tries is how many tries there may be; 0: any number.
func (b *Backoff) Tries() int { return b.most }

// Longest is how long a wait can be.
func (b *Backoff) Longest() time.Duration {
	longest := b.cap
	if b.kind == BackoffNone {
		longest = b.base
	}
	return longest + time.Duration(b.jitter*float64(longest))
}

// Reset begins with the first try again.
func (b *Backoff) Reset() { b.failed, b.last = 0, b.base }

// Next is how long to wait after one more failure. It reports false when there
// were as many tries as may be. Reset comes before the first call.
func (b *Backoff) Next() (time.Duration, bool) {
	// Doubled 40 times, even the least base, 1 us, is beyond any cap.
	doubled := b.base << min(b.failed, 40)
	if doubled <= 0 || doubled > b.cap { // it may have overflowed
		doubled = b.cap
	}
	b.failed++
	if b.most > 0 && b.failed >= b.most {
		return 0, false
	}

	switch b.kind {
	case BackoffExponential:
		b.last = doubled
	case BackoffFull:
		b.last = between(0, doubled)
	case BackoffDecorrelated:
		b.last = min(b.cap, between(b.base, 3*b.last))
	default:
		b.last = b.base
	}

	// Jitter comes last, and may exceed the cap: see Longest. b.last is without it.
	part := time.Duration(b.jitter * float64(b.last))
	return between(b.last-part, b.last+part), true
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
