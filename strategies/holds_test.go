package strategies

import (
	"context"
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/lock"
)

// askedLease is a lease that notes when it was asked whether it is lost.
type askedLease struct {
	lock.Lease
	asked time.Time
}

// Context returns once the clock has moved on.
func (l *askedLease) Context() context.Context {
	for l.asked = time.Now(); !time.Now().After(l.asked); {
		continue
	}
	return context.Background()
}

func (*askedLease) Release(context.Context) error { return nil }

// TestHeldUntilReleasing: one that was not told of a loss was still the holder when it began to release. Asked before that,
// it would be taken for a holder for as long as it was suspended in between.
func TestHeldUntilReleasing(t *testing.T) {
	var told []lock.Hold
	h := holds{report: func(x lock.Hold) { told = append(told, x) }}
	lease := &askedLease{}
	h.call("17", false)
	h.acquired(lease)
	if err := h.release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].Noticed || told[0].Releasing.After(lease.asked) {
		t.Errorf("asked at %v, told %+v", lease.asked, told)
	}
}
