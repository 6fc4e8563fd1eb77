package step_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/strategies/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNilObserverSeesNothing(t *testing.T) {
	var o step.Observer
	o.At(t.Context(), step.Read)
}

func TestObserverSeesEachStep(t *testing.T) {
	var seen []step.Name
	o := step.Observer(func(_ context.Context, at step.Name) { seen = append(seen, at) })
	o.At(t.Context(), step.Read)
	o.At(t.Context(), step.Written)
	if len(seen) != 2 || seen[0] != step.Read || seen[1] != step.Written {
		t.Errorf("it saw %v", seen)
	}
}

// at starts a worker that comes to a step, and returns a channel that is closed when it is let go.
func at(ctx context.Context, g *step.Gate, name step.Name) <-chan struct{} {
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		g.Observe(ctx, name)
	}()
	return passed
}

func TestGateHoldsTheFirstWorkerAtItsStepOnly(t *testing.T) {
	g := step.Hold(step.BeforeWrite)
	<-at(t.Context(), g, step.Read) // another step passes
	first := at(t.Context(), g, step.BeforeWrite)
	<-g.Reached()
	<-at(t.Context(), g, step.BeforeWrite) // a second worker passes
	select {
	case <-first:
		t.Error("the first worker was let go before the gate was opened")
	default:
	}
	g.Open()
	g.Open() // does nothing
	<-first
	<-at(t.Context(), g, step.BeforeWrite)
}

func TestGateLetsAWorkerGoWhoseContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := step.Hold(step.Read)
	held := at(ctx, g, step.Read)
	<-g.Reached()
	cancel()
	<-held
}

func TestOpenGateHoldsNobody(t *testing.T) {
	g := step.Hold(step.Read)
	g.Open()
	g.Observe(t.Context(), step.Read)
	<-g.Reached()
}
