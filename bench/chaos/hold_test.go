package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// TestClientPause holds the first worker of the side that is meant, at the step that is meant, and lets it go.
func TestClientPause(t *testing.T) {
	var gate turnstile
	h := newHold(Fault{Step: step.Read, Length: time.Hour})
	ctx, heal := context.WithCancel(t.Context())
	struck := make(chan bool)
	go func() { struck <- gate.strike(ctx, h, time.Hour) }()
	eventually(t, "a hold", func() bool { return gate.wanted.Load() == h })
	buyer, seller := gate.observer(false), gate.observer(true)
	seller(t.Context(), step.Read)       // not the side
	buyer(t.Context(), step.BeforeWrite) // not the step
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		buyer(t.Context(), step.Read)
	}()
	<-h.reached
	buyer(t.Context(), step.Read) // not the first
	select {
	case <-passed:
		t.Error("it was not held")
	default:
	}
	heal()
	if !<-struck {
		t.Error("it says that nobody came")
	}
	<-passed
}

func TestClientPauseEndsByItself(t *testing.T) {
	var gate turnstile
	h := newHold(Fault{Step: step.Read, Length: 20 * time.Millisecond})
	gate.wanted.Store(h)
	start := time.Now()
	gate.observer(false)(t.Context(), step.Read)
	if took := time.Since(start); took < h.length {
		t.Errorf("it took %s", took)
	}
}

func TestClientPauseOfNobody(t *testing.T) {
	var gate turnstile
	if gate.strike(t.Context(), newHold(Fault{Step: step.Read, Length: time.Hour}), time.Millisecond) {
		t.Error("somebody was held")
	}
	gate.observer(false)(t.Context(), step.Read) // nobody is wanted any more
}
