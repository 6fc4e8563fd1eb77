package fault

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/strategies/step"
)

// passing lets an operation pass steps in a goroutine and reports where it is held; closed at its end.
func passing(t *testing.T, g *gate, steps ...step.Name) <-chan step.Name {
	t.Helper()
	held := make(chan step.Name)
	g.report = func(at step.Name) { held <- at }
	go func() {
		defer close(held)
		for _, at := range steps {
			g.observe(t.Context(), at)
		}
	}()
	return held
}

func TestGate(t *testing.T) {
	lap := []step.Name{step.Looked, step.Acquired, step.BeforeWrite, step.Looked, step.BeforeRelease, step.Looked}
	for _, c := range []struct {
		name   string
		points []Point
		want   []step.Name
	}{
		{"nowhere", nil, nil},
		{"at a step, once", []Point{{At: step.Looked}}, []step.Name{step.Looked}},
		{"at a step twice", []Point{{At: step.Looked}, {At: step.Looked}}, []step.Name{step.Looked, step.Looked}},
		{"in the order of the steps", []Point{{At: step.BeforeWrite}, {At: step.Acquired}}, []step.Name{step.Acquired, step.BeforeWrite}},
		{"only after another", []Point{{At: step.Acquired, After: step.BeforeWrite}}, nil},
		{"after another", []Point{{At: step.Looked, After: step.BeforeRelease}}, []step.Name{step.Looked}},
		{"at a step that does not come", []Point{{At: step.Half}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g gate
			g.set(c.points)
			var got []step.Name
			for at := range passing(t, &g, lap...) {
				got = append(got, at)
				g.open()
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("held at %v, want %v", got, c.want)
			}
		})
	}
}

// TestGateHoldsAfter tells which of several is meant: the point is reached a second time only after the other.
func TestGateHoldsAfter(t *testing.T) {
	var g gate
	g.set([]Point{{At: step.BeforeRelease}, {At: step.Looked, After: step.BeforeRelease}})
	held := passing(t, &g, step.Looked, step.BeforeRelease, step.Looked)
	for _, want := range []step.Name{step.BeforeRelease, step.Looked} {
		if got := <-held; got != want {
			t.Fatalf("held at %q, want %q", got, want)
		}
		g.open()
	}
	<-held
}

// TestGateBeforeTheFirstOperation: a lock may pass steps while it is opened.
func TestGateBeforeTheFirstOperation(t *testing.T) {
	var g gate
	g.open()
	for at := range passing(t, &g, step.Acquired) {
		t.Errorf("held at %s", at)
	}
}

func TestGateAbandoned(t *testing.T) {
	var g gate
	g.set([]Point{{At: step.Acquired}, {At: step.BeforeWrite}})
	held := passing(t, &g, step.Acquired, step.BeforeWrite)
	<-held
	g.abandon()
	if at, more := <-held; more {
		t.Errorf("held again at %s", at)
	}
}
