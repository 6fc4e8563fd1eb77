package step_test

import (
	"context"
	"testing"

	"github.com/marketsim/marketsim/market/step"
)

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
