package servers

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMasterIsNotKilledWhenNobodyWouldTakeOver(t *testing.T) {
	err := (&Sentinel{cut: time.Now().Add(-promotable)}).KillMaster()
	if err == nil || !strings.Contains(err.Error(), "kill it sooner") {
		t.Errorf("killing it too late after the cut: %v", err)
	}
}

// late is a context whose deadline has passed and that has not ended yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

func TestConnectionTimesOutBeforeTheContext(t *testing.T) {
	err := startError(late{t.Context()}, "a server", os.ErrDeadlineExceeded)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a time-out at the context's deadline: %v", err)
	}
	if err = startError(t.Context(), "a server", os.ErrDeadlineExceeded); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a time-out of the connection's own: %v", err)
	}
}
