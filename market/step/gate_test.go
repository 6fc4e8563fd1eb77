package step_test

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/marketsim/marketsim/market/step"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at starts a worker that comes to a step, and returns a channel that is closed
// when it is let go.
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

// passing lets a worker pass steps in a goroutine, and reports where it is
// held; closed at its end.
func passing(
	t *testing.T, steps []step.Name, points ...step.Breakpoint,
) (*step.Gate, <-chan step.Name) {
	t.Helper()
	held := make(chan step.Name)
	g := step.HoldEach(func(at step.Name) { held <- at }, points...)
	go func() {
		defer close(held)
		for _, at := range steps {
			g.Observe(t.Context(), at)
		}
	}()
	return g, held
}

func TestGateWithSeveralPoints(t *testing.T) {
	lap := []step.Name{
		step.Looked, step.Acquired, step.BeforeWrite, step.Looked, step.BeforeRelease, step.Looked,
	}
	type points = []step.Breakpoint

	for _, c := range []struct {
		name   string
		points points
		want   []step.Name
	}{
		{"nowhere", nil, nil},
		{"at a step, once", points{{At: step.Looked}}, []step.Name{step.Looked}},
		{
			"at a step twice", points{{At: step.Looked}, {At: step.Looked}},
			[]step.Name{step.Looked, step.Looked},
		},
		{
			"in the order of the steps", points{{At: step.BeforeWrite}, {At: step.Acquired}},
			[]step.Name{step.Acquired, step.BeforeWrite},
		},
		{"only after another", points{{At: step.Acquired, After: step.BeforeWrite}}, nil},
		{"after another", points{{At: step.Looked, After: step.BeforeRelease}}, []step.Name{step.Looked}},
		{"at a step that does not come", points{{At: step.Half}}, nil},
		{
			"at a step, and at another after it",
			points{{At: step.BeforeRelease}, {At: step.Looked, After: step.BeforeRelease}},
			[]step.Name{step.BeforeRelease, step.Looked},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, held := passing(t, lap, c.points...)
			g.Next() // does nothing where nobody is held

			var got []step.Name
			for at := range held {
				got = append(got, at)
				g.Next()
			}

			if !slices.Equal(got, c.want) {
				t.Errorf("held at %v, want %v", got, c.want)
			}
		})
	}
}

func TestOpenGateLetsTheWorkerGoToItsEnd(t *testing.T) {
	lap := []step.Name{step.Acquired, step.BeforeWrite}
	g, held := passing(t, lap,
		step.Breakpoint{At: step.Acquired}, step.Breakpoint{At: step.BeforeWrite})
	<-held
	g.Open()
	if at, more := <-held; more {
		t.Errorf("held again at %s", at)
	}
}
