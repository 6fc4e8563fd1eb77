package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

func TestMasterIsNotKilledWhenNobodyWouldTakeOver(t *testing.T) {
	err := (&Sentinel{cut: time.Now().Add(-promotable)}).KillMaster()
	if err == nil || !strings.Contains(err.Error(), "kill it sooner") {
		t.Errorf("killing it too late after the cut: %v", err)
	}
}

// One of the sentinels has ended, and the others, who have forgotten it, wait for it in vain: that is told at once.
func TestSentinelThatEndedIsNotWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := StartSentinel(ctx)
	if errors.Is(err, backend.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.watchers[0].kill(); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.watchers[1:] {
		conn, err := backend.Dial(ctx, backend.Target{Network: "tcp", Addr: w.addr})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Do(ctx, "sentinel", "reset", watchedName).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.await(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("waiting for a sentinel that has ended: %v, %v", err, ctx.Err())
	}
}
